/** An upstream that asks for a pause, cannot be reached, or refuses the credentials. */
import { describe, expect, it } from "vitest";

import { ask } from "../support/ask.ts";
import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { freePorts } from "../support/ports.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";

interface Timed {
  readonly gateway: TestGateway;
  readonly clock: FakeClock;
}

async function startTimed(settings = "", ttl = "1s"): Promise<Timed> {
  const clock = createFakeClock();
  const [upstreamPort = 0] = await freePorts(1);
  const gateway = await startGateway({
    clock,
    upstreamPort,
    sandbox: { now: clock.now },
    env: { CACHE_TTL: `listings=${ttl},areas=${ttl}` },
    settings,
  });
  return { gateway, clock };
}

const circuit = (gateway: TestGateway, name: string): Promise<number> =>
  gateway.metric(`gateway_circuit_state{circuit="${name}"}`);

describe("an upstream that asks to slow down", () => {
  it("with an absurd Retry-After is asked again after budget.maxCoolOff", async () => {
    const { gateway, clock } = await startTimed("budget: { maxCoolOff: 2m }");
    gateway.sandbox.faults.add({ status: 429, retryAfter: "99999999", times: 1 });
    // The caller whose request got the 429 and the next caller both get the time until the next try.
    for (const q of ["a", "b"])
      expect((await gateway.get(`/areas?q=${q}`)).headers["retry-after"]).toBe("120");
    await clock.advance(120_000);
    expect((await gateway.get("/areas?q=b")).status).toBe(200);
  });

  it("for one resource is still asked for the other resources", async () => {
    const { gateway } = await startTimed();
    gateway.sandbox.faults.add({ status: 503, retryAfter: "60", times: 1 });
    expect(problemCode(await gateway.get("/sold?areaId=76"))).toBe("upstream-unavailable");
    expect(problemCode(await gateway.get("/sold?areaId=1"))).toBe("upstream-unavailable");
    expect((await gateway.get("/listings?areaId=76")).status).toBe(200);
    expect(await circuit(gateway, "api/sold")).toBe(2);
    expect(await circuit(gateway, "api/listings")).toBe(0);
    expect(gateway.sandbox.requests()).toHaveLength(2);
  });

  it("is replaced by stale answers, marked as stale", async () => {
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

describe("POST /circuits/try", () => {
  it("makes the next call a probe, and asks the last answered question at once", async () => {
    const { gateway, clock } = await startTimed();
    await gateway.get("/areas?q=known");
    await clock.advance(5_000);
    gateway.sandbox.faults.add({ status: 429, retryAfter: "60", times: 1 });
    await gateway.get("/areas?q=a");
    expect(problemCode(await gateway.get("/areas?q=b"))).toBe("upstream-unavailable");
    const tried = await ask(`${gateway.adminUrl}/circuits/try`, { method: "POST" });
    expect(tried.json()).toEqual({ tried: ["api/all"], says: "The next call tries api/all." });
    await expect.poll(() => circuit(gateway, "api/all")).toBe(0);
    expect((await gateway.get("/areas?q=b")).status).toBe(200);
  });
});

const NO_STORE = { "cache-control": "no-store" };

/** Asks, and gives the answer up when the request is at the upstream. */
async function giveUp(gateway: TestGateway, path: string, how: "hangs up" | "has no time"): Promise<void> {
  const { sandbox } = gateway;
  const hangUp = new AbortController();
  const headers = { ...NO_STORE, ...(how === "has no time" && { "x-request-deadline-ms": "300" }) };
  const arrived = sandbox.requests().length + 1;
  const left = gateway.get(path, { headers, signal: hangUp.signal });
  left.catch(() => undefined);
  await sandbox.waitForRequests(arrived);
  if (how === "hangs up") hangUp.abort();
  await left.then(
    (reply) => expect(reply.status).toBe(504),
    () => undefined,
  );
  await expect.poll(() => sandbox.waiting()).toBe(0);
}

describe("a call that its caller gives up", () => {
  it.each(["hangs up", "has no time"] as const)(
    "because it %s says nothing about the upstream: no circuit opens",
    async (how) => {
      const gateway = await startGateway({ settings: "upstream: { headerTimeout: 1h, totalTimeout: 1h }" });
      gateway.sandbox.hold();
      for (let n = 0; n < 6; n++) await giveUp(gateway, `/areas?q=left-${n}`, how);
      gateway.sandbox.release();
      expect((await gateway.get("/areas?q=other")).status).toBe(200);
      expect(await circuit(gateway, "api/areas")).toBe(0);
    },
  );

  it("and that was the probe is sent again by the next call", async () => {
    const { gateway, clock } = await startTimed("upstream: { headerTimeout: 1h, totalTimeout: 1h }");
    gateway.sandbox.faults.add({ status: 503, retryAfter: "60", times: 1 });
    await gateway.get("/areas?q=a");
    await clock.advance(60_000);
    gateway.sandbox.hold();
    await giveUp(gateway, "/areas?q=left", "hangs up");
    gateway.sandbox.release();
    expect((await gateway.get("/areas?q=next")).status).toBe(200);
    expect(await circuit(gateway, "api/areas")).toBe(0);
  });
});

describe("an upstream that takes no connections", () => {
  it("or answers none of them is left alone after three timeouts: stale answers are then served at once", async () => {
    const { gateway, clock } = await startTimed(
      "upstream: { headerTimeout: 3s }\ncache: { staleWhileRevalidate: 0s, maxWaitForFresh: 5s }",
    );
    const known = ["a", "b", "c", "d"].map((q) => `/areas?q=${q}`);
    for (const path of known) await gateway.get(path);
    await clock.advance(2_000);
    gateway.sandbox.clearRequests();
    gateway.sandbox.faults.add({ hang: "headers" });
    for (const [index, path] of known.slice(0, 3).entries()) {
      const reply = gateway.get(path);
      await gateway.sandbox.waitForRequests(index + 1);
      await clock.advance(3_000);
      expect(cacheStatus(await reply)).toMatchObject({ hit: true, detail: "upstream-timeout" });
    }
    expect(await circuit(gateway, "api/all")).toBe(2);
    const atOnce = await gateway.get("/areas?q=d");
    expect(cacheStatus(atOnce)).toMatchObject({ hit: true, detail: "upstream-unavailable" });
    expect(gateway.sandbox.requests()).toHaveLength(3);
  });

  it("for 40 seconds is asked again within 17 seconds, and callers that arrive during the probe are answered", async () => {
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
    gateway.sandbox.clearRequests();
    gateway.sandbox.hold();
    const asked = Array.from({ length: 10 }, (_, q) => gateway.get(`/areas?q=half-open-${q}`));
    await gateway.sandbox.waitForRequests(1);
    await expect.poll(() => gateway.metric('gateway_throttle_queue_length{priority="interactive"}')).toBe(9);
    gateway.sandbox.release();
    expect(new Set((await Promise.all(asked)).map(({ status }) => status))).toEqual(new Set([200]));
  });

  it("for two requests in a row is still asked", async () => {
    const [port = 0] = await freePorts(1);
    const gateway = await startGateway({ upstreamPort: port });
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

describe("an upstream that refuses the credentials", () => {
  it.each(["1s", "1h"])(
    "is probed with its last answer (lifetime %s) when a caller asks a new question after the pause",
    async (ttl) => {
      const { gateway, clock } = await startTimed("", ttl);
      await gateway.get("/areas?q=answered");
      gateway.sandbox.faults.add({ status: 403 });
      for (const q of ["a", "b", "c"])
        expect(problemCode(await gateway.get(`/areas?q=${q}`))).toBe("upstream-authentication-failed");
      expect(await circuit(gateway, "api/all")).toBe(2);
      gateway.sandbox.faults.clear();
      gateway.sandbox.clearRequests();
      await clock.advance(60_000);
      expect(problemCode(await gateway.get("/areas?q=new"))).toBe("upstream-authentication-failed");
      await gateway.sandbox.waitForRequests(1);
      expect(gateway.sandbox.requests()[0]?.query).toBe("q=answered");
      await expect.poll(() => circuit(gateway, "api/all")).toBe(0);
      expect((await gateway.get("/areas?q=new")).status).toBe(200);
    },
  );
});
