/** Replicas that read new settings one after the other, under saturation: no caller is failed, no window overrun. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, it, onTestFinished } from "vitest";

import { mostWithin } from "../support/arrivals.ts";
import { ask } from "../support/ask.ts";
import {
  expectKept,
  expectShared,
  lasting,
  redisForTest,
  startMany,
  urlOf,
} from "../support/budget-watch.ts";
import { crowd, startFleet } from "../support/fleet.ts";

const MANY = { limit: 20, windowMs: 1_000 } as const;
const FEW = { limit: 10, windowMs: 1_000 } as const;
/** What was allowed under the earlier limits has arrived by then. */
const ARRIVED_MS = 200;

it("replicas keep a lower limit, and then a higher one, from when all of them have reloaded", async () => {
  const folder = mkdtempSync(join(tmpdir(), "property-gateway-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const CONFIG_FILE = join(folder, "settings.yaml");
  // A busy machine may delay Redis. No replica may go on without it because of that.
  const settings = (limit: string): string => `budget: { limit: ${limit} }\nredis: { timeout: 500ms }\n`;
  writeFileSync(CONFIG_FILE, settings("20/1s"));
  const fleet = await startFleet({
    REDIS_URL: urlOf(await redisForTest()),
    CONFIG_FILE,
    REPLICAS: "3",
    // No call is hopeless because a busy machine is slow.
    BUDGET_MAX_WAIT: "60s",
  });
  const replicas = await startMany(fleet, 3);
  await Promise.all(replicas.map(expectShared));
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

  await lasting(1_000);
  const lowerFrom = (await reloadAll("10/1s")) + ARRIVED_MS;
  await lasting(2_500);
  const lowerTo = Date.now();
  const higherFrom = (await reloadAll("20/1s")) + ARRIVED_MS;
  await lasting(2_500);
  await callers.stop();

  const arrivals = fleet.arrivals();
  const between = (from: number, to: number): number[] => arrivals.filter((at) => at >= from && at < to);
  expectKept(arrivals, MANY);
  expectKept(between(lowerFrom, lowerTo), FEW);
  // The lower limit was not kept by sending nothing, and the higher one is made use of.
  expect(mostWithin(between(lowerFrom, lowerTo), FEW.windowMs)).toBeGreaterThan(FEW.limit / 2);
  expect(mostWithin(between(higherFrom, Date.now()), MANY.windowMs)).toBeGreaterThan(FEW.limit);
  expect(callers.statuses.filter((status) => status !== 200)).toEqual([]);
});
