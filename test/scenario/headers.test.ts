import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
import { describe, expect, it } from "vitest";

import type { Reply } from "../support/ask.ts";
import { LISTING_ID, EXACT_PAGES, startGateway } from "../support/gateway.ts";
import { cacheStatus } from "../support/reply.ts";
import { createSteppingClock } from "../support/stepping-clock.ts";

const PATH = "/listings?areaId=76&limit=20";
/** A thumbnail that the sandbox has. */
const THUMBNAIL = `${LISTING_ID}_70x47`;
const LISTED = 'key="listings?areaId=76&limit=20&offset=0"';
/** Of the connection, not of the response. */
const OF_THE_CONNECTION = new Set(["connection", "keep-alive", "transfer-encoding", "date"]);

function headOf({ headers }: Reply): Record<string, unknown> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !OF_THE_CONNECTION.has(name)));
}

describe("the headers of an answer that several callers waited for", () => {
  it("say collapsed for the callers that joined, and are the same otherwise", async () => {
    const clock = createSteppingClock();
    const gateway = await startGateway({ clock, sandbox: { now: clock.now } });
    gateway.sandbox.hold();
    const first = gateway.get(PATH);
    await gateway.sandbox.waitForRequests(1);
    const second = gateway.get(PATH, { method: "HEAD" });
    await gateway.admitted();
    gateway.sandbox.release();
    expect(cacheStatus(await first)).toMatchObject({ fwd: "miss", stored: true });
    expect((await first).headers["cache-status"]).not.toContain("collapsed");
    expect((await second).headers["cache-status"]).toBe(
      `property-gateway; fwd=miss; fwd-status=200; collapsed; stored; ttl=300; ${LISTED}`,
    );
    expect((await second).headers.etag).toBe((await first).headers.etag);
  });
});

describe("304", () => {
  it("has the headers of the answer without those about the body", async () => {
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

  it("is also sent after a refresh that brought the same answer", async () => {
    const clock = createSteppingClock();
    const gateway = await startGateway({ clock, sandbox: { now: clock.now } });
    const { headers } = await gateway.get(PATH);
    clock.pass(400_000);
    const again = await gateway.get(PATH, { headers: { "if-none-match": headers.etag } });
    expect([again.status, cacheStatus(again)]).toEqual([304, expect.objectContaining({ fwd: "stale" })]);
    expect(gateway.sandbox.requests()).toHaveLength(2);
  });
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

  it("has its own ETag, and every ETag of an answer gives 304 with any encoding", async () => {
    const gateway = await startGateway();
    const tags: (string | undefined)[] = [];
    for (const coding of ["identity", ...Object.keys(DECODERS)]) {
      tags.push((await gateway.get(PATH, { headers: { "accept-encoding": coding } })).headers.etag);
    }
    expect(new Set(tags).size).toBe(4);
    for (const tag of tags) {
      const headers = { "if-none-match": tag, "accept-encoding": "gzip" };
      expect((await gateway.get(PATH, { headers })).status).toBe(304);
    }
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
