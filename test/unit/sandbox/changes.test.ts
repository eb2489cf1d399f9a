import { describe, expect, it } from "vitest";

import { createChanges } from "../../../src/sandbox/dataset/changes.ts";

const DAY_MS = 86_400_000;

describe("a process of changes", () => {
  const rateOf = (path: string): number => (path === "/listings/1" ? 1 / 60_000 : 0);

  it("changes each path at its own rate, and the same seed gives the same changes", () => {
    let now = 0;
    const [changes, same] = [1, 1].map((seed) => createChanges({ seed, rateOf, now: () => now }));
    now = DAY_MS;
    const { revision, changedAt } = changes!.of("/listings/1");
    // 1,440 are expected, with a deviation of 38.
    expect(revision).toBeGreaterThan(1_250);
    expect(revision).toBeLessThan(1_630);
    expect(changedAt).toBeLessThanOrEqual(now);
    expect(same!.of("/listings/1").revision).toBe(revision);
    expect(changes!.of("/listings/2").revision).toBe(0);
  });

  it("never goes back, however often it is asked", () => {
    let now = 0;
    const [often, once] = [1, 1].map((seed) => createChanges({ seed, rateOf, now: () => now }));
    for (let before = 0; now < DAY_MS; now += 10_000) {
      const { revision } = often!.of("/listings/1");
      expect(revision).toBeGreaterThanOrEqual(before);
      before = revision;
    }
    expect(often!.of("/listings/1").revision).toBe(once!.of("/listings/1").revision);
  });
});
