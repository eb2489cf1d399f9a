/** Replicas that read new settings one after the other, under saturation: no caller is failed, no window overrun. */
import { writeFileSync } from "node:fs";

import { expect, it } from "vitest";

import { mostWithin, expectKept } from "../support/arrivals.ts";
import { ask } from "../support/ask.ts";
import { setTimeout as lasting } from "node:timers/promises";
import { redisForTest, urlOf } from "../support/redis.ts";
import { fileWith } from "../support/files.ts";
import { crowd, startFleet, startMany } from "../support/fleet.ts";
import { expectShared } from "../support/two-gateways.ts";

const MANY = { limit: 20, windowMs: 1_000 } as const;
const FEW = { limit: 10, windowMs: 1_000 } as const;
/** What was allowed under the earlier limits has arrived by then. */
const ARRIVED_MS = 200;

it("replicas keep a lower limit, and then a higher one, from when all of them have reloaded", async () => {
  // A busy machine may delay Redis. No replica may go on without it because of that.
  const settings = (limit: string): string => `budget: { limit: ${limit} }\nredis: { timeout: 500ms }\n`;
  const CONFIG_FILE = fileWith(settings("20/1s"));
  const fleet = await startFleet({
    REDIS_URL: urlOf(await redisForTest()),
    CONFIG_FILE,
    REPLICAS: "3",
    // No call is hopeless because a busy machine is slow.
    BUDGET_MAX_WAIT: "60s",
  });
  const replicas = await startMany(fleet, 3);
  await Promise.all(replicas.map(({ admin }) => expectShared(admin)));
  const callers = crowd(() => replicas, 15);
  await fleet.sandbox.waitForRequests(1);

  /** Some time passes between the first and the last: for so long they go by different limits. */
  async function reloadAll(limit: string): Promise<number> {
    writeFileSync(CONFIG_FILE, settings(limit));
    for (const { admin } of replicas) {
      await lasting(300);
      expect((await ask(`${admin}/config/reload`, { method: "POST" })).status).toBe(200);
    }
    return Date.now();
  }

  const between = (from: number, to: number): number[] =>
    fleet.arrivals().filter((at) => at >= from && at < to);
  const most = (from: number): number => mostWithin(between(from, Date.now()), MANY.windowMs);
  await expect.poll(() => most(0)).toBeGreaterThan(FEW.limit);
  const lowerFrom = (await reloadAll("10/1s")) + ARRIVED_MS;
  // The lower limit is not kept by sending nothing.
  await expect.poll(() => between(lowerFrom, Date.now()).length).toBeGreaterThan(2 * FEW.limit);
  const lowerTo = Date.now();
  const higherFrom = (await reloadAll("20/1s")) + ARRIVED_MS;
  await expect.poll(() => most(higherFrom)).toBeGreaterThan(FEW.limit);
  await callers.stop();

  const arrivals = fleet.arrivals();
  expectKept(arrivals, MANY);
  expectKept(between(lowerFrom, lowerTo), FEW);
  expect(callers.statuses.filter((status) => status !== 200)).toEqual([]);
});
