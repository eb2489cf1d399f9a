import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { instantOf, type LedgerLine } from "../../src/budget/ledger.ts";
import { createUsage } from "../../src/budget/usage.ts";
import type { WindowUsage } from "../../src/budget/rolling-maxima.ts";
import type { Window } from "../../src/budget/windows.ts";
import { ledgerLine } from "../support/ledger.ts";

const FROM = 1_000_000;

/** A few instants, many of which fall together or a window apart. */
const went = fc.array(fc.integer({ min: -60, max: 60 }), { maxLength: 40 });
const line = fc.record({
  origin: fc.constantFrom("api" as const, "images" as const),
  /** From when it was allowed to go until it arrived; some never did, some were never sent. */
  ending: fc.oneof(
    { weight: 4, arbitrary: fc.integer({ min: 0, max: 25 }) },
    fc.constantFrom("uncompleted" as const, "unsent" as const),
  ),
});
const window = fc.record({
  limit: fc.integer({ min: 1, max: 6 }),
  windowMs: fc.integer({ min: 1, max: 40 }),
});
const windows = fc
  .array(window, { minLength: 1, maxLength: 3 })
  .map((some) => some.map((one, index): Window => ({ ...one, name: `w${index}` })));

/** In the order in which they were allowed to go, as they are read. */
const lines = went.chain((instants) =>
  fc.array(line, { minLength: instants.length, maxLength: instants.length }).map((drawn) =>
    drawn.map(({ origin, ending }, index): LedgerLine => {
      const at = FROM + ([...instants].sort((one, other) => one - other)[index] ?? 0);
      const entry = { id: String(index), at, origin };
      if (ending === "uncompleted") return ledgerLine({ ...entry, completion: undefined });
      const arrivedAt = at + (ending === "unsent" ? 0 : ending);
      return ledgerLine({
        ...entry,
        completion: { status: ending === "unsent" ? ending : 200, durationMs: 1, arrivedAt },
      });
    }),
  ),
);

/** As the sentence says it: at each millisecond of the period, count what lies in the window that ends there. */
function byCounting(sent: readonly LedgerLine[], window: Window, name: string, to: number): WindowUsage {
  let [maximum, reachedAt]: [number, number | undefined] = [0, undefined];
  for (let end = FROM; end < to; end++) {
    const held = sent.filter((one) => instantOf(one) > end - window.windowMs && instantOf(one) <= end).length;
    if (held > maximum) [maximum, reachedAt] = [held, end];
  }
  return { name, limit: window.limit, maximum, reachedAt, kept: maximum <= window.limit };
}

describe("rolling maxima", () => {
  it("are what counting finds, whatever was sent, in whatever pieces it is read", () => {
    fc.assert(
      fc.property(
        lines,
        windows,
        windows,
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 1, max: 9 }),
        (all, api, images, lengthMs, pieceSize) => {
          const to = FROM + lengthMs;
          const usage = createUsage({ windows: { api, images }, by: "app", from: FROM, to });
          for (let first = 0; first < all.length; first += pieceSize)
            usage.add(all.slice(first, first + pieceSize));
          const sent = all.filter(({ completion }) => completion?.status !== "unsent");
          const of = (origin: string): LedgerLine[] => sent.filter((one) => one.origin === origin);
          const { totals, windows } = usage.finish();
          expect(windows).toEqual([
            ...api.map((window) => byCounting(of("api"), window, window.name, to)),
            ...images.map((window) => byCounting(of("images"), window, `images/${window.name}`, to)),
          ]);
          expect(totals.sends).toBe(
            sent.filter((one) => instantOf(one) >= FROM && instantOf(one) < to).length,
          );
        },
      ),
      { numRuns: 500 },
    );
  });
});
