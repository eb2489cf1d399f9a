import { describe, expect, it } from "vitest";

import { newStanding, type Standing } from "../../../src/ratelimit/arbiter.ts";
import type { CompletedLine, LedgerCompletion, LedgerLine } from "../../../src/usage/ledger.ts";
import { keepUp, steadily, type Moment } from "../../../src/ratelimit/neighbours.ts";
import { expectation, overviewOf } from "../../../src/ratelimit/overview.ts";
import { ledgerEntry } from "../../support/ledger.ts";
import { candidateOf, LEASE_MS, MINUTE, termsOf } from "./arbiter-support.ts";

const HOUR = 3_600_000;
/** By the time of day, and by the monotonic clock. */
const NOON = Date.UTC(2026, 0, 15, 12);
const LAST: Moment = { now: NOON, monotonic: 10_000 };
const LATER: Moment = { now: NOON + 100, monotonic: 10_100 };

/** The same moment, had the time of day been set by so much since the last look. */
const setBy = (ms: number): Moment => ({ ...LATER, now: LATER.now + ms });

describe("an instant by the time of day, by the monotonic clock", () => {
  it.each<[string, at: number, moment: Moment, monotonic: number]>([
    ["is the same, a moment later for the rounding", 40, LATER, 10_041],
    ["is never still to come", 100, LATER, 10_100],
    ["is never still to come, whatever is written", HOUR, LATER, 10_100],
    ["is not before the last look, as nothing that is new can be", -HOUR, LATER, 10_000],
    ["written before the time was set forward", 40, setBy(HOUR), 10_041],
    ["written after the time was set forward, may have been now", HOUR + 40, setBy(HOUR), 10_100],
    ["written before the time was set back, may have been now", 40, setBy(-HOUR), 10_100],
    ["written after the time was set back", -HOUR + 40, setBy(-HOUR), 10_041],
    ["written after the time was set forward a little, is late by that", 5 + 40, setBy(5), 10_046],
    ["written before the time was set back a little, is late by that", 40, setBy(-5), 10_046],
  ])("%s", (_name, at, moment, monotonic) => {
    expect(steadily(NOON + at, LAST, moment, LAST.monotonic)).toBe(monotonic);
  });
});

const terms = termsOf({ a: 1, b: 1 }, { windows: [{ name: "1m", limit: 1, windowMs: MINUTE }] });

const line = (at: number, fields: Partial<LedgerLine> = {}): LedgerLine => ({
  ...ledgerEntry({ id: "other.1", at: NOON + at, app: "a" }),
  completion: undefined,
  ...fields,
});

const completed = (at: number, arrivedAt: number, fields: Partial<LedgerCompletion> = {}): CompletedLine => ({
  ...line(at),
  completion: { status: 200, durationMs: 10, arrivedAt: NOON + arrivedAt, ...fields },
});

describe("what others send", () => {
  const hear = (
    standing: Standing,
    entered: LedgerLine[],
    ended: CompletedLine[],
    last = LAST,
    moment = LATER,
  ) => keepUp(standing, terms, { isFirst: false, entered, ended }, last, moment);
  const forMs = (standing: Standing, now = LATER.monotonic): number =>
    expectation(standing, terms, candidateOf("b"), [], now).forMs;

  it("holds its place until it is known to have arrived, or must have", () => {
    const standing = newStanding();
    hear(standing, [line(40)], []);
    expect(forMs(standing)).toBe(MINUTE + 1);
    expect(forMs(standing, 10_041 + LEASE_MS)).toBe(MINUTE + 1);
    expect(forMs(standing, 10_041 + LEASE_MS + 50)).toBe(MINUTE + 1 - 50);
  });

  it("counts from when it had arrived", () => {
    const standing = newStanding();
    hear(standing, [line(40)], []);
    const later = { now: NOON + 500, monotonic: 10_500 };
    hear(standing, [], [completed(40, 200)], LATER, later);
    expect(forMs(standing, later.monotonic)).toBe(MINUTE + 1 + 201 - 500);
  });

  it("counts from when it had arrived, where it has ended before it was heard of", () => {
    const standing = newStanding();
    hear(standing, [completed(20, 30)], []);
    expect(forMs(standing)).toBe(MINUTE + 1 + 31 - 100);
  });

  it("arrived no longer before the last look than it took, whatever the time of day says", () => {
    const standing = newStanding();
    hear(standing, [line(40)], []);
    const later = { now: NOON + 500, monotonic: 10_500 };
    hear(standing, [], [completed(40, -HOUR, { durationMs: 30 })], LATER, later);
    expect(forMs(standing, later.monotonic)).toBe(MINUTE + 1 + 70 - 500);
  });

  it("leaves its place where it never went, before it was heard of or after", () => {
    const standing = newStanding();
    const unsent = completed(40, 60, { status: "unsent" });
    hear(standing, [unsent], []);
    expect(forMs(standing)).toBe(0);
    hear(standing, [line(40)], []);
    expect(forMs(standing)).toBe(MINUTE + 1);
    hear(standing, [], [unsent]);
    expect(forMs(standing)).toBe(0);
  });

  it("is counted once, though its end is heard of after it must have arrived", () => {
    const standing = newStanding();
    hear(standing, [line(40)], []);
    const late = { now: NOON + 2 * LEASE_MS, monotonic: 10_000 + 2 * LEASE_MS };
    expect(forMs(standing, late.monotonic)).toBeGreaterThan(0);
    hear(standing, [], [completed(40, 60)], LATER, late);
    expect(overviewOf(standing, terms, "alone", late.monotonic).windows).toMatchObject([
      { spent: 1, byApp: { a: 1 } },
    ]);
  });

  it("makes its app one that is about: who takes more than its share leaves something for it", () => {
    const windows = [{ name: "1m", limit: 20, windowMs: MINUTE }];
    const shared = termsOf({ a: 1, b: 1 }, { windows });
    const standing = newStanding();
    const many = Array.from({ length: 11 }, (_, index) => ({
      ...completed(20, 30),
      id: `other.${index}`,
      app: "b",
    }));
    keepUp(standing, shared, { isFirst: false, entered: many, ended: [] }, LAST, LATER);
    const why = (): unknown => expectation(standing, shared, candidateOf("b"), [], LATER.monotonic).why;
    expect(why()).toBe("budget");
    keepUp(standing, shared, { isFirst: false, entered: [completed(20, 30)], ended: [] }, LAST, LATER);
    expect(why()).toBe("share");
  });
});
