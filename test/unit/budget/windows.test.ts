import fc from "fast-check";
import { describe, expect, it } from "vitest";

import {
  earliestSend,
  forgetOld,
  noSends,
  recordSend,
  type Sends,
  type Window,
} from "../../../src/budget/windows.ts";

const windowOf = (limit: number, windowMs: number): Window => ({ name: "w", limit, windowMs });

function sent(...instants: number[]): Sends {
  const sends = noSends();
  for (const at of instants) recordSend(sends, at);
  return sends;
}

describe("the earliest next send", () => {
  it.each<[string, Window[], number[], number, number, number]>([
    ["is now where nothing was sent", [windowOf(2, 100)], [], 1000, 0, 1000],
    ["is now where there is room", [windowOf(2, 100)], [950], 1000, 0, 1000],
    ["is when the oldest of a full window leaves it", [windowOf(2, 100)], [950, 990], 1000, 0, 1050],
    ["is now at the very instant it leaves", [windowOf(2, 100)], [900, 990], 1000, 0, 1000],
    [
      "is that of the strictest window",
      [windowOf(2, 100), windowOf(3, 1000)],
      [500, 950, 990],
      1000,
      0,
      1500,
    ],
    ["counts those ahead", [windowOf(2, 100)], [950, 990], 1000, 1, 1090],
    ["counts those ahead into the next window", [windowOf(2, 100)], [950, 990], 1000, 2, 1150],
    ["counts those ahead of an empty window", [windowOf(2, 100)], [], 1000, 5, 1200],
    ["does not suffer from a clock set back", [windowOf(1, 100)], [1000], 500, 0, 1100],
  ])("%s", (_name, windows, instants, now, ahead, expected) => {
    expect(earliestSend(windows, sent(...instants), now, ahead)).toBe(expected);
  });
});

const allowances = fc.array(
  fc.record({ limit: fc.integer({ min: 1, max: 6 }), windowMs: fc.integer({ min: 1, max: 300 }) }),
  { minLength: 1, maxLength: 3 },
);

describe("sends at their earliest", () => {
  it("never overrun any rolling window, and leave no place unused", () => {
    fc.assert(
      fc.property(allowances, fc.array(fc.nat(80), { maxLength: 60 }), (limits, pauses) => {
        const windows = limits.map(({ limit, windowMs }) => windowOf(limit, windowMs));
        const sends = noSends();
        const all: number[] = [];
        let now = 0;
        for (const pause of pauses) {
          now += pause;
          forgetOld(windows, sends, now);
          const at = earliestSend(windows, sends, now);
          const crowded = (t: number): boolean =>
            windows.some(
              ({ limit, windowMs }) =>
                all.filter((other) => other > t - windowMs && other <= t).length >= limit,
            );
          expect(crowded(at)).toBe(false);
          if (at > now) expect(crowded(at - 1)).toBe(true);
          now = at;
          recordSend(sends, now);
          all.push(now);
        }
      }),
    );
  });

  it("come when predicted from the length of the queue", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 1, max: 300 }),
        fc.array(fc.nat(200)),
        fc.nat(25),
        (limit, windowMs, gaps, ahead) => {
          const windows = [windowOf(limit, windowMs)];
          let at = 0;
          const sends = noSends();
          for (const gap of gaps) {
            at = earliestSend(windows, sends, at + gap);
            recordSend(sends, at);
          }
          const predicted = earliestSend(windows, sends, at, ahead);
          for (let other = 0; other < ahead; other++) {
            at = earliestSend(windows, sends, at);
            recordSend(sends, at);
          }
          expect(predicted).toBe(earliestSend(windows, sends, at));
        },
      ),
    );
  });

  it("are forgotten when no window can see them, however many there were", () => {
    const windows = [windowOf(5000, 100)];
    const sends = noSends();
    for (let at = 0; at < 20_000; at++) {
      recordSend(sends, at);
      forgetOld(windows, sends, at);
    }
    expect(sends.instants.length).toBeLessThan(4_000);
    expect(earliestSend([windowOf(100, 100)], sends, 19_999)).toBe(20_000);
  });
});
