/**
 * What is asked for shortly before its end is fetched anew before it expires.
 */
import { describe, expect, it } from "vitest";

import { startGateway, type TestGateway, type TestGatewayOptions } from "../support/gateway.ts";
import { cacheStatus } from "../support/reply.ts";
import { createSteppingClock, type SteppingClock } from "../support/stepping-clock.ts";

/** Fresh for 300 s. */
const PATH = "/listings?areaId=76&limit=5";
const TTL_MS = 300_000;
/** So many requests that at least one of them refreshes early, almost certainly. */
const CALLERS = 20;

interface Started {
  readonly gateway: TestGateway;
  readonly clock: SteppingClock;
  readonly text: string;
}

/** A gateway that holds an answer which took so long to be fetched. */
async function startWithSlowAnswer(fetchMs: number, options: TestGatewayOptions = {}): Promise<Started> {
  const clock = createSteppingClock();
  const gateway = await startGateway({ clock, sandbox: { now: clock.now }, ...options });
  gateway.sandbox.hold();
  const first = gateway.get(PATH);
  await gateway.sandbox.waitForRequests(1);
  clock.pass(fetchMs);
  gateway.sandbox.release();
  const { text } = await first;
  gateway.sandbox.revise();
  return { gateway, clock, text };
}

/** Many ask, one after the other, and each gets the answer that is held. @returns how many refreshes there were */
async function refreshesFor({ gateway, text }: Started): Promise<number> {
  const before = gateway.sandbox.requests().length;
  gateway.sandbox.hold();
  for (let caller = 0; caller < CALLERS; caller++) {
    const reply = await gateway.get(PATH);
    expect([reply.status, reply.text]).toEqual([200, text]);
    expect(cacheStatus(reply)).toMatchObject({ hit: true, detail: "memory" });
  }
  gateway.sandbox.release();
  await expect.poll(() => gateway.metric("gateway_flights")).toBe(0);
  return gateway.sandbox.requests().length - before;
}

describe("an answer that is about to expire", () => {
  it("is refreshed once before that, while callers still get it at once", async () => {
    const started = await startWithSlowAnswer(60_000);
    const { gateway, clock, text } = started;
    // A thousandth of the time it takes to fetch is left: of a thousand throws one is against it.
    clock.pass(TTL_MS - 60);
    expect(await refreshesFor(started)).toBe(1);
    const next = await gateway.get(PATH);
    expect(next.text).not.toBe(text);
    expect(cacheStatus(next)).toMatchObject({ hit: true, ttl: "300" });
    expect(await gateway.metric('gateway_budget_spent_total{app="other",cause="refresh"}')).toBe(1);
  });

  it.each([
    ["long before its end", 1_000, TTL_MS / 3],
    ["where it comes at once", 0, TTL_MS - 1],
  ])("is not refreshed %s", async (_name, fetchMs, afterMs) => {
    const started = await startWithSlowAnswer(fetchMs);
    started.clock.pass(afterMs);
    expect(await refreshesFor(started)).toBe(0);
  });

  it.each([
    ["is refreshed while more of the budget is left than is set", 3, 1],
    ["is not refreshed where just so much is left", 4, 0],
    ["is not refreshed where less is left", 6, 0],
  ])("%s", async (_name, others, refreshes) => {
    const started = await startWithSlowAnswer(60_000, {
      env: { BUDGET: "10/1h" },
      settings: "cache: { earlyRefreshAbove: 0.5 }",
    });
    for (let other = 0; other < others; other++)
      expect((await started.gateway.get(`/areas?q=${other}`)).status).toBe(200);
    started.clock.pass(TTL_MS - 60);
    expect(await refreshesFor(started)).toBe(refreshes);
  });

  it("is not refreshed right after a refresh failed", async () => {
    const started = await startWithSlowAnswer(60_000, { settings: "upstream: { retryDelay: 1ms }" });
    const { gateway, clock } = started;
    gateway.sandbox.faults.add({ status: 500 });
    clock.pass(TTL_MS - 60);
    // Two requests, because what fails is tried once more.
    expect(await refreshesFor(started)).toBe(2);
    expect(await refreshesFor(started)).toBe(0);
  });
});
