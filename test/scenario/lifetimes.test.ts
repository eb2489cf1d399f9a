/**
 * Learned lifetimes: an answer that changes often is fetched more often than one that does not, and callers and operators see
 * the lifetime of each answer.
 */
import { describe, expect, it } from "vitest";

import { ask } from "../support/ask.ts";
import { startGateway, type TestGateway, type TestGatewayOptions } from "../support/gateway.ts";
import { post } from "../support/post.ts";
import { cacheStatus } from "../support/reply.ts";
import { temporaryDirectory } from "../support/files.ts";
import { createSteppingClock, type SteppingClock } from "../support/stepping-clock.ts";

const [CHANGING, STEADY] = ["/areas?q=Nacka", "/areas?q=Stockholm"];
const TTL_SECONDS = 300;

interface Scene {
  readonly gateway: TestGateway;
  readonly clock: SteppingClock;
  /** Lets time pass, with requests for both answers. One of them changes all the time. */
  readonly pass: (minutes: number) => Promise<void>;
  /** @returns the time that an answer stays fresh from now, in seconds */
  readonly ttl: (path: string) => Promise<number>;
}

async function start(options: TestGatewayOptions = {}, clock = createSteppingClock()): Promise<Scene> {
  const gateway = await startGateway({
    clock,
    ...options,
    env: { CACHE_LIFETIMES: "learned", ...options.env },
    sandbox: { now: clock.now },
    settings: "cache: { ttl: { areas: 5m }, staleWhileRevalidate: { areas: 0s } }",
  });
  // Paths of the sandbox have no query, so both answers change with a revision. The steady one is asked for before it.
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
  const ttl = async (path: string): Promise<number> => {
    const reply = await gateway.get(path);
    const seconds = Number(cacheStatus(reply)["ttl"]);
    expect(reply.headers["cache-control"]).toBe(`max-age=${seconds}`);
    return seconds + Number(reply.headers.age);
  };
  return { gateway, clock, pass, ttl };
}

const entryOf = async ({ gateway }: Pick<Scene, "gateway">, path: string) =>
  Object((await ask(`${gateway.adminUrl}/cache/entry?url=${encodeURIComponent(path)}`)).json());

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
    const { says, entry } = await entryOf({ gateway }, CHANGING);
    expect(says).toMatch(
      / It changes about every .* and is asked for about \d+ times an hour, so it stays fresh for /,
    );
    expect(entry.learned).toMatchObject({ requestsPerHour: expect.closeTo(60, -1.1) });
    const { freshness } = Object((await ask(`${gateway.adminUrl}/status`)).json());
    expect(freshness).toMatchObject({ lifetimes: "learned", measured: null });
    expect(freshness.expected).toBeLessThan(freshness.expectedFixed);
    expect(await gateway.metric("gateway_out_of_date_expected_ratio")).toBeCloseTo(freshness.expected, 6);
  });

  it("are not used with cache.lifetimes: fixed", async () => {
    const { pass, ttl } = await start({ env: { CACHE_LIFETIMES: "fixed" } });
    await pass(60);
    expect([await ttl(CHANGING), await ttl(STEADY)]).toEqual([TTL_SECONDS, TTL_SECONDS]);
  });

  it("outlive a restart together with the answers", async () => {
    const env = { DATA_DIR: temporaryDirectory() };
    const before = await start({ env });
    await before.pass(60);
    const learned = (await entryOf(before, STEADY)).entry.learned;
    expect(learned).not.toBeNull();
    const upstreamPort = Number(new URL(before.gateway.sandboxUrl).port);
    await before.gateway.stop();
    const after = await start({ env, upstreamPort }, before.clock);
    expect((await entryOf(after, STEADY)).entry.learned).toEqual(learned);
  });

  it("count a soft purge as a change", async () => {
    const { gateway, clock, pass } = await start();
    await pass(60);
    const before = (await entryOf({ gateway }, STEADY)).entry.learned.changesEverySeconds;
    clock.pass(60_000);
    await post(`${gateway.adminUrl}/cache/purge`, JSON.stringify({ all: true }));
    gateway.sandbox.reset();
    await gateway.get(STEADY);
    expect((await entryOf({ gateway }, STEADY)).entry.learned.changesEverySeconds).toBeLessThan(before);
  });
});
