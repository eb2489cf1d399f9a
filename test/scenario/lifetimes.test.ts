/**
 * Learned lifetimes: an answer that changes often is fetched more often than one that does not, and callers and operators see
 * the lifetime of each answer.
 */
import { describe, expect, it } from "vitest";

import { cacheStatus } from "../support/ask.ts";
import { expectShared, startGateway, type TestGatewayOptions } from "../support/gateway.ts";
import { redisForTest } from "../support/redis.ts";
import { temporaryDirectory } from "../support/files.ts";
import { createLeapingClock, createSteppingClock } from "../support/stepping-clock.ts";

const [CHANGING, STEADY] = ["/areas?q=Nacka", "/areas?q=Solna"];
const TTL_SECONDS = 300;

async function start(options: TestGatewayOptions = {}, clock = createSteppingClock()) {
  const gateway = await startGateway({
    clock,
    ...options,
    env: { CACHE_LIFETIMES: "learned", ...options.env },
    settings: `redis: { timeout: 2s }\ncache: { ttl: { areas: 5m }, staleWhileRevalidate: { areas: 0s } }`,
  });
  /**
   * Lets time pass, with requests for both answers. One of them changes all the time. Paths of the sandbox have no query, so both
   * answers change with a revision. The steady one is asked for before it.
   */
  async function pass(minutes: number): Promise<void> {
    for (let minute = 0; minute < minutes; minute++) {
      clock.pass(60_000);
      gateway.sandbox.reset();
      await gateway.get(STEADY);
      gateway.sandbox.revise();
      for (let nth = 0; nth < minute % 1_000; nth++) gateway.sandbox.revise();
      await gateway.get(CHANGING);
    }
  }
  /** @returns the time that an answer stays fresh from now, in seconds */
  const ttl = async (path: string): Promise<number> => {
    const reply = await gateway.get(path);
    const seconds = Number(cacheStatus(reply)["ttl"]);
    expect(reply.headers["cache-control"]).toBe(`max-age=${seconds}`);
    return seconds + Number(reply.headers.age);
  };
  return { gateway, clock, pass, ttl };
}

describe("learned lifetimes", () => {
  it("are cache.ttl at first, then shorter for an answer that changes and longer for one that does not", async () => {
    const { gateway, pass, ttl } = await start();
    expect(await ttl(CHANGING)).toBe(TTL_SECONDS);
    expect(await ttl(STEADY)).toBe(TTL_SECONDS);
    await pass(180);
    expect(await ttl(CHANGING)).toBeLessThan(TTL_SECONDS);
    expect(await ttl(CHANGING)).toBeGreaterThanOrEqual(TTL_SECONDS / 3);
    expect(await ttl(STEADY)).toBeGreaterThan(TTL_SECONDS);
    expect(await ttl(STEADY)).toBeLessThanOrEqual(TTL_SECONDS * 3);
    const { says, entry } = await gateway.entryAt(CHANGING);
    expect(says).toMatch(
      / It changes about every .* and is asked for about \d+ times an hour\. Its lifetime is [^:]+: .* out-of-date answers/,
    );
    expect(entry.learned).toMatchObject({ requestsPerHour: expect.closeTo(60, -1.1) });
    const { freshness } = await gateway.shows("/status");
    expect(freshness).toMatchObject({ lifetimes: "learned", measured: null });
    expect(freshness.expected).toBeLessThan(freshness.expectedFixed);
    expect(freshness.callsForHalf).toBeGreaterThan(1);
    expect(await gateway.metric("gateway_out_of_date_expected_ratio")).toBeCloseTo(freshness.expected, 6);
  });

  it("outlive a restart together with the answers", async () => {
    const env = { DATA_DIR: temporaryDirectory() };
    const before = await start({ env });
    await before.pass(60);
    const learned = (await before.gateway.entryAt(STEADY)).entry.learned;
    expect(learned).not.toBeNull();
    const upstreamPort = Number(new URL(before.gateway.sandboxUrl).port);
    await before.gateway.stop();
    const after = await start({ env, upstreamPort }, before.clock);
    const { entry } = await after.gateway.entryAt(STEADY);
    // What is assumed about all answers is learned again, so the estimate moves a little.
    const { requestsPerHour, lifetimeSeconds } = learned;
    expect(entry.learned).toMatchObject({ requestsPerHour, lifetimeSeconds });
    expect(learned.lifetimeSeconds).toBeGreaterThan(TTL_SECONDS);
    expect(entry.learned.changesEverySeconds).toBeGreaterThan(3_600);
  });

  it("count the requests at all replicas", async () => {
    const shared = { redis: await redisForTest(), env: { REPLICAS: "2" } };
    // Time goes on by itself, too, because joining takes some.
    const leaping = createLeapingClock();
    const clock = { ...leaping, pass: leaping.leap };
    const first = await start(shared, clock);
    const second = await start({ ...shared, beside: first.gateway }, clock);
    const holders = async () => {
      const { replicas } = await first.gateway.shows("/budget/replicas");
      return replicas.filter(({ holder }: { readonly holder: string }) => holder !== "").length;
    };
    // After ten minutes in a moment, each replica joins again.
    const ready = async () => {
      await expectShared(first.gateway, second.gateway);
      await expect.poll(holders).toBe(2);
    };
    await ready();
    // Each replica serves ten requests in ten minutes, and the first one fetches.
    for (let nth = 0; nth < 6; nth++) {
      clock.pass(600_000);
      await ready();
      for (const { gateway } of [first, second]) {
        for (let request = 0; request < 10; request++) await gateway.get(STEADY);
        // Otherwise the second one may fetch, too. What the first one has served then counts no more.
        await gateway.landed();
      }
    }
    const { entry } = await first.gateway.entryAt(STEADY);
    expect(entry.learned.requestsPerHour).toBeGreaterThan(90);
    expect(entry.learned.requestsPerHour).toBeLessThan(150);
  });

  it("are checked by at most one call in a hundred, and one at a time", async () => {
    const { gateway } = await start({ env: { BUDGET: "100000/1m" } });
    const calls = 400;
    for (let nth = 0; nth < calls; nth++) await gateway.get(`/areas?q=a${nth}`);
    await gateway.get(STEADY);
    gateway.sandbox.clearRequests();
    gateway.sandbox.revise();
    gateway.sandbox.hold();
    for (let nth = 0; nth < 100; nth++) expect((await gateway.get(STEADY)).status).toBe(200);
    await gateway.sandbox.waitForRequests(1);
    expect(gateway.sandbox.waiting()).toBe(1);
    gateway.sandbox.release();
    await gateway.landed();
    for (let nth = 0; nth < 300; nth++) await gateway.get(STEADY);
    await gateway.landed();
    expect(gateway.sandbox.requests().length).toBeLessThanOrEqual(calls / 100);
    // The answer was out of date. One check says little about the share.
    const { freshness } = await gateway.shows("/status");
    expect(freshness.measured).toMatchObject({ checks: 1, share: 1, from: expect.closeTo(0.2, 1), to: 1 });
  });

  it.each([false, true])("count a purge as a change, and survive it (hard: %s)", async (hard) => {
    const { gateway, clock, pass } = await start();
    await pass(60);
    const before = (await gateway.entryAt(STEADY)).entry.learned.changesEverySeconds;
    clock.pass(60_000);
    await gateway.admin("/cache/purge", JSON.stringify({ all: true, hard }));
    gateway.sandbox.reset();
    await gateway.get(STEADY);
    expect((await gateway.entryAt(STEADY)).entry.learned.changesEverySeconds).toBeLessThan(before);
  });
});
