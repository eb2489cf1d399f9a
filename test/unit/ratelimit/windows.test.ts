import fc from "fast-check";
import { describe, expect, it } from "vitest";

import {
  freeAt,
  giveBackPlace,
  type Limit,
  noPlaces,
  type Places,
  settlePlace,
  spentIn,
  takePlace,
  tidyPlaces,
} from "../../../src/ratelimit/windows.ts";
import { limits, mostWithinClosed } from "./windows-support.ts";

const windowOf = (limit: number, windowMs: number): Limit => ({ limit, windowMs });

/** Sends that have arrived, and as many on their way as are wanted, which may take for ever. */
function placesOf(arrived: readonly number[], onTheirWay = 0): Places {
  const places = noPlaces();
  for (const [index, at] of arrived.entries()) settlePlace(places, `arrived ${index}`, at);
  for (let index = 0; index < onTheirWay; index++)
    takePlace(places, `going ${index}`, Number.POSITIVE_INFINITY);
  return places;
}

describe("a place in the windows", () => {
  it.each<[string, Limit[], number[], number, number, number]>([
    ["is free now where nothing was sent", [windowOf(2, 100)], [], 0, 0, 1000],
    ["is free now where there is room", [windowOf(2, 100)], [950], 0, 0, 1000],
    ["comes free a moment after the oldest has left", [windowOf(2, 100)], [950, 990], 0, 0, 1051],
    ["is still taken at the very end of the window", [windowOf(2, 100)], [900, 990], 0, 0, 1001],
    ["is free a moment after that", [windowOf(2, 100)], [899, 990], 0, 0, 1000],
    ["is for the strictest window", [windowOf(2, 100), windowOf(3, 1000)], [500, 950, 990], 0, 0, 1501],
    ["is behind those ahead", [windowOf(2, 100)], [950, 990], 0, 1, 1091],
    ["is behind those ahead in the next window too", [windowOf(2, 100)], [950, 990], 0, 2, 1152],
    ["is behind those ahead where nothing was sent", [windowOf(2, 100)], [], 0, 5, 1202],
    ["is held by one on its way as if it arrived now", [windowOf(1, 100)], [], 1, 0, 1101],
    ["beside one on its way goes by the one that arrived", [windowOf(2, 100)], [950], 1, 0, 1051],
    ["behind one on its way comes after it", [windowOf(2, 100)], [950], 1, 1, 1101],
    ["never comes free where nothing may be sent", [windowOf(5, 100), windowOf(0, 10)], [], 0, 0, Infinity],
  ])("%s", (_name, windows, arrived, onTheirWay, ahead, expected) => {
    expect(freeAt(placesOf(arrived, onTheirWay), windows, 1000, ahead)).toBe(expected);
  });
});

describe("what is spent", () => {
  it.each<[string, number[], number, number]>([
    ["is nothing at first", [], 0, 0],
    ["is what arrived within the window, both of its ends included", [899, 900, 950, 1000], 0, 3],
    ["is the same in whatever order it became known", [1000, 899, 950, 900], 0, 3],
    ["includes all that are on their way", [899, 950], 2, 3],
  ])("%s", (_name, arrived, onTheirWay, expected) => {
    expect(spentIn(placesOf(arrived, onTheirWay), 100, 1000)).toBe(expected);
  });

  it("is free again at once where a send never went", () => {
    const places = placesOf([]);
    takePlace(places, "a", 2000);
    expect(freeAt(places, [windowOf(1, 100)], 1000)).toBe(1101);
    giveBackPlace(places, "a");
    expect(spentIn(places, 100, 1000)).toBe(0);
    expect(freeAt(places, [windowOf(1, 100)], 1000)).toBe(1000);
  });

  it("counts a send once, from when it had arrived", () => {
    const places = noPlaces();
    takePlace(places, "a", 2000);
    settlePlace(places, "a", 1040);
    tidyPlaces(places, 100, 1050);
    expect(spentIn(places, 100, 1140)).toBe(1);
    expect(spentIn(places, 100, 1141)).toBe(0);
  });

  it("counts a send of which nothing is heard from the latest instant at which it can have arrived", () => {
    const places = noPlaces();
    takePlace(places, "a", 2000);
    tidyPlaces(places, 100, 1999);
    expect(places.onTheirWay.size).toBe(1);
    tidyPlaces(places, 100, 2050);
    expect(places.onTheirWay.size).toBe(0);
    expect(spentIn(places, 100, 2100)).toBe(1);
    expect(spentIn(places, 100, 2101)).toBe(0);
  });

  it("is forgotten when no window can see it, however much it was", () => {
    const places = noPlaces();
    for (let at = 0; at < 20_000; at++) {
      takePlace(places, "a", at + 10);
      settlePlace(places, "a", at);
      tidyPlaces(places, 100, at);
    }
    expect(places.arrived.length).toBeLessThan(4_000);
    expect(spentIn(places, 100, 19_999)).toBe(101);
    expect(freeAt(places, [windowOf(101, 100)], 19_999)).toBe(20_000);
  });
});

/** One that wants to send. All times are milliseconds. */
const traveller = fc.record({
  /** After the one before it asked. */
  askedAfter: fc.nat(80),
  /** On its way, at most the lease. */
  travels: fc.nat(60),
  /** From its arrival until the instant that is told, and from there until it is told. */
  toldLate: fc.nat(40),
  settledLate: fc.nat(40),
  fate: fc.constantFrom("settled", "settled", "settled", "never heard of", "never sent"),
});
const LEASE_MS = 60;

interface Event {
  readonly at: number;
  readonly happen: () => void;
}

/** Lets everything that is due by now happen, in order of time. */
function happenUntil(events: Event[], now: number): void {
  const due = events.filter(({ at }) => at <= now).toSorted((one, other) => one.at - other.at);
  for (const event of due) {
    events.splice(events.indexOf(event), 1);
    event.happen();
  }
}

describe("sends that go only when there is a place", () => {
  it("never overrun a window at the upstream, however long they travel and whatever is heard of them", () => {
    fc.assert(
      fc.property(limits, fc.array(traveller, { maxLength: 60 }), (windows, travellers) => {
        const horizonMs = Math.max(...windows.map(({ windowMs }) => windowMs));
        const places = noPlaces();
        const arrivals: number[] = [];
        const events: Event[] = [];
        let now = 0;
        for (const [index, { askedAfter, travels, toldLate, settledLate, fate }] of travellers.entries()) {
          const id = `${index}`;
          now += askedAfter;
          // Another may have been heard of meanwhile, so it looks again when it was told to.
          for (;;) {
            happenUntil(events, now);
            tidyPlaces(places, horizonMs, now);
            const at = freeAt(places, windows, now);
            if (at <= now) break;
            now = at;
          }
          takePlace(places, id, now + LEASE_MS);
          if (fate !== "never sent") arrivals.push(now + travels);
          const told = Math.min(now + travels + toldLate, now + LEASE_MS);
          if (fate === "settled") {
            const happen = (): void => {
              // Past its lease it is known to have arrived already.
              if (places.onTheirWay.has(id)) settlePlace(places, id, told);
            };
            events.push({ at: told + settledLate, happen });
          }
          if (fate === "never sent")
            events.push({ at: now + travels, happen: () => giveBackPlace(places, id) });
        }
        for (const { limit, windowMs } of windows)
          expect(mostWithinClosed(arrivals, windowMs)).toBeLessThanOrEqual(limit);
      }),
      { numRuns: 500 },
    );
  });

  it("leave no place unused where they arrive at once", () => {
    fc.assert(
      fc.property(limits, fc.array(fc.nat(80), { maxLength: 60 }), (windows, pauses) => {
        const places = noPlaces();
        const all: number[] = [];
        let now = 0;
        for (const pause of pauses) {
          now += pause;
          tidyPlaces(places, 300, now);
          const at = freeAt(places, windows, now);
          const isCrowded = (instant: number): boolean =>
            windows.some(
              ({ limit, windowMs }) =>
                all.filter((other) => other >= instant - windowMs && other <= instant).length >= limit,
            );
          expect(isCrowded(at)).toBe(false);
          if (at > now) expect(isCrowded(at - 1)).toBe(true);
          now = at;
          settlePlace(places, `${all.length}`, now);
          all.push(now);
        }
      }),
    );
  });
});
