import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
import { describe, expect, it } from "vitest";

import type { Reply } from "../support/ask.ts";
import { LISTING_ID, EXACT_PAGES, startGateway } from "../support/gateway.ts";
import { cacheStatus } from "../support/reply.ts";
import { createSteppingClock } from "../support/stepping-clock.ts";

const PATH = "/listings?areaId=76&limit=20";
/** A thumbnail that the sandbox has. */
const THUMBNAIL = `${LISTING_ID}_70x47`;
/** Of the connection, not of the response. */
const OF_THE_CONNECTION = new Set(["connection", "keep-alive", "transfer-encoding", "date"]);

function headOf({ headers }: Reply): Record<string, unknown> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !OF_THE_CONNECTION.has(name)));
}

it("304 has the headers of the answer without those about the body", async () => {
  const clock = createSteppingClock();
  const gateway = await startGateway({ clock, sandbox: { now: clock.now } });
  await gateway.get(PATH);
  const headers = { "accept-encoding": "br" };
  const whole = await gateway.get(PATH, { headers });
  for (const method of ["GET", "HEAD"]) {
    const unchanged = await gateway.get(PATH, {
      method,
      headers: { ...headers, "if-none-match": whole.headers.etag, "x-request-id": "again" },
    });
    expect([unchanged.status, unchanged.body.length]).toEqual([304, 0]);
    const { "content-type": _type, "content-encoding": _coding, ...rest } = headOf(whole);
    const { "content-length": _length, ...expected } = rest;
    expect(headOf(unchanged)).toEqual({ ...expected, "x-request-id": "again" });
  }
});

describe("a content encoding", () => {
  const DECODERS = { gzip: gunzipSync, br: brotliDecompressSync, zstd: zstdDecompressSync };

  it("is computed once and cached with the answer", async () => {
    const gateway = await startGateway({ env: EXACT_PAGES });
    const bytesHeld = (): Promise<number> => gateway.metric('gateway_cache_bytes{tier="memory"}');
    const plain = await gateway.get(PATH);
    const before = await bytesHeld();
    const codings = Object.keys(DECODERS);
    const atOnce = await Promise.all(
      [...codings, ...codings, ...codings].map((coding) =>
        gateway.get(PATH, { headers: { "accept-encoding": coding } }),
      ),
    );
    const sizes = new Map(atOnce.map((reply) => [reply.headers["content-encoding"], reply.body.length]));
    const headsBytes = 1_024;
    const made = [...sizes.values()].reduce((sum, size) => sum + size + headsBytes, 0);
    expect(sizes.size).toBe(3);
    expect(await bytesHeld()).toBe(before + made);
    for (const [coding, decode] of Object.entries(DECODERS)) {
      const reply = await gateway.get(PATH, { headers: { "accept-encoding": coding } });
      expect(cacheStatus(reply)).toMatchObject({ hit: true });
      expect(decode(reply.body).equals(plain.body)).toBe(true);
      expect(reply.body.length).toBeLessThan(plain.body.length / 2);
    }
    expect(await bytesHeld()).toBe(before + made);
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });

  it("and a whole page of a search fetched by itself have the same ETag as one cut from a block", async () => {
    const [cut, exact] = [await startGateway(), await startGateway({ env: EXACT_PAGES })];
    expect((await cut.get(`${PATH}&offset=40`)).headers.etag).toBe(
      (await exact.get(`${PATH}&offset=40`)).headers.etag,
    );
  });

  it.each([
    ["a small answer", "/areas?q=Nacka&limit=1"],
    ["a thumbnail", `/cache/primary_${THUMBNAIL}.jpg`],
    ["a problem", "/listings?limit=501"],
  ])("is not used for %s", async (_name, path) => {
    const gateway = await startGateway();
    const reply = await gateway.get(path, { headers: { "accept-encoding": "zstd, br, gzip" } });
    expect(reply.headers["content-encoding"]).toBeUndefined();
    expect(reply.body).toHaveLength(Number(reply.headers["content-length"]));
  });
});
