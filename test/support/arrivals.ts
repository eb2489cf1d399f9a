/** What an upstream saw, held against what was agreed. */
import { expect } from "vitest";

interface AgreedWindow {
  readonly limit: number;
  readonly windowMs: number;
}

/** The most arrivals within any window of this length, the window's ends included. */
export function mostWithin(instants: readonly number[], windowMs: number): number {
  const sorted = instants.toSorted((a, b) => a - b);
  let most = 0;
  let first = 0;
  for (const [index, at] of sorted.entries()) {
    // One at the very end of a window belongs to the next.
    while ((sorted[first] ?? at) <= at - windowMs) first++;
    most = Math.max(most, index - first + 1);
  }
  return most;
}

/** No window, wherever it begins, has more arrivals than was agreed. */
export function expectKept(instants: readonly number[], { limit, windowMs }: AgreedWindow): void {
  expect(mostWithin(instants, windowMs)).toBeLessThanOrEqual(limit);
}
