import fc from "fast-check";
import { describe, expect, it } from "vitest";

import {
  arrive,
  enter,
  newStanding,
  settle,
  type Standing,
  type Terms,
} from "../../../src/ratelimit/arbiter.ts";
import { createCutOff, type CutOff, type LastKnown } from "../../../src/ratelimit/cut-off.ts";
import { freeAt, settlePlace, noPlaces, takePlace, tidyPlaces } from "../../../src/ratelimit/windows.ts";
import { candidateOf, MINUTE, OK, termsOf } from "./arbiter-support.ts";
import { mostWithinClosed } from "./windows-support.ts";

const NOW = 1_000_000;
const APP = candidateOf("a");

const windowOf = (limit: number, windowMs = MINUTE): Terms["windows"][number] => ({
  name: `${windowMs}ms`,
  limit,
  windowMs,
});

/** What was sent before, at these instants. */
function sentBefore(terms: Terms, instants: readonly number[]): Standing {
  const standing = newStanding();
  for (const [index, at] of instants.entries()) {
    enter(standing, terms, { id: `before ${index}`, app: "a", until: at }, at);
    arrive(standing, { id: `before ${index}`, app: "a" }, at);
  }
  return standing;
}

const KNOWN: LastKnown = { at: NOW, held: [0], share: 0.5, heldShare: 0.5, slack: 0 };

/** Sends as often as it may at this instant. */
function sendAll(cutOff: CutOff, now: number): number {
  for (let sent = 0; ; sent++) {
    const id = `alone ${now} ${sent}`;
    if (cutOff.decide(() => id, [APP]).kind === "wait") return sent;
    arrive(cutOff.standing, { id, app: "a" }, now);
  }
}

describe("what a replica may send while it is cut off", () => {
  const terms = termsOf({ a: 1 }, { windows: [windowOf(60)], leaseMs: 0 });
  const many = (count: number): number[] => Array.from({ length: count }, (_, index) => NOW - 100 + index);

  it.each<[string, number[], Partial<LastKnown>, number]>([
    ["is its share of the limit where nothing was sent", [], {}, 30],
    ["is its share of what is left", many(20), {}, 20],
    ["is rounded down", many(21), {}, 19],
    ["is less by what it may not know of", many(20), { slack: 4 }, 18],
    ["is less by the shares of those that had gone silent", many(20), { held: [1] }, 5],
    ["is nothing where nothing is left", many(60), {}, 0],
    ["is nothing where less than nothing is left", many(59), { slack: 4 }, 0],
  ])("%s", (_name, before, changes, expected) => {
    const cutOff = createCutOff(sentBefore(terms, before), terms, { ...KNOWN, ...changes }, () => NOW);
    expect(sendAll(cutOff, NOW)).toBe(expected);
  });

  it("becomes more as what was sent before leaves the window, and what it may not know of", () => {
    let now = NOW;
    const before = sentBefore(terms, [...many(20).map((at) => at - 30_000), ...many(20)]);
    const cutOff = createCutOff(before, terms, { ...KNOWN, slack: 4 }, () => now);
    expect(cutOff.limitOf(windowOf(60))).toBe(8);
    now = NOW + 30_000;
    expect(cutOff.limitOf(windowOf(60))).toBe(18);
    now = NOW + MINUTE;
    expect(cutOff.limitOf(windowOf(60))).toBe(28);
    now = NOW + MINUTE + 1;
    expect(cutOff.limitOf(windowOf(60))).toBe(30);
  });

  it("is looked at again when the next of what was sent before leaves, or in a second", () => {
    let now = NOW;
    const cutOff = createCutOff(sentBefore(terms, [NOW - MINUTE + 300]), terms, KNOWN, () => now);
    sendAll(cutOff, now);
    expect(cutOff.decide(() => "id", [APP])).toEqual({ kind: "wait", at: NOW + 301 });
    now = NOW + 301;
    sendAll(cutOff, now);
    expect(cutOff.decide(() => "id", [APP])).toEqual({ kind: "wait", at: now + 1_000 });
  });

  it("counts what may not be known of until it can have left the window, however long it was on its way", () => {
    const slow = { ...terms, leaseMs: 10_000 };
    let now = NOW + 10_000 + MINUTE;
    const cutOff = createCutOff(newStanding(), slow, { ...KNOWN, slack: 4 }, () => now);
    expect(cutOff.limitOf(windowOf(60))).toBe(28);
    now += 1;
    expect(cutOff.limitOf(windowOf(60))).toBe(30);
  });

  it("is its share of an app's limit for a day too", () => {
    const daily = termsOf({ a: { weight: 1, perDay: 10 } }, { windows: [windowOf(60)], leaseMs: 0 });
    const cutOff = createCutOff(sentBefore(daily, many(4)), daily, KNOWN, () => NOW);
    expect(sendAll(cutOff, NOW)).toBe(3);
  });

  it("is nothing while the upstream, as was known, wants to be left alone", () => {
    const before = newStanding();
    const slowDown = { cause: "too-many-requests", forMs: 500 } as const;
    settle(
      before,
      terms,
      { id: "x", ...APP },
      { end: { ...OK, status: 429, slowDown }, arrivedAt: NOW },
      NOW,
    );
    let now = NOW;
    const cutOff = createCutOff(before, terms, { ...KNOWN, slack: 0 }, () => now);
    expect(sendAll(cutOff, now)).toBe(0);
    now = NOW + 1_000;
    expect(cutOff.decide(() => "probe", [APP]).kind).toBe("granted");
  });

  it("is one that tries, whoever was trying when it was cut off: that would never be heard of", () => {
    const before = newStanding();
    before.circuits.set("origin", {
      openUntil: NOW,
      cause: "unreachable",
      coolOffMs: 1_000,
      probe: "another replica's",
      probeUntil: NOW + 5_000,
    });
    const cutOff = createCutOff(before, { ...terms, leaseMs: 5_000 }, KNOWN, () => NOW);
    expect(cutOff.decide(() => "own", [APP]).kind).toBe("granted");
    expect(cutOff.decide(() => "next", [APP]).kind).toBe("wait");
  });
});

/** A send: after how long it was wanted, and how long it travels. */
const traveller = fc.record({ gapMs: fc.nat(60), travels: fc.nat(80) });
const LEASE_MS = 80;
const limits = fc.array(
  fc.record({ limit: fc.integer({ min: 2, max: 24 }), windowMs: fc.integer({ min: 20, max: 300 }) }),
  { minLength: 1, maxLength: 2 },
);

interface Arrival {
  readonly id: string;
  readonly at: number;
}

/** Lets what has arrived by now be heard of. */
function hear(standing: Standing, arrivals: Arrival[], now: number): void {
  for (const { id, at } of arrivals) {
    if (at <= now) arrive(standing, { id, app: "a" }, at);
  }
}

/** Sends of all replicas together, until a moment; each replica may have missed the last few. */
function together(
  terms: Terms,
  travellers: readonly { gapMs: number; travels: number }[],
  missed: readonly number[],
): { arrivals: Arrival[]; standings: Standing[]; at: number } {
  const places = noPlaces();
  const sends: { id: string; sentAt: number; at: number }[] = [];
  let now = NOW;
  for (const [index, { gapMs, travels }] of travellers.entries()) {
    now += gapMs;
    for (const { id, at } of sends) if (at <= now && places.onTheirWay.has(id)) settlePlace(places, id, at);
    tidyPlaces(places, 300, now);
    if (freeAt(places, terms.windows, now) > now) continue;
    takePlace(places, `${index}`, now + LEASE_MS);
    sends.push({ id: `${index}`, sentAt: now, at: now + travels });
  }
  const standings = missed.map((count) => {
    const standing = newStanding();
    const known = sends.slice(0, Math.max(0, sends.length - count));
    for (const { id, sentAt } of known)
      enter(standing, terms, { id, app: "a", until: sentAt + LEASE_MS }, sentAt);
    hear(standing, known, now);
    return standing;
  });
  return { arrivals: sends, standings, at: now };
}

describe("replicas that are all cut off at once", () => {
  it("never send more than the limit together, with what was sent before and whatever each has missed", () => {
    fc.assert(
      fc.property(
        limits,
        fc.array(traveller, { maxLength: 60 }),
        fc.array(fc.nat(2), { minLength: 1, maxLength: 4 }),
        fc.array(fc.nat(LEASE_MS), { minLength: 1, maxLength: 20 }),
        (limits, before, missed, travels) => {
          const terms = termsOf(
            { a: 1 },
            { windows: limits.map(({ limit, windowMs }) => windowOf(limit, windowMs)), leaseMs: LEASE_MS },
          );
          const { arrivals, standings, at } = together(terms, before, missed);
          let now = at;
          const share = 1 / missed.length;
          const replicas = standings.map((standing) => ({
            cutOff: createCutOff(
              standing,
              terms,
              { at, held: [], share, heldShare: share, slack: 2 },
              () => now,
            ),
            own: [] as Arrival[],
          }));
          let sent = 0;
          for (; now <= at + 900; now += 10) {
            for (const { cutOff, own } of replicas) {
              hear(cutOff.standing, own, now);
              const id = `alone ${sent}`;
              if (cutOff.decide(() => id, [APP]).kind === "wait") continue;
              own.push({ id, at: now + (travels[sent++ % travels.length] ?? 0) });
            }
          }
          const all = [...arrivals, ...replicas.flatMap(({ own }) => own)].map(({ at }) => at);
          for (const { limit, windowMs } of limits)
            expect(mostWithinClosed(all, windowMs)).toBeLessThanOrEqual(limit);
        },
      ),
      { numRuns: 300 },
    );
  });

  it("use what they may: their shares add up to nearly all of the limit", () => {
    const terms = termsOf({ a: 1 }, { windows: [windowOf(60)], leaseMs: 0 });
    let now = NOW;
    const replicas = [0, 1, 2].map(() =>
      createCutOff(newStanding(), terms, { ...KNOWN, share: 1 / 3, heldShare: 1 / 3, slack: 0 }, () => now),
    );
    expect(replicas.map((cutOff) => sendAll(cutOff, now))).toEqual([20, 20, 20]);
    now += MINUTE + 1;
    expect(replicas.map((cutOff) => sendAll(cutOff, now))).toEqual([20, 20, 20]);
  });
});
