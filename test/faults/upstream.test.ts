import { describe, expect, it } from "vitest";

import type { Fault } from "../../src/sandbox/control/faults.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";

const PATH = "/areas?q=Nacka";
/** `maxCoolOff` is short, so that the next request is sent at once. Other tests are about the pause. */
const QUICK = { settings: "upstream: { retryDelay: 1ms }\nbudget: { maxCoolOff: 1ms }" };

/** Asks again without the fault, and expects that nothing of it was cached. */
async function expectNothingCached(gateway: TestGateway): Promise<void> {
  gateway.sandbox.faults.clear();
  const healthy = await gateway.get(PATH);
  expect([healthy.status, cacheStatus(healthy).fwd]).toEqual([200, "miss"]);
}

describe("an upstream that", () => {
  it.each<[string, Fault, number, string, number]>([
    ["fails", { status: 500 }, 502, "upstream-error", 2],
    ["is unavailable", { status: 503 }, 503, "upstream-unavailable", 2],
    [
      "is unavailable and says for how long",
      { status: 503, retryAfter: "30" },
      503,
      "upstream-unavailable",
      1,
    ],
    ["is asked too much", { status: 429, retryAfter: "7" }, 503, "upstream-unavailable", 1],
    ["refuses the method", { status: 405 }, 502, "upstream-invalid-response", 1],
    ["refuses the format", { status: 406 }, 502, "upstream-invalid-response", 1],
    ["sends elsewhere", { redirect: true }, 502, "upstream-invalid-response", 1],
    ["cuts the body", { cutBody: true }, 502, "upstream-invalid-response", 1],
    ["sends no JSON", { wrongJson: true }, 502, "upstream-invalid-response", 1],
    ["sends JSON of another shape", { wrongEnvelope: true }, 502, "upstream-invalid-response", 1],
    ["sends too much", { oversizeBytes: 5_000_000 }, 502, "upstream-invalid-response", 1],
  ])(
    "%s (%o) gives %i %s after %i calls, and nothing of it is cached",
    async (_name, fault, status, code, calls) => {
      const gateway = await startGateway(QUICK);
      gateway.sandbox.faults.add(fault);
      const reply = await gateway.get(PATH);
      expect([reply.status, problemCode(reply)]).toEqual([status, code]);
      expect(cacheStatus(reply)).toEqual({ fwd: "miss", detail: code });
      expect(gateway.sandbox.requests()).toHaveLength(calls);
      await expectNothingCached(gateway);
    },
  );

  it.each<[string, Fault, number]>([
    ["does not answer", { hang: "headers" }, 3_000],
    ["stops in the middle of its answer", { hang: "body" }, 4_000],
  ])(
    "%s (%o) gives 504 after its timeout of %i ms, and nothing of it is cached",
    async (_name, fault, timeoutMs) => {
      const clock = createFakeClock();
      const settings = "upstream: { headerTimeout: 3s, bodyTimeout: 4s }";
      const gateway = await startGateway({ clock, sandbox: { now: clock.now }, settings });
      gateway.sandbox.faults.add(fault);
      const reply = gateway.get(PATH);
      await clock.armed(timeoutMs);
      await clock.advance(timeoutMs);
      expect([(await reply).status, problemCode(await reply)]).toEqual([504, "upstream-timeout"]);
      expect(gateway.sandbox.requests()).toHaveLength(1);
      await expectNothingCached(gateway);
    },
  );

  it("names a pause: callers get it as Retry-After, at most budget.maxCoolOff", async () => {
    for (const [retryAfter, told] of [
      ["30", "30"],
      ["99999999", "120"],
    ] as const) {
      const gateway = await startGateway({ settings: "budget: { maxCoolOff: 2m }" });
      gateway.sandbox.faults.add({ status: 503, retryAfter, times: 1 });
      expect((await gateway.get(PATH)).headers["retry-after"]).toBe(told);
    }
  });

  it("fails once is asked again with another signature, and the caller gets the answer", async () => {
    const gateway = await startGateway(QUICK);
    gateway.sandbox.faults.add({ status: 500, times: 1 });
    expect((await gateway.get(PATH)).status).toBe(200);
    // The sandbox refuses a `unique` that it has seen, so the 200 proves that the retry has a new one.
    expect(gateway.sandbox.requests().map((request) => request.status)).toEqual([500, 200]);
    expect(
      await gateway.metric('gateway_upstream_requests_total{resource="areas",cause="retry",status="200"}'),
    ).toBe(1);
  });

  it("refuses our key: callers see nothing of that, and the log says what to check", async () => {
    const gateway = await startGateway(QUICK);
    gateway.sandbox.setCaller({ privateKey: "another" });
    const reply = await gateway.get(PATH);
    expect([reply.status, problemCode(reply)]).toEqual([502, "upstream-authentication-failed"]);
    expect(reply.text).not.toMatch(/FAILURE|hash|callerId|127\.0\.0\.1/);
    const line = gateway.log
      .map((text): { level: string; msg: string } => JSON.parse(text))
      .find(({ level }) => level === "error");
    expect(line).toMatchObject({
      msg: expect.stringMatching(/PRIVATE_KEY.*CALLER_ID.*clock/),
      status: 403,
      // `Date` has whole seconds.
      clockSkewSeconds: expect.toSatisfy((skew) => skew === 0 || skew === -1),
    });
  });

  it("has another clock: the log says by how much", async () => {
    const gateway = await startGateway(QUICK);
    gateway.sandbox.faults.add({ clockSkewSeconds: 7_200 });
    expect(problemCode(await gateway.get(PATH))).toBe("upstream-authentication-failed");
    expect(gateway.log.join("")).toMatch(/"clockSkewSeconds":7(199|200|201)\b/);
  });

  it("closed a kept connection just as we used it is asked again at once", async () => {
    const gateway = await startGateway(QUICK);
    await gateway.get("/areas?q=first");
    gateway.sandbox.faults.add({ disconnect: true, times: 1 });
    expect((await gateway.get(PATH)).status).toBe(200);
    expect(gateway.log.join("")).toContain('"status":"stale-connection"');
  });
});
