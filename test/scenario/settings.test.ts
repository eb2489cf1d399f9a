import { describe, expect, it } from "vitest";

import { EXACT_PAGES, startGateway } from "../support/gateway.ts";
import { cacheStatus } from "../support/ask.ts";
import { pageOf } from "../support/upstream.ts";

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
    expect(reply.text).toBe(pageOf(gateway.sandbox, "/sold?limit=2&offset=4", offsetSpelling));
  });
});
