import fc from "fast-check";
import { expect, it } from "vitest";

import { instantOf, type LedgerLine } from "../../src/usage/ledger-line.ts";
import { measure, type WindowUsage } from "../../src/usage/rolling-maximum.ts";
import type { RateWindow as Window } from "../../src/usage/rate-window.ts";
import { ledgerLine } from "../support/ledger.ts";

const FROM = 1_000_000;

/** A few instants, many of which fall together or a window apart, with the limits under which calls were allowed then. */
const calls = fc.array(
  fc.record({
    at: fc.integer({ min: -60, max: 60 }),
    tookMs: fc.option(fc.integer({ min: 0, max: 25 })),
    limits: fc.dictionary(fc.constantFrom("10", "20", "30"), fc.integer({ min: 1, max: 6 })),
  }),
  { maxLength: 40 },
);
const window = fc.record({
  limit: fc.integer({ min: 1, max: 6 }),
  windowMs: fc.oneof(fc.constantFrom(10, 20, 30), fc.integer({ min: 1, max: 40 })),
});
const windows = fc
  .array(window, { minLength: 1, maxLength: 3 })
  .map((some) => some.map((one, index): Window => ({ ...one, name: `w${index}` })));

function limitThen({ limits: text }: LedgerLine, { limit, windowMs }: Window): number {
  if (text === "") return limit;
  const pair = text.split(",").find((one) => one.endsWith(`/${windowMs}`));
  return pair === undefined ? Number.POSITIVE_INFINITY : Number(pair.split("/")[0]);
}

/** As the sentence says it: at each millisecond of the period, count what lies in the window that ends there. */
function byCounting(lines: readonly LedgerLine[], one: Window, to: number): Omit<WindowUsage, "limits"> {
  let [maximum, reachedAt, kept]: [number, number | undefined, boolean] = [0, undefined, true];
  for (let end = FROM; end < to; end++) {
    const held = lines.filter((line) => instantOf(line) > end - one.windowMs && instantOf(line) <= end);
    const isMeasured = end === FROM || held.some((line) => instantOf(line) === end);
    if (isMeasured && held.length > Math.max(0, ...held.map((line) => limitThen(line, one)))) kept = false;
    if (held.length > maximum) [maximum, reachedAt] = [held.length, end];
  }
  return { name: one.name, limit: one.limit, maximum, reachedAt, kept };
}

const OLD = { at: -1, tookMs: null, limits: {} };
const WINDOW = { name: "w0", limit: 1, windowMs: 30 };

it("rolling maxima are the same as by counting, for calls in any order", () => {
  fc.assert(
    fc.property(calls, windows, fc.integer({ min: 1, max: 60 }), (drawn, some, lengthMs) => {
      const lines = drawn.map(({ at, tookMs, limits }, index) => {
        const arrivedAt = FROM + at + (tookMs ?? 0);
        const text = Object.entries(limits).map(([windowMs, limit]) => `${limit}/${windowMs}`);
        return ledgerLine({
          id: String(index),
          at: FROM + at,
          limits: text.join(),
          completion: tookMs === null ? undefined : { status: 200, durationMs: 1, arrivedAt },
        });
      });
      const to = FROM + lengthMs;
      const alike = Map.groupBy(lines, ({ limits }) => limits);
      const byLimits = new Map([...alike].map(([text, ofThem]) => [text, ofThem.map(instantOf)]));
      for (const [at, found] of measure(byLimits, some, { from: FROM, to }).entries()) {
        const { kept, ...expected } = byCounting(lines, some[at] ?? WINDOW, to);
        expect(found).toMatchObject(expected);
        if (found.kept !== "unknown") expect(found.kept).toBe(kept);
        else expect([found.limits?.length, byLimits.size]).not.toContain(1);
      }
    }),
    // A call at the very beginning of the period, permitted under other limits than those before it.
    { numRuns: 500, examples: [[[OLD, { at: 0, tookMs: null, limits: { "10": 1 } }, OLD], [WINDOW], 1]] },
  );
});
