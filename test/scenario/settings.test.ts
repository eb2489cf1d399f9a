import { describe, expect, it } from "vitest";

import { askDirectly } from "../support/direct.ts";
import { EXACT_PAGES, startGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { NO_AREAS, signatureOf, startUpstream } from "../support/upstream.ts";

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

it("the lifetime of an answer ends early if memory is full, the least recently used answer first (cache.maxBytes)", async () => {
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
  expect([giant.status, cacheStatus(giant)]).toEqual([200, expect.objectContaining({ detail: "too-large" })]);
  expect(cacheStatus(giant)["stored"]).toBeUndefined();
  expect(cacheStatus(await gateway.get(path(0)))).toMatchObject({ hit: true });
});

describe("the interface's two spellings of the offset", () => {
  it.each(["offset", "offSet"] as const)("%s passes as it is", async (offsetSpelling) => {
    const gateway = await startGateway({ sandbox: { offsetSpelling } });
    const reply = await gateway.get("/sold?limit=2&offset=4");
    expect(reply.text).toContain(`"${offsetSpelling}":4`);
    expect(reply.text).toBe((await askDirectly(gateway.sandboxUrl, "/sold?limit=2&offset=4")).text);
  });
});
