import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { earliestSend, forgetOld, noSends, recordSend, type Window } from "../../../src/budget/windows.ts";

const allowance = fc
  .array(fc.record({ limit: fc.integer({ min: 1, max: 6 }), windowMs: fc.integer({ min: 1, max: 300 }) }), {
    minLength: 1,
    maxLength: 3,
  })
  .map((limits): Window[] => limits.map((limit, index) => ({ name: `w${index}`, ...limit })));

/** Milliseconds between one who asks and the next. */
const gaps = fc.array(fc.nat(120), { maxLength: 40 });

/** The first instant, not before `from`, at which one more send leaves every window within its limit. */
function firstPlace(windows: readonly Window[], sent: readonly number[], from: number): number {
  for (let at = from; ; at++) {
    const full = windows.some(
      ({ limit, windowMs }) => sent.filter((each) => each > at - windowMs && each <= at).length >= limit,
    );
    if (!full) return at;
  }
}

function mostWithin(instants: readonly number[], windowMs: number): number {
  return Math.max(
    0,
    ...instants.map((end) => instants.filter((each) => each > end - windowMs && each <= end).length),
  );
}

describe("the predicted place of one in the queue", () => {
  it("is the one that it gets, whatever the windows and whoever is ahead", () => {
    fc.assert(
      fc.property(allowance, gaps, fc.nat(25), (windows, gaps, ahead) => {
        const sends = noSends();
        const sent: number[] = [];
        let now = 0;
        for (const gap of gaps) {
          now = firstPlace(windows, sent, now + gap);
          forgetOld(windows, sends, now);
          recordSend(sends, now);
          sent.push(now);
        }
        const predicted = earliestSend(windows, sends, now, ahead);
        const queue = [...sent];
        for (let other = 0; other < ahead; other++) queue.push(firstPlace(windows, queue, now));
        expect(predicted).toBe(firstPlace(windows, queue, now));
      }),
      { numRuns: 300 },
    );
  });

  it("counts those ahead through every window, not through each by itself", () => {
    const windows = [
      { name: "10s", limit: 1, windowMs: 10 },
      { name: "25s", limit: 2, windowMs: 25 },
    ];
    const places = [0, 1, 2, 3, 4].map((ahead) => earliestSend(windows, noSends(), 0, ahead));
    expect(places).toEqual([0, 10, 25, 35, 50]);
  });

  it("is found at once, however long the queue", () => {
    const windows = [
      { name: "1m", limit: 60, windowMs: 60_000 },
      { name: "1d", limit: 10_000, windowMs: 86_400_000 },
    ];
    const sends = noSends();
    for (let minute = 0; minute < 10; minute++) {
      for (let each = 0; each < 60; each++) recordSend(sends, minute * 60_000);
    }
    expect(earliestSend(windows, sends, 540_000, 100_000 - 600)).toBe(10 * 86_400_000);
  });
});

describe("a clock that is set back", () => {
  it("never makes room that is not there: real windows hold, whatever the clock says", () => {
    const moves = fc.array(fc.record({ pass: fc.nat(120), back: fc.oneof(fc.constant(0), fc.nat(500)) }), {
      maxLength: 40,
    });
    fc.assert(
      fc.property(allowance, moves, (windows, moves) => {
        const sends = noSends();
        const really: number[] = [];
        let real = 0;
        let behind = 0;
        for (const { pass, back } of moves) {
          real += pass;
          behind += back;
          // Waits as one does who is told an instant on such a clock.
          const at = earliestSend(windows, sends, real - behind);
          real = at + behind;
          forgetOld(windows, sends, at);
          recordSend(sends, at);
          really.push(real);
        }
        for (const { limit, windowMs } of windows) {
          expect(mostWithin(really, windowMs)).toBeLessThanOrEqual(limit);
        }
      }),
    );
  });

  it("does not forget what it sees as the future", () => {
    const windows = [{ name: "w", limit: 1, windowMs: 100 }];
    const sends = noSends();
    recordSend(sends, 1_000);
    forgetOld(windows, sends, 500);
    recordSend(sends, 500);
    expect(sends.instants).toEqual([1_000, 1_000]);
    expect(earliestSend(windows, sends, 500)).toBe(1_100);
  });
});
