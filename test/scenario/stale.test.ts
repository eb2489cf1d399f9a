import { describe, expect, it } from "vitest";

import { LISTING_ID, startGateway, type TestGateway, type TestGatewayOptions } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { createSteppingClock, type SteppingClock } from "../support/stepping-clock.ts";

/** Fresh for 300 s. */
const PATH = "/listings?areaId=76&limit=20";
const KEY = "listings?areaId=76&limit=20&offset=0";

/** A gateway that may ask the upstream once in a day. */
async function startPoor(
  options: TestGatewayOptions = {},
): Promise<{ gateway: TestGateway; clock: SteppingClock }> {
  const clock = createSteppingClock();
  const gateway = await startGateway({
    clock,
    sandbox: { now: clock.now },
    ...options,
    env: { BUDGET: "1/1d", ...options.env },
  });
  return { gateway, clock };
}

describe("when the budget is spent", () => {
  it("a caller gets the stale answer with its age and the reason", async () => {
    const { gateway, clock } = await startPoor();
    const first = await gateway.get(PATH);
    clock.pass(712_000);
    const stale = await gateway.get(PATH);
    expect(stale.status).toBe(200);
    expect(stale.text).toBe(first.text);
    expect(cacheStatus(stale)["hit"]).toBe(true);
    expect(stale.headers).toMatchObject({
      "cache-status": `property-gateway; hit; ttl=-412; key="${KEY}"; detail=temporary-reduced-capacity`,
      age: "712",
      "cache-control": "max-age=0",
      etag: first.headers.etag,
      vary: "Accept, Accept-Encoding",
    });
    expect(stale.headers["retry-after"]).toBeUndefined();
    expect(gateway.sandbox.requests()).toHaveLength(1);
    // Counted when a response has ended, which may be after its caller has read it.
    const series = 'gateway_requests_total{app="other",resource="listings",outcome="stale",status="200"}';
    await expect.poll(() => gateway.metric(series)).toBe(1);
  });

  it("simultaneous callers get it", async () => {
    const { gateway, clock } = await startPoor();
    await gateway.get(PATH);
    clock.pass(400_000);
    const replies = await Promise.all(Array.from({ length: 20 }, () => gateway.get(PATH)));
    for (const reply of replies) {
      expect([reply.status, cacheStatus(reply)]).toEqual([200, expect.objectContaining({ ttl: "-100" })]);
    }
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });

  it("thumbnails are served stale when their own budget is spent", async () => {
    const { gateway, clock } = await startPoor({
      settings: 'budget: { images: "1/2d" }\ncache: { ttl: { images: 1h } }',
    });
    const path = `/cache/primary_${LISTING_ID}_10x10.jpg`;
    const first = await gateway.get(path);
    clock.pass(3_601_000);
    const stale = await gateway.get(path);
    expect(cacheStatus(stale)).toMatchObject({ hit: true, ttl: "-1" });
    expect(stale.body.equals(first.body)).toBe(true);
  });

  it("a stream gets no stale answer", async () => {
    const { gateway, clock } = await startPoor();
    await gateway.get(PATH);
    clock.pass(400_000);
    const streamed = await gateway.get(PATH, { headers: { "cache-control": "no-store" } });
    expect(problemCode(streamed)).toBe("temporary-reduced-capacity");
  });

  it("the new answer is fetched as soon as a permit is free", async () => {
    const { gateway, clock } = await startPoor({ env: { BUDGET: "1/10m" } });
    await gateway.get(PATH);
    clock.pass(400_000);
    expect(cacheStatus(await gateway.get(PATH))).toMatchObject({ hit: true, ttl: "-100" });
    clock.pass(200_001);
    expect(cacheStatus(await gateway.get(PATH))).toMatchObject({ fwd: "stale", stored: true, ttl: "300" });
  });
});
