/** The gateway serves stale answers when it cannot get a new one. */
import { describe, expect, it } from "vitest";

import type { Fault } from "../../src/sandbox/faults.ts";
import { EXACT_PAGES, startGateway, type TestGateway, type TestGatewayOptions } from "../support/gateway.ts";
import { post } from "../support/post.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { createSteppingClock, type SteppingClock } from "../support/stepping-clock.ts";

/** Fresh for 300 s. */
const PATH = "/listings?areaId=76&limit=5";
const QUICK = "upstream: { retryDelay: 1ms }\n";

async function startWithAnswer(
  env: TestGatewayOptions["env"] = {},
): Promise<{ gateway: TestGateway; clock: SteppingClock; text: string }> {
  const clock = createSteppingClock();
  const gateway = await startGateway({
    clock,
    sandbox: { now: clock.now },
    settings: QUICK,
    env: { ...EXACT_PAGES, ...env },
  });
  const { text } = await gateway.get(PATH);
  clock.pass(400_000);
  return { gateway, clock, text };
}

describe("a stale answer is served when the upstream", () => {
  it.each<[string, Fault, string]>([
    ["fails", { status: 500 }, "upstream-error"],
    ["is unavailable", { status: 503 }, "upstream-unavailable"],
    ["is asked too much", { status: 429 }, "upstream-unavailable"],
    ["refuses our key", { status: 403 }, "upstream-authentication-failed"],
    ["cuts the body", { cutBody: true }, "upstream-invalid-response"],
    ["sends no JSON", { wrongJson: true }, "upstream-invalid-response"],
    ["breaks off", { disconnect: true }, "upstream-unreachable"],
  ])("%s (%o), with its true age and the reason", async (_name, fault, code) => {
    const { gateway, text } = await startWithAnswer();
    gateway.sandbox.faults.add(fault);
    const stale = await gateway.get(PATH);
    expect([stale.status, stale.text]).toEqual([200, text]);
    expect(stale.headers).toMatchObject({ age: "400", "cache-control": "max-age=0" });
    expect(cacheStatus(stale)).toMatchObject({ hit: true, ttl: "-100", detail: code });
  });

  it("is down", async () => {
    const { gateway } = await startWithAnswer();
    await gateway.sandbox.close();
    for (let round = 0; round < 3; round++) {
      expect(cacheStatus(await gateway.get(PATH))).toMatchObject({ hit: true, detail: expect.anything() });
    }
    expect(problemCode(await gateway.get("/listings?areaId=1"))).toBe("upstream-unreachable");
  });
});

describe("a stale answer is not served", () => {
  it("when the upstream answers 404 or 400", async () => {
    const { gateway } = await startWithAnswer();
    gateway.sandbox.faults.add({ status: 404, times: 1 }, { status: 400, times: 1 });
    expect((await gateway.get(PATH)).status).toBe(404);
    const { gateway: other } = await startWithAnswer();
    other.sandbox.faults.add({ status: 400, times: 1 });
    expect(problemCode(await other.get(PATH))).toBe("upstream-rejected");
  });

  it("for longer than cache.staleIfError of its kind", async () => {
    const { gateway, clock } = await startWithAnswer({ CACHE_STALE_IF_ERROR: "listings=100s" });
    gateway.sandbox.faults.add({ status: 500 });
    expect((await gateway.get(PATH)).status).toBe(200);
    clock.pass(1);
    expect(problemCode(await gateway.get(PATH))).toBe("upstream-error");
  });

  it("after a hard purge", async () => {
    const { gateway } = await startWithAnswer();
    await post(`${gateway.adminUrl}/cache/purge`, '{"all":true,"hard":true}');
    gateway.sandbox.faults.add({ status: 500 });
    expect(problemCode(await gateway.get(PATH))).toBe("upstream-error");
  });
});

describe("an upstream that failed", () => {
  it("is asked for the same answer again only after a pause, which grows", async () => {
    const { gateway, clock } = await startWithAnswer();
    gateway.sandbox.faults.add({ status: 500 });
    const callsIn = async (requests: number): Promise<number> => {
      const before = gateway.sandbox.requests().length;
      for (let n = 0; n < requests; n++) expect((await gateway.get(PATH)).status).toBe(200);
      return gateway.sandbox.requests().length - before;
    };
    // Each try is two calls, because a 500 is retried once.
    expect(await callsIn(10)).toBe(2);
    clock.pass(4_999);
    expect(await callsIn(10)).toBe(0);
    clock.pass(1);
    expect(await callsIn(10)).toBe(2);
    clock.pass(9_999);
    expect(await callsIn(10)).toBe(0);
    clock.pass(1);
    gateway.sandbox.faults.clear();
    expect(await callsIn(10)).toBe(1);
    expect(cacheStatus(await gateway.get(PATH))).toMatchObject({ hit: true, ttl: "300" });
  });
});
