import { describe, expect, it } from "vitest";

import { isSettled, learn, lifetimeAt, UNOBSERVED } from "../../../src/cache/change-rate.ts";
import type { Query } from "../../../src/query/query.ts";
import { SEARCH } from "../../support/question.ts";
import { load, MINIMAL } from "../config/config-fixture.ts";

const MINUTE = 60_000;
const BOUNDS = { ttlMs: 5 * MINUTE, ttlMinMs: MINUTE, ttlMaxMs: 30 * MINUTE };

/** The lifetimes of an answer that is refreshed at the end of each. */
function lifetimesOf(refreshes: number, hasChanged: (nth: number, elapsedMs: number) => boolean): number[] {
  let changeRate = UNOBSERVED;
  return Array.from({ length: refreshes }, (_, nth) => {
    const elapsedMs = lifetimeAt(changeRate, BOUNDS, false);
    changeRate = learn(changeRate, hasChanged(nth, elapsedMs), elapsedMs, BOUNDS);
    return lifetimeAt(changeRate, BOUNDS, false);
  });
}

describe("the lifetime of an answer", () => {
  it("is as configured at first", () => {
    expect(lifetimeAt(UNOBSERVED, BOUNDS, false)).toBe(5 * MINUTE);
  });

  it("is four times as long for answers that rarely change, within the limits", () => {
    expect(lifetimeAt(UNOBSERVED, BOUNDS, true)).toBe(20 * MINUTE);
    expect(lifetimeAt(UNOBSERVED, { ...BOUNDS, ttlMaxMs: 8 * MINUTE }, true)).toBe(8 * MINUTE);
  });

  it("shrinks if each refresh brings a change, to about 2/7 of the configured one", () => {
    const lifetimes = lifetimesOf(60, () => true);
    expect(lifetimes).toEqual([...lifetimes].sort((one, other) => other - one));
    expect(lifetimes[0]).toBeLessThan(5 * MINUTE);
    expect((5 * MINUTE) / (lifetimes.at(-1) ?? 0)).toBeCloseTo(3.5, 2);
  });

  it("shrinks to four fifths for answers that rarely change if each refresh brings a change", () => {
    let changeRate = UNOBSERVED;
    const bounds = { ...BOUNDS, ttlMaxMs: 60 * MINUTE };
    for (let nth = 0; nth < 60; nth++)
      changeRate = learn(changeRate, true, lifetimeAt(changeRate, bounds, true), bounds);
    expect(lifetimeAt(changeRate, bounds, true) / bounds.ttlMs).toBeCloseTo(0.8, 1);
  });

  it("is never shorter than ttlMin", () => {
    let changeRate = UNOBSERVED;
    for (let nth = 0; nth < 60; nth++) changeRate = learn(changeRate, true, 1, BOUNDS);
    expect(lifetimeAt(changeRate, BOUNDS, false)).toBe(MINUTE);
  });

  it("stays above ttlMin by default", () => {
    const { ttlMs, ttlMinMs } = load(MINIMAL).cache;
    for (const kind of ["listings", "sold", "records"] as const)
      expect([kind, ttlMs[kind] / 3.5 > ttlMinMs[kind]]).toEqual([kind, true]);
    for (const kind of ["areas", "images"] as const)
      expect([kind, ttlMs[kind] * 0.78 > ttlMinMs[kind]]).toEqual([kind, true]);
  });

  it("grows without changes, up to ttlMax", () => {
    const lifetimes = lifetimesOf(40, () => false);
    expect(lifetimes).toEqual([...lifetimes].sort((one, other) => one - other));
    expect(lifetimes[0]).toBeGreaterThan(5 * MINUTE);
    expect(lifetimes.at(-1)).toBeGreaterThan(15 * MINUTE);
    expect(Math.max(...lifetimes)).toBeLessThanOrEqual(30 * MINUTE);
  });

  it("stays about the same if every second refresh brings a change", () => {
    for (const lifetime of lifetimesOf(40, (nth) => nth % 2 === 1).slice(20)) {
      expect(lifetime).toBeGreaterThan(4 * MINUTE);
      expect(lifetime).toBeLessThan(9 * MINUTE);
    }
  });

  it("adapts when an answer starts and stops changing", () => {
    const lifetimes = lifetimesOf(60, (nth) => nth >= 20 && nth < 40);
    const [calm = 0, busy = 0, calmAgain = 0] = [19, 39, 59].map((nth) => lifetimes[nth]);
    expect(busy).toBeLessThan(calm / 2);
    expect(calmAgain).toBeGreaterThan(busy * 2);
  });

  it.each([
    ["more changes than anybody could see", { changes: 1e9, watchedMs: 0 }, MINUTE],
    ["a calm without end", { changes: 0, watchedMs: 1e15 }, 30 * MINUTE],
  ])("stays within its limits after %s", (_name, changeRate, lifetime) => {
    expect(lifetimeAt(changeRate, BOUNDS, false)).toBe(lifetime);
  });

  it("is ttlMin if that is longer than ttlMax", () => {
    expect(lifetimeAt(UNOBSERVED, { ...BOUNDS, ttlMinMs: 40 * MINUTE }, false)).toBe(40 * MINUTE);
  });
});

describe("an answer without requests for a long time", () => {
  it("that has changed does not get a longer lifetime", () => {
    const soon = learn(UNOBSERVED, true, 5 * MINUTE, BOUNDS);
    expect(learn(UNOBSERVED, true, 1_000 * MINUTE, BOUNDS)).toEqual(soon);
  });

  it("that has not changed counts as observed for at most ttlMax", () => {
    expect(learn(UNOBSERVED, false, 1_000 * MINUTE, BOUNDS)).toEqual({ changes: 0, watchedMs: 30 * MINUTE });
  });

  it("counts as not observed if the clock went back", () => {
    expect(learn(UNOBSERVED, false, -MINUTE, BOUNDS)).toEqual(UNOBSERVED);
  });
});

describe("answers that rarely change", () => {
  const NOW = Date.UTC(2026, 6, 1);
  const sold = (filters: readonly (readonly [string, string])[]): Query => ({
    ...SEARCH,
    resource: "sold",
    filters,
  });
  const RECORD: Query = { kind: "record", resource: "sold", serviceId: "7", extras: [] };
  const IMAGE: Query = { kind: "image", resource: "images", serviceId: "7", width: 1, height: 1, extras: [] };

  it.each<[string, Query, boolean]>([
    ["areas", { ...SEARCH, resource: "areas" }, true],
    ["pictures", IMAGE, true],
    ["sales of a period that is long over", sold([["maxSoldDate", "20260501"]]), true],
    ["sales of a period that is just over", sold([["maxSoldDate", "20260502"]]), false],
    ["sales up to today", sold([]), false],
    ["sales up to a day that is none", sold([["maxSoldDate", "0"]]), false],
    ["sales since long ago", sold([["minSoldDate", "20200101"]]), false],
    ["one sale", RECORD, false],
    ["listings", SEARCH, false],
  ])("%s: %o", (_name, query, settled) => {
    expect(isSettled(query, NOW)).toBe(settled);
  });
});
