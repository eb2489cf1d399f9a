/**
 * Replicas that die, stand still, are replaced or cut off while the budget they share is saturated: as the
 * upstream counts it, it is never overrun.
 */
import { describe, expect, it } from "vitest";

import {
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
import { startTcpProxy } from "../support/tcp-proxy.ts";

const TWO_SECONDS = { limit: 20, windowMs: 2_000 } as const;

/** A window or two may be spoilt by whatever else the machine does. */
const PATIENCE_MS = 10_000;

describe("replicas under saturation", () => {
  it("that are killed and started anew overrun nothing, and callers go on being served", async () => {
    const redis = await redisForTest();
    const fleet = await startFleet({ REDIS_URL: urlOf(redis), BUDGET: "20/2s", REPLICAS: "3" });
    const replicas = await startMany(fleet, 3);
    const callers = crowd(() => replicas, 15);
    for (const [index, old] of replicas.entries()) {
      await expectServed(callers);
      old.process.child.kill("SIGKILL");
      await old.process.ended;
      await expectServed(callers);
      replicas[index] = await fleet.start();
    }
    await lasting(2 * TWO_SECONDS.windowMs);
    await expectServed(callers);
    await callers.stop();
    expectKept(fleet.arrivals(), TWO_SECONDS);
  });

  it("that stand still for a while overrun nothing when they go on", async () => {
    const redis = await redisForTest();
    const fleet = await startFleet({ REDIS_URL: urlOf(redis), BUDGET: "20/2s", REPLICAS: "3" });
    const replicas = await startMany(fleet, 3);
    const [frozen, ...others] = replicas;
    // The callers of the frozen one hang; the others have callers of their own.
    const callers = crowd(() => others, 12);
    const stuck = crowd(() => replicas.slice(0, 1), 6);
    await expectServed(stuck);
    for (let round = 0; round < 2; round++) {
      frozen?.process.child.kill("SIGSTOP");
      await lasting(3_000);
      await expectServed(callers);
      frozen?.process.child.kill("SIGCONT");
      await expectServed(stuck);
    }
    await lasting(TWO_SECONDS.windowMs);
    await Promise.all([callers.stop(), stuck.stop()]);
    expectKept(fleet.arrivals(), TWO_SECONDS);
  });

  it("that are replaced one by one by such with a smaller budget keep to the larger, then to the smaller", async () => {
    const redis = await redisForTest();
    const fleet = await startFleet({ REDIS_URL: urlOf(redis), BUDGET: "20/2s", REPLICAS: "3" });
    const replicas = await startMany(fleet, 3);
    const callers = crowd(() => replicas, 30);
    let lastEnded = 0;
    for (const [index, old] of replicas.entries()) {
      await expectServed(callers);
      replicas[index] = await fleet.start({ BUDGET: "12/2s" });
      old.process.child.kill("SIGTERM");
      expect(await old.process.ended).toBe(0);
      lastEnded = Date.now();
    }
    const smaller = { limit: 12, windowMs: TWO_SECONDS.windowMs };
    const since = lastEnded + smaller.windowMs;
    await expectUsedUp(fleet.arrivals, smaller, {
      windows: 2,
      from: since,
      least: 0.9,
      patienceMs: PATIENCE_MS,
    });
    await callers.stop();
    const arrivals = fleet.arrivals();
    expectKept(arrivals, TWO_SECONDS);
    expectKept(
      arrivals.filter((at) => at >= since),
      smaller,
    );
  });

  it("one of which is cut off from Redis overrun nothing, and all go on serving", async () => {
    const redis = await redisForTest();
    const proxy = await startTcpProxy(redis.port);
    const fleet = await startFleet({ REDIS_URL: urlOf(redis), BUDGET: "20/2s", REPLICAS: "3" });
    const lonely = await fleet.start({ REDIS_URL: urlOf(proxy) });
    const others = await startMany(fleet, 2);
    await Promise.all([lonely, ...others].map(expectStoreInUse));
    const [ofLonely, ofOthers] = [crowd(() => [lonely], 12), crowd(() => others, 20)];
    await expectServed(ofLonely);
    await lasting(TWO_SECONDS.windowMs);
    proxy.blackHole();
    proxy.cut();
    await lasting(2 * TWO_SECONDS.windowMs);
    await Promise.all([expectServed(ofLonely), expectServed(ofOthers)]);
    await lasting(TWO_SECONDS.windowMs);
    proxy.heal();
    proxy.cut();
    await expectStoreInUse(lonely);
    await lonely.process.says(/The shared budget is there again/);
    const from = Date.now() + TWO_SECONDS.windowMs;
    await expectUsedUp(fleet.arrivals, TWO_SECONDS, {
      windows: 2,
      from,
      least: 0.9,
      patienceMs: PATIENCE_MS,
    });
    await Promise.all([ofLonely.stop(), ofOthers.stop()]);
    await proxy.close();
    expectKept(fleet.arrivals(), TWO_SECONDS);
  });
});
