import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { instantOf, type LedgerLine } from "../../src/usage/ledger.ts";
import { createUsage } from "../../src/usage/usage.ts";
import type { WindowUsage } from "../../src/usage/rolling-maxima.ts";
import type { RateWindow as Window } from "../../src/usage/rate-window.ts";
import { ledgerLine } from "../support/ledger.ts";

const FROM = 1_000_000;

/** The limits that were in force when a call was allowed; undefined for lines without limits. */
const limits = fc
  .dictionary(fc.constantFrom("10", "20", "30"), fc.integer({ min: 1, max: 6 }))
  .map((some) => Object.entries(some).map(([windowMs, limit]) => `${limit}/${windowMs}`));

/** A few instants, many of which fall together or a window apart. */
const went = fc.array(fc.integer({ min: -60, max: 60 }), { maxLength: 40 });
const line = fc.record({
  origin: fc.constantFrom("api" as const, "images" as const),
  /** From when it was allowed to go until it arrived; some never did, some were never sent. */
  ending: fc.oneof(
    { weight: 4, arbitrary: fc.integer({ min: 0, max: 25 }) },
    fc.constantFrom("uncompleted" as const, "unsent" as const),
  ),
  limits,
});
const window = fc.record({
  limit: fc.integer({ min: 1, max: 6 }),
  windowMs: fc.oneof(fc.constantFrom(10, 20, 30), fc.integer({ min: 1, max: 40 })),
});
const windows = fc
  .array(window, { minLength: 1, maxLength: 3 })
  .map((some) => some.map((one, index): Window => ({ ...one, name: `w${index}` })));

/** In the order in which they were allowed to go, as they are read. */
const lines = went.chain((instants) =>
  fc.array(line, { minLength: instants.length, maxLength: instants.length }).map((drawn) =>
    drawn.map(({ origin, ending, limits: then }, index): LedgerLine => {
      const at = FROM + ([...instants].sort((one, other) => one - other)[index] ?? 0);
      const entry = { id: String(index), at, origin, limits: then.join() };
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
  return {
    name,
    limit: window.limit,
    maximum,
    reachedAt,
    kept: isKept(sent, window, to),
    ...limitsOf(sent, window, to),
  };
}

function limitThen({ limits: text }: LedgerLine, window: Window): number | undefined {
  if (text === "") return window.limit;
  const pair = text.split(",").find((one) => one.endsWith(`/${window.windowMs}`));
  return pair === undefined ? undefined : Number(pair.split("/")[0]);
}

/** By when they arrived, and of one instant by when they were allowed. */
function inOrder(sent: readonly LedgerLine[]): LedgerLine[] {
  return sent.toSorted((a, b) => instantOf(a) - instantOf(b) || Number(a.id) - Number(b.id));
}

/** As each send arrives, and when the period begins: no more than the limit of whichever was allowed last. */
function isKept(sent: readonly LedgerLine[], window: Window, to: number): boolean {
  const arrived = inOrder(sent);
  const isRoomFor = (some: readonly LedgerLine[], end: number): boolean => {
    const held = some.filter((one) => instantOf(one) > end - window.windowMs && instantOf(one) <= end);
    const last = held.toSorted((a, b) => Number(a.id) - Number(b.id)).at(-1);
    return last === undefined || held.length <= (limitThen(last, window) ?? Number.POSITIVE_INFINITY);
  };
  return (
    isRoomFor(
      arrived.filter((one) => instantOf(one) < FROM),
      FROM,
    ) &&
    arrived.every((one, index) => {
      const end = instantOf(one);
      return end < FROM || end >= to || isRoomFor(arrived.slice(0, index + 1), end);
    })
  );
}

/** The limits that sends of the period were allowed under, where some were others than that of now. */
function limitsOf(sent: readonly LedgerLine[], window: Window, to: number): Pick<WindowUsage, "limits"> {
  const known = inOrder(sent).filter(
    (one) => one.limits !== "" && instantOf(one) >= FROM && instantOf(one) < to,
  );
  const different = [...new Set(known.map((one) => limitThen(one, window)))];
  if (different.every((limit) => limit === window.limit)) return {};
  const limits = different.map((limit) => {
    const instants = known.filter((one) => limitThen(one, window) === limit).map(instantOf);
    return { limit, from: Math.min(...instants), until: Math.max(...instants) };
  });
  return { limits };
}

describe("rolling maxima", () => {
  it("are the same as by counting, for any calls and any pieces", () => {
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
