import { describe, expect, it } from "vitest";

import { createRandom } from "../../support/random.ts";
import { playHistory } from "./history.ts";
import { drawPlan, type Plan } from "./plan.ts";
import { createWorld, start } from "./world.ts";

const WINDOW_MS = 30_000;

/** Nothing goes wrong, and every replica that asks wants more than there is. */
const used = async (limit: number, dispatchers: Plan["dispatchers"]): Promise<number> => {
  const outcome = await playHistory(7, {
    change: (plan) => ({
      ...plan,
      windows: [{ name: "30s", limit, windowMs: WINDOW_MS }],
      laterWindows: [],
      dispatchers,
      slots: 4,
      faults: [],
      faultyMs: 0,
      unsettled: 0,
      isMeasured: true,
      leaseMs: 2_000,
      timeoutMs: 250,
      arrivalMs: 5_000,
      degradedForMs: 60_000,
    }),
  });
  expect(outcome.problems).toEqual([]);
  return outcome.used;
};

/**
 * What is missing in windows of 30 s: a tenth of a second for each permit until it is known when its call arrived and
 * the permit is asked for again, and of one busy replica the escrow of the two idle ones (2 of 60, 1 of 20 or 10).
 */
describe("with Redis up", () => {
  it("three busy replicas use at least 99 % of the limit", async () => {
    expect(await used(60, [5, 5, 5])).toBeGreaterThanOrEqual(0.99);
  });

  it("one busy replica beside two idle ones uses at least 96 % of a limit of 60", async () => {
    expect(await used(60, [10, 0, 0])).toBeGreaterThanOrEqual(0.96);
  });

  it("and all but one permit of a limit of 20 or 10", async () => {
    expect(await used(20, [10, 0, 0])).toBeGreaterThanOrEqual(0.94);
    expect(await used(10, [10, 0, 0])).toBeGreaterThanOrEqual(0.89);
  });
});

describe("a replica that starts while Redis is away and then finds no data", () => {
  /** What the log says of it. */
  const warnings = async ({ awayMs, hasData }: Record<"awayMs", number> & { hasData: boolean }) => {
    const random = createRandom(1);
    const world = createWorld({ ...drawPlan(random), faults: [] }, random, createRandom(2));
    const { clock, server, replicas, log } = world;
    if (hasData) start(world, 0);
    await clock.advance(5_000);
    for (const replica of replicas) replica.isAlive = false;
    server.isUp = false;
    start(world, 1);
    await clock.advance(awayMs);
    server.isUp = true;
    await clock.advance(5_000);
    for (const replica of replicas) replica.isAlive = false;
    return log.filter((line) =>
      line.includes("Redis was away when this replica started, and now has no data"),
    );
  };

  it("warns once that a limit may be exceeded", async () => {
    expect(await warnings({ awayMs: 4_000, hasData: false })).toHaveLength(1);
  });

  it.each([
    { awayMs: 4_000, hasData: true },
    { awayMs: 500, hasData: false },
  ])("but not after $awayMs ms where data are there: $hasData", async (how) => {
    expect(await warnings(how)).toEqual([]);
  });
});
