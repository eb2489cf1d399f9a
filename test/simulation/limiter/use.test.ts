import { describe, expect, it } from "vitest";

import { playHistory } from "./history.ts";
import type { Plan } from "./plan.ts";

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

describe("with Redis up", () => {
  it("three busy replicas use at least 97 % of the limit", async () => {
    expect(await used(60, [5, 5, 5])).toBeGreaterThanOrEqual(0.97);
  });

  it("one busy replica beside two idle ones uses at least 90 %", async () => {
    expect(await used(60, [10, 0, 0])).toBeGreaterThanOrEqual(0.9);
    expect(await used(20, [10, 0, 0])).toBeGreaterThanOrEqual(0.9);
  });

  it("and at least 80 % of a limit of 10", async () => {
    expect(await used(10, [10, 0, 0])).toBeGreaterThanOrEqual(0.8);
  });
});
