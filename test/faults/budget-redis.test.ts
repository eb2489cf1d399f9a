/**
 * The shared budget while Redis fails, and over differences of clocks: whatever happens, the upstream
 * counts no more than was agreed, callers go on being served, and it is used up again afterwards.
 */
import { describe, expect, it } from "vitest";

import {
  answeredSince,
  expectKept,
  expectServed,
  expectStoreInUse,
  expectUsedUp,
  lasting,
  redisForTest,
  startMany,
  urlOf,
} from "../support/budget-watch.ts";
import { crowd, startFleet } from "../support/fleet.ts";
import { startGateway } from "../support/gateway.ts";
import { systemClock, type Clock } from "../../src/process/clock.ts";
import type { RedisServer } from "../support/redis.ts";

const WINDOW = { limit: 20, windowMs: 2_000 } as const;
/** By then a replica that was cut off has tried to join again, and a window has gone by since. */
const BACK_MS = 1_500 + WINDOW.windowMs;

interface Outage {
  readonly what: string;
  readonly begin: (redis: RedisServer) => unknown;
  readonly lastsMs: number;
  readonly end: (redis: RedisServer) => unknown;
}

const OUTAGES: readonly Outage[] = [
  { what: "is restarted empty", begin: (redis) => redis.kill(), lastsMs: 0, end: (redis) => redis.restart() },
  {
    what: "is gone for four seconds and comes back empty",
    begin: (redis) => redis.kill(),
    lastsMs: 4_000,
    end: (redis) => redis.restart(),
  },
  {
    what: "stands still for three seconds",
    begin: (redis) => redis.freeze(),
    lastsMs: 3_000,
    end: (redis) => redis.thaw(),
  },
];

/** A window or two may be spoilt by whatever else the machine does. */
const PATIENCE_MS = 10_000;

describe("the shared budget, saturated, when Redis", () => {
  it.each(OUTAGES)("$what, is never overrun, and is used up again by itself", async (outage) => {
    const redis = await redisForTest();
    const fleet = await startFleet({ REDIS_URL: urlOf(redis), BUDGET: "20/2s", REPLICAS: "3" });
    const replicas = await startMany(fleet, 3);
    await Promise.all(replicas.map(expectStoreInUse));
    const callers = crowd(() => replicas, 30);
    await expectServed(callers);
    await lasting(1.3 * WINDOW.windowMs);

    const before = callers.statuses.length;
    await outage.begin(redis);
    await lasting(outage.lastsMs);
    if (outage.lastsMs > 0) expect(answeredSince(callers, before)).toBeGreaterThan(0);
    await outage.end(redis);
    await Promise.all(replicas.map(expectStoreInUse));
    await expectServed(callers);

    await expectUsedUp(fleet.arrivals, WINDOW, {
      windows: 2,
      from: Date.now() + BACK_MS,
      least: 0.9,
      patienceMs: PATIENCE_MS,
    });
    await callers.stop();
    expectKept(fleet.arrivals(), WINDOW);
    expect(callers.statuses).not.toContain(0);
  });

  it("fails again and again, for moments, is never overrun", async () => {
    const redis = await redisForTest();
    const fleet = await startFleet({ REDIS_URL: urlOf(redis), BUDGET: "20/2s", REPLICAS: "3" });
    const replicas = await startMany(fleet, 3);
    const callers = crowd(() => replicas, 15);
    await expectServed(callers);
    for (let round = 0; round < 4; round++) {
      await lasting(700);
      await redis.kill();
      await lasting(150 * round);
      await redis.restart();
      await lasting(600);
      redis.freeze();
      await lasting(200 * (round + 1));
      redis.thaw();
    }
    await lasting(WINDOW.windowMs);
    await expectServed(callers);
    await callers.stop();
    expectKept(fleet.arrivals(), WINDOW);
  });
});

function clockAheadBy(ms: number): Clock {
  return {
    now: () => systemClock.now() + ms,
    monotonic: () => systemClock.monotonic() + ms,
    after: systemClock.after,
  };
}

describe("replicas whose clocks differ", () => {
  it("by ten seconds overrun nothing, and use the budget up", async () => {
    const redis = await redisForTest();
    const env = { REDIS_URL: urlOf(redis), BUDGET: "20/2s", REPLICAS: "3" };
    const first = await startGateway({ env });
    const upstream = { UPSTREAM_URL: first.sandboxUrl, UPSTREAM_IMAGE_URL: first.sandboxUrl };
    const others = await Promise.all(
      [5_000, -5_000].map((ms) => startGateway({ env: { ...env, ...upstream }, clock: clockAheadBy(ms) })),
    );
    const gateways = [first, ...others];
    const callers = crowd(() => gateways, 30);
    const arrivals = (): number[] => first.sandbox.requests().map(({ at }) => at);
    await first.sandbox.waitForRequests(WINDOW.limit);
    await expectUsedUp(arrivals, WINDOW, {
      windows: 2,
      from: Date.now(),
      least: 0.95,
      patienceMs: PATIENCE_MS,
    });
    // What one has known of the others counts, whatever its own clock says, when nobody can be asked.
    await redis.kill();
    await lasting(1.5 * WINDOW.windowMs);
    await redis.restart();
    await lasting(2 * WINDOW.windowMs);
    await callers.stop();
    expectKept(arrivals(), WINDOW);
    for (const { metric } of gateways) {
      expect(await metric('gateway_budget_spent_total{app="other",cause="miss"}')).toBeGreaterThan(0);
    }
  });
});
