import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { freeAt, noPlaces, settlePlace, takePlace, tidyPlaces } from "../../../src/ratelimit/windows.ts";
import { firstPlace, limits } from "./windows-support.ts";

/** Milliseconds between one who asks and the next. */
const gaps = fc.array(fc.nat(120), { maxLength: 40 });

describe("the predicted place of one in the queue", () => {
  it("is the one that it gets, whatever the windows, whoever is ahead and whatever is on its way", () => {
    fc.assert(
      fc.property(limits, gaps, fc.nat(4), fc.nat(25), (windows, gaps, going, ahead) => {
        const places = noPlaces();
        const sent: number[] = [];
        let now = 0;
        for (const gap of gaps) {
          now = firstPlace(windows, sent, now + gap);
          tidyPlaces(places, 300, now);
          settlePlace(places, "past", now);
          sent.push(now);
        }
        // Those on their way are reckoned with as if they arrived now.
        for (let index = 0; index < going && firstPlace(windows, sent, now) === now; index++) {
          takePlace(places, `going ${index}`, now + 1_000);
          sent.push(now);
        }
        const predicted = freeAt(places, windows, now, ahead);
        for (let other = 0; other < ahead; other++) sent.push(firstPlace(windows, sent, now));
        expect(predicted).toBe(firstPlace(windows, sent, now));
      }),
      { numRuns: 300 },
    );
  });

  it("is what asking step by step comes to", () => {
    fc.assert(
      fc.property(limits, gaps, fc.nat(25), (windows, gaps, ahead) => {
        const places = noPlaces();
        let now = 0;
        for (const gap of gaps) {
          now = freeAt(places, windows, now + gap);
          settlePlace(places, "past", now);
        }
        const predicted = freeAt(places, windows, now, ahead);
        for (let other = 0; other < ahead; other++) {
          now = freeAt(places, windows, now);
          settlePlace(places, "ahead", now);
        }
        expect(predicted).toBe(freeAt(places, windows, now));
      }),
    );
  });

  it("counts those ahead through every window, not through each by itself", () => {
    const windows = [
      { limit: 1, windowMs: 9 },
      { limit: 2, windowMs: 24 },
    ];
    const places = [0, 1, 2, 3, 4].map((ahead) => freeAt(noPlaces(), windows, 0, ahead));
    expect(places).toEqual([0, 10, 25, 35, 50]);
  });

  it("is found at once, however long the queue", () => {
    const windows = [
      { limit: 60, windowMs: 59_999 },
      { limit: 10_000, windowMs: 86_399_999 },
    ];
    const places = noPlaces();
    for (let minute = 0; minute < 10; minute++) {
      for (let each = 0; each < 60; each++) settlePlace(places, "past", minute * 60_000);
    }
    expect(freeAt(places, windows, 540_000, 100_000 - 600)).toBe(10 * 86_400_000);
  });
});
