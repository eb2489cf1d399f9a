import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
import { describe, expect, it } from "vitest";

import type { AskOptions, Reply } from "../support/ask.ts";
import { LISTING_ID, EXACT_PAGES, startGateway, type TestGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { createSteppingClock } from "../support/stepping-clock.ts";

const PATH = "/listings?areaId=76&limit=20";
const NO_STORE = { "cache-control": "no-store" };
/** A thumbnail that the sandbox has. */
const THUMBNAIL = `${LISTING_ID}_70x47`;
const SETTINGS = 'upstream: { retryDelay: 1ms, passThrough: ["/areas/*"] }';

/** Every kind of response: what is done first, what is asked, and what its head says of it. */
interface Kind {
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly before?: (gateway: TestGateway) => Promise<unknown> | void;
  readonly status: number;
  readonly cacheStatus: string;
  readonly cacheControl: string;
  /** A problem's code, else a media type. */
  readonly is: string;
}

const LISTED = 'key="listings?areaId=76&limit=20&offset=0"';
const LOCAL = { cacheControl: "no-store" };
const FAILED = { path: PATH, cacheControl: "no-store" };
const JSON_TYPE = "application/json";

const KINDS: Record<string, Kind> = {
  "a miss": {
    path: PATH,
    status: 200,
    cacheStatus: `fwd=miss; fwd-status=200; stored; ttl=300; ${LISTED}`,
    cacheControl: "max-age=300",
    is: JSON_TYPE,
  },
  "a hit": {
    path: "/listings/?limit=020&areaId=76",
    before: (gateway) => gateway.get(PATH),
    status: 200,
    cacheStatus: `hit; ttl=300; ${LISTED}; detail=memory`,
    cacheControl: "max-age=300",
    is: JSON_TYPE,
  },
  "what the caller has already": {
    path: PATH,
    headers: { "if-none-match": "*" },
    status: 304,
    cacheStatus: `fwd=miss; fwd-status=200; stored; ttl=300; ${LISTED}`,
    cacheControl: "max-age=300",
    is: "",
  },
  "a frozen version": {
    path: "/areas?q=Nacka",
    headers: { accept: "application/vnd.propertyservice-v2+json" },
    status: 200,
    cacheStatus: 'fwd=miss; fwd-status=200; stored; ttl=86400; key="areas?q=Nacka"',
    cacheControl: "max-age=86400",
    is: "application/vnd.propertyservice-v2+json",
  },
  "a thumbnail": {
    path: `/cache/primary_${THUMBNAIL}.jpg`,
    status: 200,
    cacheStatus: `fwd=miss; fwd-status=200; stored; ttl=86400; key="images/${THUMBNAIL}"`,
    cacheControl: "max-age=86400",
    is: "image/jpeg",
  },
  "a 404 of the upstream": {
    path: "/sold/999999999",
    status: 404,
    cacheStatus: 'fwd=miss; fwd-status=404; stored; ttl=60; key="sold/999999999"',
    cacheControl: "max-age=60",
    is: "not-found",
  },
  "a 404 remembered": {
    path: "/sold/999999999",
    before: (gateway) => gateway.get("/sold/999999999"),
    status: 404,
    cacheStatus: 'hit; ttl=60; key="sold/999999999"; detail=memory',
    cacheControl: "max-age=60",
    is: "not-found",
  },
  "a 400 of the upstream": {
    path: PATH,
    before: ({ sandbox }) => sandbox.faults.add({ status: 400 }),
    status: 400,
    cacheStatus: `fwd=miss; fwd-status=400; stored; ttl=60; ${LISTED}`,
    cacheControl: "max-age=60",
    is: "upstream-rejected",
  },
  "a 400 remembered": {
    path: PATH,
    async before(gateway) {
      gateway.sandbox.faults.add({ status: 400, times: 1 });
      await gateway.get(PATH);
    },
    status: 400,
    cacheStatus: `hit; ttl=60; ${LISTED}; detail=memory`,
    cacheControl: "max-age=60",
    is: "upstream-rejected",
  },
  "what only the cache is asked for, and has not": {
    path: PATH,
    headers: { "cache-control": "only-if-cached" },
    status: 504,
    cacheStatus: "detail=not-in-cache",
    cacheControl: "no-store",
    is: "not-in-cache",
  },
  "a stream of what could be kept": {
    path: PATH,
    headers: NO_STORE,
    status: 200,
    cacheStatus: `fwd=request; fwd-status=200; ${LISTED}`,
    cacheControl: "no-store",
    is: JSON_TYPE,
  },
  "an unknown path": {
    ...LOCAL,
    path: "/nowhere",
    status: 404,
    cacheStatus: "detail=unknown-path",
    is: "unknown-path",
  },
  "a mistaken query": {
    ...LOCAL,
    path: "/areas?lat=200&lng=1",
    status: 400,
    cacheStatus: "detail=invalid-query",
    is: "invalid-query",
  },
  "a format that is not served": {
    ...LOCAL,
    path: PATH,
    headers: { accept: "text/csv" },
    status: 406,
    cacheStatus: "detail=not-acceptable",
    is: "not-acceptable",
  },
  "an expectation": {
    ...LOCAL,
    path: PATH,
    headers: { expect: "100-continue" },
    status: 417,
    cacheStatus: "detail=expectation-failed",
    is: "expectation-failed",
  },
  "a URL that is too long": {
    ...LOCAL,
    path: `/areas?q=${"x".repeat(9_000)}`,
    status: 414,
    cacheStatus: "detail=uri-too-long",
    is: "uri-too-long",
  },
  "a refusal of our key": {
    ...FAILED,
    before: ({ sandbox }) => sandbox.setCaller({ privateKey: "another" }),
    status: 502,
    cacheStatus: "fwd=miss; detail=upstream-authentication-failed",
    is: "upstream-authentication-failed",
  },
  "a failure of the upstream": {
    ...FAILED,
    before: ({ sandbox }) => sandbox.faults.add({ status: 500 }),
    status: 502,
    cacheStatus: "fwd=miss; detail=upstream-error",
    is: "upstream-error",
  },
  "a failure of the upstream, streamed": {
    ...FAILED,
    headers: NO_STORE,
    before: ({ sandbox }) => sandbox.faults.add({ status: 503, retryAfter: "9" }),
    status: 503,
    cacheStatus: "fwd=miss; detail=upstream-unavailable",
    is: "upstream-unavailable",
  },
};

/** The clock does not move, so the remaining lifetime is the whole one. */
async function responseTo(kind: Kind, method: string, clock = createSteppingClock()): Promise<Reply> {
  const gateway = await startGateway({
    settings: SETTINGS,
    clock,
    sandbox: { now: clock.now },
    env: EXACT_PAGES,
  });
  await kind.before?.(gateway);
  const options: AskOptions = { method, headers: { "x-request-id": "asked-for", ...kind.headers } };
  return await gateway.get(kind.path, options);
}

/** Of the connection, not of the response. */
const OF_THE_CONNECTION = new Set(["connection", "keep-alive", "transfer-encoding", "date"]);

function headOf({ headers }: Reply): Record<string, unknown> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !OF_THE_CONNECTION.has(name)));
}

const MAY_BE_THERE = new Set([
  "x-request-id",
  "cache-status",
  "age",
  "cache-control",
  "etag",
  "vary",
  "content-type",
  "content-length",
  "last-modified",
  "link",
  "retry-after",
  "ratelimit-policy",
  "ratelimit",
]);

describe.each(Object.entries(KINDS))("the headers of %s", (_name, kind) => {
  it("have Cache-Status, Age, Cache-Control and X-Request-Id", async () => {
    const reply = await responseTo(kind, "GET");
    expect(reply.status).toBe(kind.status);
    expect(reply.headers["cache-status"]).toBe(`property-gateway; ${kind.cacheStatus}`);
    expect(cacheStatus(reply)).toBeDefined();
    expect(reply.headers).toMatchObject({
      age: "0",
      "cache-control": kind.cacheControl,
      "x-request-id": "asked-for",
    });
    // Requests for a resource have the app's share in their headers.
    const isRefusedEarly = ["unknown-path", "expectation-failed", "uri-too-long"].includes(kind.is);
    expect("ratelimit" in reply.headers).toBe(!isRefusedEarly);
    if (/^[a-z-]+$/.test(kind.is)) expect(problemCode(reply)).toBe(kind.is);
    else expect(reply.headers["content-type"] ?? "").toBe(kind.is);
    // Nothing can be computed of a body that is not held.
    const isStream = kind.cacheControl === "no-store" && kind.status === 200;
    expect(reply.headers.etag ?? "").toMatch(isStream ? /^$/ : /^"[\w-]{22}"$/);
    if (kind.cacheControl !== "no-store") expect(reply.headers.vary).toBe("Accept, Accept-Encoding");
    expect(Object.keys(headOf(reply)).filter((name) => !MAY_BE_THERE.has(name))).toEqual([]);
  });

  it("are the same for HEAD", async () => {
    const clock = createSteppingClock();
    const [get, head] = [await responseTo(kind, "GET", clock), await responseTo(kind, "HEAD", clock)];
    expect(head.status).toBe(get.status);
    expect(headOf(head)).toEqual(headOf(get));
    expect(head.body).toHaveLength(0);
    if (get.status !== 304) expect(get.body).toHaveLength(Number(get.headers["content-length"]));
  });
});

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
