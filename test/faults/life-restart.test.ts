/** A new version is rolled out under traffic: no request fails, and the budget is kept. */
import { expect, it, onTestFinished } from "vitest";

import { expectKept } from "../support/arrivals.ts";
import { crowd, type Replica, startFleet } from "../support/fleet.ts";
import { expectShared } from "../support/gateway.ts";
import { redisForTest } from "../support/redis.ts";

it("a rolling restart of two processes under load fails no request and exceeds no limit", async () => {
  const fleet = await startFleet(
    { BUDGET: "40/1s", REPLICAS: "2", STOP_DELAY: "1s" },
    { redis: await redisForTest(), settings: "redis: { timeout: 1s }" },
  );
  /** What a load balancer knows: it asks each replica for its /readyz now and then. */
  const known = new Map<Replica, boolean>();
  const check = async (replica: Replica): Promise<void> => {
    const isReady = await replica.admin("/readyz").then(
      ({ status }) => status === 200,
      () => false,
    );
    if (known.has(replica)) known.set(replica, isReady);
  };
  const asking = setInterval(() => [...known.keys()].forEach(check), 100);
  onTestFinished(() => clearInterval(asking));
  const ready = (): Replica[] => [...known].flatMap(([replica, isReady]) => (isReady ? replica : []));

  const replicas = await Promise.all([fleet.start(), fleet.start()]);
  await expectShared(...replicas);
  for (const replica of replicas) known.set(replica, false);
  await expect.poll(ready).toHaveLength(2);
  const callers = crowd(ready, 5);
  const served = async (): Promise<void> => {
    const before = callers.answered();
    await expect.poll(callers.answered).toBeGreaterThan(before + 10);
  };
  await served();
  for (const old of replicas) {
    expect(await old.kill("SIGTERM")).toBe(0);
    known.delete(old);
    await served();
    known.set(await fleet.start(), false);
    await expect.poll(ready).toHaveLength(2);
    await served();
  }
  await callers.stop();
  expect(callers.problems).toEqual([]);
  expectKept(fleet.arrivals(), { limit: 40, windowMs: 1_000 });
});
