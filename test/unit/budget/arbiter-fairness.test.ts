import { describe, expect, it } from "vitest";

import { ABOUT_MS, type Terms } from "../../../src/budget/arbiter.ts";
import {
  candidateOf,
  countsByApp,
  MINUTE,
  oneByOne,
  queued,
  simulate,
  termsOf,
  waitsOf,
} from "./arbiter-support.ts";

const windowOf = (limit: number): Partial<Terms> => ({ windows: [{ name: "1m", limit, windowMs: MINUTE }] });

describe("apps that want more than there is", () => {
  it.each([0, 700])("get it by weight in each minute, where sends travel for %i ms", (travelMs) => {
    const terms = termsOf({ a: 1, b: 2, c: 4 }, windowOf(70));
    const senders = ["a", "b", "c"].map((app) => queued(candidateOf(app), 10_000));
    const sent = simulate(terms, senders, 20 * MINUTE, travelMs);
    const period = MINUTE + travelMs + 1;
    for (let minute = 0; minute < 19; minute++) {
      const counts = countsByApp(sent, minute * period, (minute + 1) * period);
      expect(counts).toEqual({ a: 10, b: 20, c: 40 });
    }
  });

  it("get it by weight in the long run where the window cannot be divided so", () => {
    const terms = termsOf({ a: 1, b: 2, c: 4 }, windowOf(25));
    const senders = ["a", "b", "c"].map((app) => queued(candidateOf(app), 10_000));
    const sent = simulate(terms, senders, 200 * MINUTE);
    const { a = 0, b = 0, c = 0 } = countsByApp(sent);
    expect(sent.length).toBeGreaterThanOrEqual(25 * 199);
    expect(b / a).toBeCloseTo(2, 0);
    expect(c / a).toBeCloseTo(4, 0);
  });

  it("get it by weight soon after one that had everything is joined by others", () => {
    const terms = termsOf({ a: 1, b: 2, c: 4 }, windowOf(70));
    const late = ["b", "c"].map((app) => oneByOne(candidateOf(app), 10_000, 0, 1.5 * MINUTE));
    const sent = simulate(terms, [queued(candidateOf("a"), 10_000), ...late], 10 * MINUTE);
    expect(countsByApp(sent, 0, MINUTE)).toEqual({ a: 70 });
    const { a = 0, b = 0, c = 0 } = countsByApp(sent, 3 * MINUTE, 10 * MINUTE);
    expect(b / a).toBeCloseTo(2, 0);
    expect(c / a).toBeCloseTo(4, 0);
  });
});

describe("what one app leaves", () => {
  it("is used by the others: nothing is left over while anybody waits", () => {
    const terms = termsOf({ a: 1, b: 2, c: 4 }, windowOf(70));
    const senders = [queued(candidateOf("a"), 10_000), oneByOne(candidateOf("c"), 10_000, 20_000)];
    const counts = countsByApp(simulate(terms, senders, 20 * MINUTE), MINUTE, 20 * MINUTE);
    expect(counts["c"]).toBeGreaterThanOrEqual(2 * 19);
    expect((counts["a"] ?? 0) + (counts["c"] ?? 0)).toBeGreaterThanOrEqual(0.97 * 70 * 19);
  });

  it("is all used by one whom nobody disturbs", () => {
    const terms = termsOf({ a: 1, b: 2, c: 4 }, windowOf(70));
    const sent = simulate(terms, [queued(candidateOf("a"), 10_000)], 20 * MINUTE);
    expect(countsByApp(sent, 0, 20 * MINUTE)).toEqual({ a: 70 * 20 });
  });

  it("is taken evenly while others are about, and at once when they have long been silent", () => {
    const terms = termsOf({ a: 1, b: 1 }, windowOf(60));
    const senders = [oneByOne(candidateOf("b"), 1, 0), oneByOne(candidateOf("a"), 60, 0, 1)];
    const sent = simulate(terms, senders, 2 * MINUTE).filter(({ app }) => app === "a");
    const borrowed = sent.slice(30).map(({ at }) => at - 1);
    // The last place is left to the other, which has not had its share.
    const evenly = Array.from({ length: 28 }, (_, index) => index * 2_000);
    expect(borrowed.slice(0, 28)).toEqual(evenly);

    const later = [oneByOne(candidateOf("b"), 1, 0), oneByOne(candidateOf("a"), 60, 0, ABOUT_MS + 1)];
    const atOnce = simulate(terms, later, 2 * MINUTE).filter(({ app }) => app === "a");
    expect(new Set(atOnce.map(({ at }) => at))).toEqual(new Set([ABOUT_MS + 1]));
  });
});

/**
 * A hog has more queued than it can ever send; a quiet app asks one by one. Against being alone with its
 * share for a limit, what the quiet app loses is bounded: the hog takes its own share at once whenever
 * that comes free, and what it borrows beside it fills the window half-way through. So a place can be as
 * far as half a window away, and an interval of what is borrowed.
 */
describe("a quiet app beside a hog", () => {
  const MINUTES = 15;

  it.each([
    { hog: 1, quiet: 1, limit: 60 },
    { hog: 3, quiet: 1, limit: 60 },
    { hog: 1, quiet: 3, limit: 60 },
    { hog: 1, quiet: 1, limit: 10 },
    { hog: 9, quiet: 1, limit: 100 },
  ])(
    "waits at most half a window and an interval longer, and gets 2/5 at the least (weights $hog:$quiet, limit $limit)",
    ({ hog, quiet, limit }) => {
      const share = (limit * quiet) / (hog + quiet);
      const intervalMs = MINUTE / share;
      for (const part of [0.05, 0.25, 0.5, 0.75, 1, 1.05, 1.5, 2, 3]) {
        const asking = oneByOne(candidateOf("quiet"), 10_000, Math.round(intervalMs * part), MINUTE);
        const beside = simulate(
          termsOf({ hog, quiet }, windowOf(limit)),
          [queued(candidateOf("hog"), 10_000), asking],
          MINUTES * MINUTE,
        );
        const alone = simulate(termsOf({ quiet }, windowOf(share)), [asking], MINUTES * MINUTE);
        const [first = 0, ...waits] = waitsOf(beside, "quiet");
        const aloneWaits = waitsOf(alone, "quiet");
        // When it comes, the hog may have had everything.
        expect(first).toBeLessThanOrEqual(MINUTE + 1);
        expect(Math.max(...waits) - Math.max(...aloneWaits)).toBeLessThanOrEqual(MINUTE / 2 + intervalMs);
        expect(waits.length + 1).toBeGreaterThanOrEqual(0.4 * aloneWaits.length);
      }
    },
  );

  it("gets nearly its whole share where it asks for no less", () => {
    const asking = oneByOne(candidateOf("quiet"), 10_000, 20, MINUTE);
    const terms = termsOf({ hog: 1, quiet: 1 }, windowOf(60));
    const sent = simulate(terms, [queued(candidateOf("hog"), 10_000), asking], MINUTES * MINUTE);
    const counts = countsByApp(sent, 2 * MINUTE, 12 * MINUTE);
    expect(counts["quiet"]).toBeGreaterThanOrEqual(0.9 * 300);
  });

  it("is not held up at all by what waits behind it with less precedence", () => {
    const asking = oneByOne(candidateOf("quiet"), 10_000, 5_000);
    const terms = termsOf({ hog: 1, quiet: 1 }, { ...windowOf(60), reserve: 0.25 });
    const hog = queued(candidateOf("hog", "background"), 10_000);
    const sent = simulate(terms, [hog, asking], 10 * MINUTE);
    expect(Math.max(...waitsOf(sent, "quiet"))).toBe(0);
  });
});
