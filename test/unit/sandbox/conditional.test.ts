import { describe, expect, it } from "vitest";

import type { Sandbox } from "../../../src/sandbox/sandbox.ts";
import { CALLER, DATA, NOW_MS, call, parsed, signed, started } from "./support.ts";
import type { Reply } from "./support.ts";

const LISTING = DATA.listings[0]!.record;
const IMAGE = `/cache/primary_${LISTING.serviceId}_40x30.jpg`;
const START = new Date(NOW_MS - 3_600_000).toUTCString();

type Ask = (path: string, headers?: Record<string, string>) => Promise<Reply>;

/** A sandbox with validators, and a caller that signs what needs it. */
async function validating(
  validators: "none" | "etag" | "last-modified" | "both",
  now?: () => number,
): Promise<{ sandbox: Sandbox; url: string; ask: Ask }> {
  const { sandbox, url } = await started(now && { now });
  sandbox.set({ validators });
  const ask: Ask = (path, headers = {}) =>
    call(url + (path.startsWith("/cache/") ? path : signed(path)), {
      headers: { Accept: "application/json", ...headers },
    });
  return { sandbox, url, ask };
}

function shown({ headers }: Reply): unknown[] {
  return [headers.etag, headers["last-modified"]];
}

describe("validators", () => {
  it.each([
    ["none", undefined, undefined],
    ["etag", expect.stringMatching(/^"[\w-]{27}"$/), undefined],
    ["last-modified", undefined, START],
    ["both", expect.stringMatching(/^"[\w-]{27}"$/), START],
  ] as const)("of kind %s are sent with lists, records and thumbnails", async (kind, tag, date) => {
    const { ask } = await validating(kind);
    for (const path of ["/sold?limit=2", "/areas?q=nacka", `/listings/${LISTING.serviceId}`, IMAGE]) {
      const reply = await ask(path);
      expect(reply.status).toBe(200);
      expect(shown(reply)).toEqual([tag, date]);
    }
  });

  it("are not sent with other answers", async () => {
    const { url, ask, sandbox } = await validating("both");
    sandbox.faults.add({ status: 200, pathPrefix: "/areas" }, { wrongJson: true, pathPrefix: "/sold" });
    const replies = [
      await call(`${url}/listings`),
      await ask("/listings/1"),
      await ask("/listings?limit=501"),
      await ask("/listings", { Accept: "text/html" }),
      await ask("/areas"),
      await ask("/sold"),
    ];
    expect(replies.map(({ status }) => status)).toEqual([403, 404, 400, 406, 200, 200]);
    for (const reply of replies) expect(shown(reply)).toEqual([undefined, undefined]);
  });

  it("are the same for the same answer, whatever its signature", async () => {
    const { sandbox, url, ask } = await validating("both");
    const first = await ask("/sold?limit=2");
    expect(shown(await ask("/sold?limit=2"))).toEqual(shown(first));
    sandbox.setCaller({ privateKey: "turned" });
    expect((await ask("/sold?limit=2")).status).toBe(403);
    sandbox.setCaller(CALLER);
    expect(shown(await call(url + signed("/sold?limit=2", { time: String(NOW_MS / 1000 - 9) })))).toEqual(
      shown(first),
    );
  });

  it("differ between answers, media types and encodings", async () => {
    const { ask } = await validating("etag");
    const tags = [
      await ask("/sold?limit=2"),
      await ask("/sold?limit=3"),
      await ask("/sold?limit=2", { Accept: "application/vnd.propertyservice-v2+json" }),
      await ask("/sold?limit=2", { "Accept-Encoding": "gzip" }),
    ].map(({ headers }) => headers.etag);
    expect(new Set(tags).size).toBe(4);
  });

  it("never have a Last-Modified after the Date", async () => {
    const { sandbox, ask } = await validating("last-modified");
    sandbox.faults.add({ clockSkewSeconds: -7200 });
    // The signature has to be of the sandbox's time, which pictures do not ask for.
    const { headers } = await ask(IMAGE);
    expect(headers["last-modified"]).toBe(new Date(NOW_MS - 7_200_000).toUTCString());
    expect(headers["last-modified"]).toBe(headers.date);
  });
});

describe("a conditional request", () => {
  it.each([["/sold?limit=2"], [IMAGE]])("for %s gets a 304 without body", async (path) => {
    const { sandbox, ask } = await validating("both");
    const first = await ask(path, { "Accept-Encoding": "gzip" });
    const again = await ask(path, { "Accept-Encoding": "gzip", "If-None-Match": first.headers.etag! });
    expect(again).toMatchObject({ status: 304, text: "" });
    expect(shown(again)).toEqual(shown(first));
    expect(again.headers.vary).toBe(first.headers.vary);
    expect(again.headers).not.toHaveProperty("content-type");
    expect(again.headers).not.toHaveProperty("content-encoding");
    expect(again.headers).not.toHaveProperty("content-length");
    expect(sandbox.requests().map(({ conditional, status }) => [conditional, status])).toEqual([
      [false, 200],
      [true, 304],
    ]);
  });

  const OLD = "Sun, 06 Nov 1994 08:49:37 GMT";
  const LATER = new Date(NOW_MS).toUTCString();

  it.each<["none" | "etag" | "last-modified" | "both", Record<string, string>, number]>([
    ["etag", { "If-None-Match": "TAG" }, 304],
    ["etag", { "If-None-Match": "W/TAG" }, 304],
    ["etag", { "If-None-Match": '"a, b" , TAG' }, 304],
    ["etag", { "If-None-Match": "*" }, 304],
    ["etag", { "If-None-Match": '"another"' }, 200],
    ["etag", { "If-None-Match": "nonsense" }, 200],
    ["etag", { "If-Modified-Since": LATER }, 200],
    ["last-modified", { "If-Modified-Since": START }, 304],
    ["last-modified", { "If-Modified-Since": LATER }, 304],
    ["last-modified", { "If-Modified-Since": OLD }, 200],
    ["last-modified", { "If-Modified-Since": "yesterday" }, 200],
    ["last-modified", { "If-Modified-Since": "2030" }, 200],
    ["last-modified", { "If-None-Match": "TAG", "If-Modified-Since": START }, 200],
    ["both", { "If-None-Match": "TAG", "If-Modified-Since": OLD }, 304],
    ["both", { "If-None-Match": '"another"', "If-Modified-Since": START }, 200],
    ["both", { "If-Modified-Since": START }, 304],
    ["none", { "If-None-Match": "TAG" }, 200],
    ["none", { "If-None-Match": "*", "If-Modified-Since": LATER }, 200],
  ])("to a sandbox with validators %s, with %j: %i", async (validators, conditions, status) => {
    const { sandbox, ask } = await validating("etag");
    const { etag } = (await ask("/sold?limit=2")).headers;
    sandbox.set({ validators });
    const headers = Object.fromEntries(
      Object.entries(conditions).map(([name, value]) => [name, value.replace("TAG", etag!)]),
    );
    expect((await ask("/sold?limit=2", headers)).status).toBe(status);
  });

  it("is checked for its signature, its format and its record first", async () => {
    const { url, ask } = await validating("both");
    const headers = { Accept: "application/json", "If-None-Match": "*" };
    expect((await call(url + signed("/sold", { hash: "0".repeat(40) }), { headers })).status).toBe(403);
    expect((await ask("/sold", { ...headers, Accept: "text/html" })).status).toBe(406);
    expect((await ask("/sold/1", headers)).status).toBe(404);
    const address = url + signed("/sold");
    expect((await call(address, { headers })).status).toBe(304);
    // A 304 spends its unique as any answer does.
    expect((await call(address, { headers })).status).toBe(403);
  });

  it("gets faults like any other request", async () => {
    const { sandbox, ask } = await validating("both");
    const conditional = { "If-None-Match": "*" };
    sandbox.faults.add(
      { status: 503, times: 1 },
      { cutBody: true, times: 1 },
      { wrongEnvelope: true, times: 1 },
    );
    expect((await ask("/sold", conditional)).status).toBe(503);
    await expect(ask("/sold", conditional)).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(parsed(await ask("/sold", conditional))).toHaveProperty("result");
    expect((await ask("/sold", conditional)).status).toBe(304);
    expect(sandbox.requests().map(({ status }) => status)).toEqual([503, 200, 200, 304]);
  });
});

describe("further headers", () => {
  it("are added to normal answers and 304 only", async () => {
    const { sandbox, url, ask } = await validating("etag");
    sandbox.faults.add({ headers: { "Cache-Control": "max-age=30", age: "100" } });
    const { headers } = await ask("/sold");
    expect(headers).toMatchObject({ "cache-control": "max-age=30", age: "100" });
    const again = await ask("/sold", { "If-None-Match": headers.etag! });
    expect(again).toMatchObject({ status: 304, headers: { "cache-control": "max-age=30", age: "100" } });
    expect((await ask(IMAGE)).headers).toMatchObject({ "cache-control": "max-age=30" });
    for (const reply of [await call(`${url}/sold`), await ask("/sold/1"), await ask("/nowhere")]) {
      expect(reply.headers).not.toHaveProperty("cache-control");
    }
  });

  it("add up, combine with other faults, apply to their path only, and end", async () => {
    const { sandbox, ask } = await validating("none");
    sandbox.faults.add(
      { headers: { "cache-control": "max-age=30", age: "1" }, pathPrefix: "/sold" },
      { headers: { Age: "2" }, times: 1 },
      { status: 503, times: 1, pathPrefix: "/areas" },
      { oversizeBytes: 500_000, times: 1 },
    );
    expect((await ask("/areas")).status).toBe(503);
    const large = await ask("/sold?limit=1");
    expect(large.body).toHaveLength(500_000);
    expect(large.headers).toMatchObject({ "cache-control": "max-age=30", age: "1" });
    sandbox.faults.add({ headers: { Age: "2" }, times: 1 });
    expect((await ask("/sold")).headers).toMatchObject({ "cache-control": "max-age=30", age: "2" });
    expect((await ask("/sold")).headers).toMatchObject({ age: "1" });
    expect((await ask("/listings")).headers).not.toHaveProperty("age");
  });

  it("replace the answer's own headers, validators included", async () => {
    const { sandbox, ask } = await validating("both");
    sandbox.faults.add({ headers: { etag: 'W/"own"', vary: "*", "content-type": "text/html" } });
    const reply = await ask("/sold", { "Accept-Encoding": "gzip" });
    expect(reply.headers).toMatchObject({ etag: 'W/"own"', vary: "*", "content-type": "text/html" });
    expect((await ask("/sold", { "If-None-Match": '"own"' })).status).toBe(304);
  });
});

describe("a respelled answer", () => {
  it.each(["/listings?limit=3&q=nacka", "/areas?q=nacka", `/listings/${LISTING.serviceId}`])(
    "at %s has the same meaning in other bytes, with another ETag",
    async (path) => {
      const { sandbox, ask } = await validating("both");
      const plain = await ask(path);
      sandbox.faults.add({ respell: true, times: 2 });
      const other = await ask(path);
      expect(parsed(other)).toEqual(parsed(plain));
      expect(other.text).not.toBe(plain.text);
      expect(Object.keys(parsed(other))).toEqual(Object.keys(parsed(plain)).toReversed());
      expect(other.headers.etag).not.toBe(plain.headers.etag);
      expect(other.headers["content-length"]).toBe(String(other.body.length));
      expect((await ask(path, { "If-None-Match": plain.headers.etag! })).status).toBe(200);
      expect((await ask(path)).text).toBe(plain.text);
    },
  );

  it("has no escaped slashes", async () => {
    const { sandbox, ask } = await validating("none");
    sandbox.faults.add({ respell: true });
    const { text } = await ask("/listings?limit=1");
    expect(text).toContain("https://");
    expect(text).not.toContain(String.raw`\/`);
  });

  it("combines with other faults; thumbnails and refusals do not change", async () => {
    const { sandbox, url, ask } = await validating("none");
    const [picture, refusal] = [await ask(IMAGE), await call(`${url}/sold`)];
    sandbox.faults.add({ respell: true }, { status: 503, times: 1 });
    expect((await ask("/sold")).status).toBe(503);
    expect((await ask(IMAGE)).body).toEqual(picture.body);
    expect((await call(`${url}/sold`)).body).toEqual(refusal.body);
  });
});
