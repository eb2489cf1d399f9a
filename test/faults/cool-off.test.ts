/** An upstream that asks to be left alone, or cannot be reached. */
import { describe, expect, it } from "vitest";

import { ask } from "../support/ask.ts";
import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";

interface Timed {
  readonly gateway: TestGateway;
  readonly clock: FakeClock;
}

async function startTimed(settings = ""): Promise<Timed> {
  const clock = createFakeClock();
  const gateway = await startGateway({
    clock,
    sandbox: { now: clock.now },
    env: { CACHE_TTL: "listings=1s,areas=1s" },
    settings,
  });
  return { gateway, clock };
}

const circuit = (gateway: TestGateway, name: string): Promise<number> =>
  gateway.metric(`gateway_circuit_state{circuit="${name}"}`);

describe("an upstream that asks to slow down", () => {
  it("with an absurd time is tried again after the longest that is set", async () => {
    const { gateway, clock } = await startTimed("budget: { maxCoolOff: 2m }");
    gateway.sandbox.faults.add({ status: 429, retryAfter: "99999999", times: 1 });
    // The one that heard it is told no more than those who come after it.
    for (const q of ["a", "b"])
      expect((await gateway.get(`/areas?q=${q}`)).headers["retry-after"]).toBe("120");
    await clock.advance(120_000);
    expect((await gateway.get("/areas?q=b")).status).toBe(200);
  });

  it("for one resource is still asked for the others, and for pictures", async () => {
    const { gateway } = await startTimed();
    gateway.sandbox.faults.add({ status: 503, retryAfter: "60", times: 1 });
    expect(problemCode(await gateway.get("/sold?areaId=76"))).toBe("upstream-unavailable");
    expect(problemCode(await gateway.get("/sold?areaId=1"))).toBe("upstream-unavailable");
    expect((await gateway.get("/listings?areaId=76")).status).toBe(200);
    expect(await circuit(gateway, "api/sold")).toBe(2);
    expect(await circuit(gateway, "api/listings")).toBe(0);
    expect(gateway.sandbox.requests()).toHaveLength(2);
  });

  it("leaves callers what was known before, marked as old", async () => {
    const { gateway, clock } = await startTimed("cache: { staleWhileRevalidate: 0s }");
    await gateway.get("/areas?q=known");
    await clock.advance(100_000);
    gateway.sandbox.faults.add({ status: 429, retryAfter: "60", times: 1 });
    await gateway.get("/areas?q=other");
    const stale = await gateway.get("/areas?q=known");
    expect(stale.status).toBe(200);
    expect(stale.headers.age).toBe("100");
    expect(cacheStatus(stale)).toMatchObject({ hit: true, ttl: "-99", detail: "upstream-unavailable" });
    const budget = (await ask(`${gateway.adminUrl}/budget`)).json();
    expect(budget).toMatchObject({
      api: { circuits: [{ scope: "origin", state: "open", cause: "too-many-requests" }] },
    });
  });
});

describe("an upstream that takes no connections", () => {
  it("or takes them and sends nothing is left alone as well: then nobody waits who can be given a stale answer", async () => {
    const gateway = await startGateway({
      settings: `upstream: { headerTimeout: 50ms, retryDelay: 1ms }
cache: { ttl: 1ms, staleWhileRevalidate: 0s, maxWaitForFresh: 5s }`,
    });
    const known = ["a", "b", "c", "d"].map((q) => `/areas?q=${q}`);
    for (const path of known) await gateway.get(path);
    const before = gateway.sandbox.requests().length;
    gateway.sandbox.faults.add({ hang: "headers" });
    for (const path of known.slice(0, 3))
      expect(cacheStatus(await gateway.get(path))).toMatchObject({ hit: true, detail: "upstream-timeout" });
    expect(await circuit(gateway, "api/all")).toBe(2);
    const atOnce = await gateway.get("/areas?q=d");
    expect(cacheStatus(atOnce)).toMatchObject({ hit: true, detail: "upstream-unavailable" });
    expect(gateway.sandbox.requests()).toHaveLength(before + 3);
  });

  it("for 40 seconds is asked again within 15, and callers that ask while that call is out are answered", async () => {
    const { gateway, clock } = await startTimed();
    const port = Number(new URL(gateway.sandboxUrl).port);
    await gateway.sandbox.close();
    for (let second = 0; second < 40; second++) {
      expect((await gateway.get(`/areas?q=${second}`)).status).toBeGreaterThanOrEqual(502);
      await clock.advance(1_000);
    }
    await gateway.sandbox.listen(port);
    let waited = 0;
    while ((await gateway.get("/areas?q=probe")).status !== 200) {
      await clock.advance(1_000);
      waited++;
    }
    expect(waited).toBeLessThanOrEqual(17);
    await gateway.sandbox.close();
    for (let q = 0; q < 3; q++) await gateway.get(`/areas?q=gone-${q}`);
    expect(await circuit(gateway, "api/all")).toBe(2);
    await gateway.sandbox.listen(port);
    await clock.advance(2_000);
    gateway.sandbox.hold();
    const asked = Array.from({ length: 10 }, (_, q) => gateway.get(`/areas?q=half-open-${q}`));
    await gateway.sandbox.waitForRequests(1);
    await gateway.get("/nowhere");
    gateway.sandbox.release();
    expect(new Set((await Promise.all(asked)).map(({ status }) => status))).toEqual(new Set([200]));
  });

  it("now and then is no reason to leave it alone", async () => {
    const gateway = await startGateway();
    const port = Number(new URL(gateway.sandboxUrl).port);
    for (let round = 0; round < 3; round++) {
      await gateway.sandbox.close();
      for (const q of ["a", "b"])
        expect(problemCode(await gateway.get(`/areas?q=${q}-${round}`))).toBe("upstream-unreachable");
      await gateway.sandbox.listen(port);
      expect((await gateway.get(`/areas?q=c-${round}`)).status).toBe(200);
    }
    expect(await circuit(gateway, "api/all")).toBe(0);
  });
});
