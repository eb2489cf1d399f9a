/**
 * Replicas that share one budget, under saturation, as the upstream counts it: it is never overrun, and
 * hardly anything of it is left unused.
 */
import { describe, expect, it } from "vitest";

import { ask } from "../support/ask.ts";
import {
  expectKept,
  expectQueue,
  expectShared,
  expectStoreInUse,
  expectUsedUp,
  lasting,
  redisForTest,
  spentBy,
  startMany,
  total,
  urlOf,
} from "../support/budget-watch.ts";
import { crowd, startFleet, type Replica } from "../support/fleet.ts";

const SHORT = { limit: 20, windowMs: 1_500 } as const;
const SECOND = { limit: 20, windowMs: 1_000 } as const;
const TWO_SECONDS = { limit: 20, windowMs: 2_000 } as const;

/** A stretch may be spoilt by whatever else the machine does: then there are others. */
const PATIENCE_MS = 45_000;

describe("the shared budget, saturated", () => {
  // More wait, all the time, than a window has places: what is not used then is the gateway's to answer for.
  it.each([1, 3, 5])(
    "for ten windows, is used up and not overrun by %i replicas",
    { timeout: 120_000 },
    async (count) => {
      const redis = await redisForTest();
      const fleet = await startFleet({
        REDIS_URL: urlOf(redis),
        BUDGET: "20/1500ms",
        REPLICAS: String(count),
      });
      const replicas = await startMany(fleet, count);
      await Promise.all(replicas.map(expectShared));
      const callers = crowd(() => replicas, 3 * SHORT.limit);
      await expectQueue(replicas, SHORT.limit);
      await expectUsedUp(fleet.arrivals, SHORT, {
        windows: 10,
        from: Date.now(),
        least: 0.95,
        patienceMs: PATIENCE_MS,
      });
      await callers.stop();
      expectKept(fleet.arrivals(), SHORT);
    },
  );

  it("keeps two windows at once", async () => {
    const redis = await redisForTest();
    const fleet = await startFleet({ REDIS_URL: urlOf(redis), BUDGET: "8/1s,14/3s", REPLICAS: "2" });
    const replicas = await startMany(fleet, 2);
    await Promise.all(replicas.map(expectShared));
    const callers = crowd(() => replicas, 30);
    await expectQueue(replicas, 14);
    const longer = { limit: 14, windowMs: 3_000 };
    await expectUsedUp(fleet.arrivals, longer, {
      windows: 2,
      from: Date.now(),
      least: 0.95,
      patienceMs: PATIENCE_MS,
    });
    await callers.stop();
    expectKept(fleet.arrivals(), { limit: 8, windowMs: 1_000 });
    expectKept(fleet.arrivals(), longer);
  });

  it("is kept where the upstream is slow to answer", async () => {
    const redis = await redisForTest();
    const fleet = await startFleet({
      REDIS_URL: urlOf(redis),
      BUDGET: "20/2s",
      // More on their way at once than the budget has places.
      BUDGET_CONCURRENCY: "12",
      REPLICAS: "2",
    });
    const replicas = await startMany(fleet, 2);
    fleet.sandbox.faults.add({ latencyMs: 1_500 });
    const callers = crowd(() => replicas, 30);
    await fleet.sandbox.waitForRequests(1);
    await lasting(3.5 * TWO_SECONDS.windowMs);
    fleet.sandbox.faults.clear();
    await callers.stop();
    expectKept(fleet.arrivals(), TWO_SECONDS);
  });
});

describe("what is charged to the budget", () => {
  it("is every call that arrives, retries too, and nothing else", async () => {
    const redis = await redisForTest();
    const fleet = await startFleet({ REDIS_URL: urlOf(redis), BUDGET: "20/1s", REPLICAS: "2" });
    const replicas: readonly Replica[] = await startMany(fleet, 2);
    await Promise.all(replicas.map(expectStoreInUse));
    // Of three calls, one fails and is tried again.
    const failing = setInterval(() => fleet.sandbox.faults.add({ status: 500, times: 2 }), 250);
    const callers = crowd(() => replicas, 15, { "x-app-id": "any" });
    await lasting(4 * SECOND.windowMs);
    clearInterval(failing);
    await callers.stop();
    fleet.sandbox.faults.clear();
    const spent = await spentBy(replicas);
    const arrivals = fleet.arrivals();
    expectKept(arrivals, SECOND);
    expect(Object.keys(spent).toSorted()).toEqual(['app="other",cause="miss"', 'app="other",cause="retry"']);
    expect(total(spent)).toBe(arrivals.length);

    // Hits, 304s and those who join a flight.
    fleet.sandbox.hold();
    const [first] = replicas;
    const url = `${first?.url}/areas?q=asked-by-many`;
    const together = Array.from({ length: 10 }, () => ask(url));
    await fleet.sandbox.waitForRequests(arrivals.length + 1);
    fleet.sandbox.release();
    const [reply] = await Promise.all(together);
    const headers = { "if-none-match": String(reply?.headers.etag) };
    expect((await ask(url)).status).toBe(200);
    expect((await ask(url, { headers })).status).toBe(304);
    expect(total(await spentBy(replicas))).toBe(arrivals.length + 1);
    expect(fleet.arrivals()).toHaveLength(arrivals.length + 1);
  });

  it("is nothing where a caller is refused", async () => {
    const redis = await redisForTest();
    const fleet = await startFleet({
      REDIS_URL: urlOf(redis),
      BUDGET: "5/1s",
      BUDGET_MAX_WAIT: "200ms",
      REPLICAS: "2",
    });
    const replicas = await startMany(fleet, 2);
    const callers = crowd(() => replicas, 10);
    await expect.poll(() => callers.statuses.filter((status) => status !== 200).length).toBeGreaterThan(20);
    await callers.stop();
    const arrivals = fleet.arrivals();
    expectKept(arrivals, { limit: 5, windowMs: 1_000 });
    expect(callers.statuses).not.toContain(0);
    expect(total(await spentBy(replicas))).toBe(arrivals.length);
  });
});
