import { describe, expect, it } from "vitest";

import { isDueEarly } from "../../../src/cache/early.ts";
import { entryWith } from "../../support/entries.ts";

const END = 1_000_000;

/** In what part of all requests an answer is refreshed that is fresh for so long yet. */
function partRefreshed(leftMs: number, fetchMs: number, throws = 10_000): number {
  const entry = entryWith("{}", 0, { freshUntil: END, fetchMs });
  let refreshed = 0;
  // Every throw once, evenly.
  for (let nth = 0; nth < throws; nth++)
    if (isDueEarly(entry, (nth + 0.5) / throws, END - leftMs)) refreshed++;
  return refreshed / throws;
}

describe("a fresh answer", () => {
  it.each([
    [0, 1],
    [100, Math.exp(-0.5)],
    [200, Math.exp(-1)],
    [400, Math.exp(-2)],
    [1_000, Math.exp(-5)],
    [4_000, 0],
  ])("that took 200 ms and ends in %i ms is refreshed by this part of all requests: %f", (leftMs, part) => {
    expect(partRefreshed(leftMs, 200)).toBeCloseTo(part, 3);
  });

  it("is refreshed the earlier the longer it takes to be fetched", () => {
    const parts = [50, 100, 200, 400].map((fetchMs) => partRefreshed(500, fetchMs));
    expect(parts).toEqual([...parts].sort((one, other) => one - other));
    expect(new Set(parts).size).toBe(4);
  });

  it("that came at once is never refreshed before its end, whatever the dice say", () => {
    const entry = entryWith("{}", 0, { freshUntil: END, fetchMs: 0 });
    const dice = [0, 0.5, 0.999_999, 1 - Number.EPSILON / 2];
    expect(dice.map((thrown) => isDueEarly(entry, thrown, END - 1))).toEqual([false, false, false, false]);
  });
});
