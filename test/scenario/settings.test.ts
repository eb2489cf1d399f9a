import { describe, expect, it } from "vitest";

import { askDirectly } from "../support/direct.ts";
import { LISTING_ID, EXACT_PAGES, startGateway, type TestGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { createSteppingClock } from "../support/stepping-clock.ts";
import { NO_AREAS, signatureOf, startUpstream } from "../support/upstream.ts";

/** What the upstream was asked, without signatures. */
function asked({ sandbox }: TestGateway): string[] {
  return sandbox.requests().map(({ path, query }) => `${path}?${query}`);
}

describe("an undocumented parameter", () => {
  it("is refused with what may be meant, and costs no call", async () => {
    const gateway = await startGateway();
    const reply = await gateway.get("/sold?minListPrice=5&zoom=3&_=1&hash=x&utm_source=mail&format=json");
    expect(problemCode(reply)).toBe("invalid-query");
    const expected = "a documented parameter";
    expect(reply.json()).toMatchObject({
      errors: [
        {
          parameter: "minListPrice",
          value: "5",
          expected,
          hint: "minListPrice is a parameter of /listings; did you mean minSoldPrice?",
        },
        { parameter: "zoom", value: "3", expected },
      ],
    });
    expect(asked(gateway)).toEqual([]);
  });

  it.each(["query: { allow: [zoom, aä] }", "query: { unknown: forward }"])(
    "is sent with %s, sorted by name, and is part of the question",
    async (settings) => {
      const gateway = await startGateway({ settings });
      const sent = "/areas?q=Nacka&a%C3%A4=x%26y&zoom=3&zoom=1";
      const reply = await gateway.get("/areas?zoom=3&q=Nacka&a%C3%A4=x%26y&zoom=1&_=17&key=k");
      expect(cacheStatus(reply)).toMatchObject({ fwd: "miss", key: sent.slice(1) });
      const otherOrder = await gateway.get("/areas?a%c3%a4=x%26y&zoom=3&key=other&q=Nacka&zoom=1");
      expect(cacheStatus(otherOrder)).toMatchObject({ hit: true });
      for (const extra of ["", "&zoom=1", "&zoom=01", "&zoom=", "&zoom=1&zoom=1"])
        expect(cacheStatus(await gateway.get(`/areas?q=Nacka${extra}`))).toMatchObject({ fwd: "miss" });
      expect(asked(gateway)[0]).toBe(sent);
    },
  );
});

describe("exceptions that the API's owner has granted", () => {
  it("are a larger limit and larger thumbnails", async () => {
    const upstream = await startUpstream((response) => {
      const isImage = response.req.url?.startsWith("/cache");
      response.end(isImage ? Buffer.from([0xff, 0xd8, 0, 0xff, 0xd9]) : NO_AREAS);
    });
    const settings = "query: { maxLimit: 1000, maxImageSize: 800x600 }";
    const gateway = await startGateway({ env: upstream.env, settings });
    for (const [path, status] of [
      ["/areas?limit=1000", 200],
      ["/areas?limit=1001", 400],
      ["/cache/primary_7_800x600.jpg", 200],
      ["/cache/primary_7_801x600.jpg", 400],
    ] as const)
      expect([path, (await gateway.get(path)).status]).toEqual([path, status]);
    expect((await startGateway().then(({ get }) => get("/areas?limit=501"))).status).toBe(400);
  });
});

describe("the path of a single record", () => {
  it("is upstream.recordPath, for callers and for the upstream", async () => {
    const upstream = await startUpstream((response) => void response.end('{"sold":[{"serviceId":7}]}'));
    const settings = 'upstream: { recordPath: "/{resource}/show/{serviceId}" }';
    const gateway = await startGateway({ env: upstream.env, settings });
    expect((await gateway.get("/sold/show/07")).text).toBe('{"sold":[{"serviceId":7}]}');
    expect(upstream.seen.map((seen) => signatureOf(seen).question)).toEqual(["/sold/show/7"]);
    expect(problemCode(await gateway.get("/sold/7"))).toBe("unknown-path");
  });
});

describe("the lifetime of an answer", () => {
  it.each([
    ["listings", "/listings?limit=1", 300],
    ["sold", "/sold?limit=1", 3_600],
    ["areas", "/areas?limit=1", 86_400],
    ["single records", `/listings/${LISTING_ID}`, 600],
    ["thumbnails", `/cache/primary_${LISTING_ID}_10x10.jpg`, 86_400],
    ["what is not there", "/sold/1", 60],
  ])("is the one of %s", async (_name, path, seconds) => {
    const clock = createSteppingClock();
    const settings = "cache: { staleWhileRevalidate: 0s }";
    const gateway = await startGateway({ clock, sandbox: { now: clock.now }, settings });
    expect((await gateway.get(path)).headers["cache-control"]).toBe(`max-age=${seconds}`);
    clock.pass(seconds * 1000 - 1);
    const last = await gateway.get(path);
    expect(cacheStatus(last)).toMatchObject({ hit: true, ttl: "0" });
    expect(last.headers).toMatchObject({ age: String(seconds - 1), "cache-control": "max-age=0" });
    clock.pass(1);
    expect(cacheStatus(await gateway.get(path))).toMatchObject({
      fwd: "stale",
      ttl: expect.toBeOneOf([String(seconds), String(seconds - 1)]),
    });
    expect(gateway.sandbox.requests()).toHaveLength(2);
  });

  it("is a setting for each resource (CACHE_TTL, cache.negativeTtl)", async () => {
    const gateway = await startGateway({
      clock: createSteppingClock(),
      env: { CACHE_TTL: "listings=7s,records=8s,images=9s" },
      settings: "cache: { negativeTtl: 3s }",
    });
    const lives = await Promise.all(
      ["/listings", `/listings/${LISTING_ID}`, `/cache/primary_${LISTING_ID}_1x1.jpg`, "/sold/1"].map(
        async (path) => (await gateway.get(path)).headers["cache-control"],
      ),
    );
    expect(lives).toEqual(["max-age=7", "max-age=8", "max-age=9", "max-age=3"]);
    const single = await startGateway({ clock: createSteppingClock(), settings: "cache: { ttl: 7s }" });
    for (const path of ["/sold", `/listings/${LISTING_ID}`])
      expect((await single.get(path)).headers["cache-control"]).toBe("max-age=7");
  });

  it.each([
    ["is no longer than it is kept at all (cache.retention)", "cache: { retention: 2m }", "max-age=120"],
    [
      "is no longer than any answer may be old (cache.maxAgeEver)",
      "cache: { maxAgeEver: 90s }",
      "max-age=90",
    ],
  ])("%s", async (_name, settings, lives) => {
    const clock = createSteppingClock();
    const gateway = await startGateway({ clock, sandbox: { now: clock.now }, settings });
    const { headers } = await gateway.get("/listings?limit=1");
    expect(headers["cache-control"]).toBe(lives);
    clock.pass(120_001);
    gateway.sandbox.faults.add({ status: 500 });
    expect(problemCode(await gateway.get("/listings?limit=1"))).toBe("upstream-error");
  });

  it("ends early if memory is full, the least recently used answer first (cache.maxBytes)", async () => {
    const gateway = await startGateway({ settings: "cache: { maxBytes: 1MiB }", env: EXACT_PAGES });
    const path = (n: number): string => `/listings?limit=100&offset=${n}`;
    await gateway.get(path(0));
    for (let n = 1; n < 25; n++) {
      expect((await gateway.get(path(n))).status).toBe(200);
      // Used again and again, it stays.
      expect(cacheStatus(await gateway.get(path(0)))).toMatchObject({ hit: true });
    }
    expect(await gateway.metric('gateway_cache_bytes{tier="memory"}')).toBeLessThanOrEqual(1_048_576);
    expect(await gateway.metric('gateway_cache_evictions_total{tier="memory"}')).toBeGreaterThan(0);
    expect(cacheStatus(await gateway.get(path(1)))).toMatchObject({ fwd: "miss" });
    // What would take the place of many others is passed on and not kept.
    const giant = await gateway.get("/listings?limit=500");
    expect([giant.status, cacheStatus(giant)]).toEqual([
      200,
      expect.objectContaining({ detail: "too-large" }),
    ]);
    expect(cacheStatus(giant)["stored"]).toBeUndefined();
    expect(cacheStatus(await gateway.get(path(0)))).toMatchObject({ hit: true });
  });
});

describe("the interface's two spellings of the offset", () => {
  it.each(["offset", "offSet"] as const)("%s passes as it is", async (offsetSpelling) => {
    const gateway = await startGateway({ sandbox: { offsetSpelling } });
    const reply = await gateway.get("/sold?limit=2&offset=4");
    expect(reply.text).toContain(`"${offsetSpelling}":4`);
    expect(reply.text).toBe((await askDirectly(gateway.sandboxUrl, "/sold?limit=2&offset=4")).text);
  });
});

describe("the longest URL", () => {
  it("is a setting, counted to the byte (server.maxUrlBytes)", async () => {
    const gateway = await startGateway({ settings: "server: { maxUrlBytes: 1024 }" });
    const target = `/areas?q=${"x".repeat(1024 - "/areas?q=".length)}`;
    expect((await gateway.get(target)).status).toBe(200);
    expect(problemCode(await gateway.get(`${target}x`))).toBe("uri-too-long");
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });
});
