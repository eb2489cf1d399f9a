/** Replicas that read new settings one after the other, under saturation: no caller is failed, no window overrun. */
import { expect, it } from "vitest";

import { mostWithin, expectKept } from "../support/arrivals.ts";
import { setTimeout as lasting } from "node:timers/promises";
import { redisForTest } from "../support/redis.ts";
import { crowd } from "../support/fleet.ts";
import { startTwo } from "../support/gateway.ts";

const MANY = { limit: 20, windowMs: 1_000 } as const;
const FEW = { limit: 10, windowMs: 1_000 } as const;
/** What was allowed under the earlier limits has arrived by then. */
const ARRIVED_MS = 200;

it("replicas keep a lower limit, and then a higher one, from when all of them have reloaded", async () => {
  let limit = "20/1s";
  // No call is hopeless because a busy machine is slow.
  const env = { BUDGET: "", BUDGET_MAX_WAIT: "60s" };
  const replicas = await startTwo({
    redis: await redisForTest(),
    env,
    // Longer than a busy machine delays Redis: without Redis, callers are refused. The limiter counts calls for longer, too.
    settings: () => `redis: { timeout: 1s }\nbudget: { limit: ${limit} }\n`,
  });
  const [{ sandbox }] = replicas;
  const callers = crowd(() => replicas, 15);
  await sandbox.waitForRequests(1);
  const arrivals = (): number[] => sandbox.requests().map(({ at }) => at);

  /** Some time passes between the first and the last: for so long they go by different limits. */
  async function reloadAll(next: string): Promise<number> {
    limit = next;
    for (const { reload } of replicas) {
      await lasting(300);
      expect((await reload()).status).toBe(200);
    }
    return Date.now();
  }

  const between = (from: number, to: number): number[] => arrivals().filter((at) => at >= from && at < to);
  const most = (from: number): number => mostWithin(between(from, Date.now()), MANY.windowMs);
  await expect.poll(() => most(0)).toBeGreaterThan(FEW.limit);
  const lowerFrom = (await reloadAll("10/1s")) + ARRIVED_MS;
  // The lower limit is not kept by sending nothing.
  await expect.poll(() => between(lowerFrom, Date.now()).length).toBeGreaterThan(2 * FEW.limit);
  const lowerTo = Date.now();
  const higherFrom = (await reloadAll("20/1s")) + ARRIVED_MS;
  await expect.poll(() => most(higherFrom)).toBeGreaterThan(FEW.limit);
  await callers.stop();

  expectKept(arrivals(), MANY);
  expectKept(between(lowerFrom, lowerTo), FEW);
  expect(callers.problems).toEqual([]);
});
