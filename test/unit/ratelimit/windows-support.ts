/** Rolling windows counted from scratch, to hold the arithmetic against. */
import fc from "fast-check";

import type { Limit } from "../../../src/ratelimit/windows.ts";

export const limits: fc.Arbitrary<Limit[]> = fc.array(
  fc.record({ limit: fc.integer({ min: 1, max: 6 }), windowMs: fc.integer({ min: 1, max: 300 }) }),
  { minLength: 1, maxLength: 3 },
);

/** The most instants within any window of this length, both of its ends included. */
export function mostWithinClosed(instants: readonly number[], windowMs: number): number {
  return Math.max(
    0,
    ...instants.map((end) => instants.filter((at) => at >= end - windowMs && at <= end).length),
  );
}

/** The first instant, not before `from`, at which one more send leaves every window within its limit. */
export function firstPlace(windows: readonly Limit[], sent: readonly number[], from: number): number {
  for (let at = from; ; at++) {
    const isFull = windows.some(
      ({ limit, windowMs }) => sent.filter((each) => each >= at - windowMs && each <= at).length >= limit,
    );
    if (!isFull) return at;
  }
}
