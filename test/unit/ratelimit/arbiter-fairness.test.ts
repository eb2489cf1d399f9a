import { describe, expect, it } from "vitest";

import type { Terms } from "../../../src/ratelimit/arbiter.ts";
import {
  candidateOf,
  countsByApp,
  MINUTE,
  oneByOne,
  queued,
  type Sent,
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

    const silentMs = 2 * MINUTE + 1;
    const later = [oneByOne(candidateOf("b"), 1, 0), oneByOne(candidateOf("a"), 60, 0, silentMs)];
    const atOnce = simulate(terms, later, 3 * MINUTE).filter(({ app }) => app === "a");
    expect(new Set(atOnce.map(({ at }) => at))).toEqual(new Set([silentMs]));
  });
});

/**
 * A hog has more queued than it can ever send; a quiet app asks one by one. It is held against being alone with
 * its share for a limit. When it comes, the hog may have had everything; and until it has asked for the second
 * time nobody knows how much it wants. From then on it is left what it wants.
 */
describe("a quiet app beside a hog", () => {
  const MINUTES = 15;
  const PARTS = [0.05, 0.25, 0.5, 0.75, 1, 1.05, 1.5, 2, 3, 10];
  const mean = (waits: readonly number[]): number => waits.reduce((sum, ms) => sum + ms, 0) / waits.length;
  const lateOnes = (sent: readonly Sent[]): readonly Sent[] =>
    sent.filter(({ askedAt }) => askedAt >= 3 * MINUTE);

  it.each(
    [0, 0.5 * MINUTE, MINUTE, 1.7 * MINUTE].flatMap((startMs) => [
      { startMs, hog: 1, quiet: 1, limit: 60 },
      { startMs, hog: 3, quiet: 1, limit: 60 },
      { startMs, hog: 1, quiet: 3, limit: 60 },
      { startMs, hog: 1, quiet: 1, limit: 10 },
      { startMs, hog: 9, quiet: 1, limit: 100 },
    ]),
  )(
    "waits no more than twice as long as alone, and gets as much (weights $hog:$quiet, limit $limit, from $startMs ms on)",
    ({ startMs, hog, quiet, limit }) => {
      const share = (limit * quiet) / (hog + quiet);
      const intervalMs = MINUTE / share;
      for (const part of PARTS) {
        const asking = oneByOne(candidateOf("quiet"), 10_000, Math.round(intervalMs * part), startMs);
        const terms = termsOf({ hog, quiet }, windowOf(limit));
        const beside = simulate(terms, [queued(candidateOf("hog"), 10_000), asking], MINUTES * MINUTE);
        const alone = simulate(termsOf({ quiet }, windowOf(share)), [asking], MINUTES * MINUTE);
        const [first = 0, ...waits] = waitsOf(beside, "quiet");
        const aloneWaits = waitsOf(alone, "quiet");
        expect(first).toBeLessThanOrEqual(MINUTE + 1);
        expect(Math.max(...waits)).toBeLessThanOrEqual(2 * Math.max(...aloneWaits) + 2 * intervalMs);
        expect(mean(waits)).toBeLessThanOrEqual(2 * mean(aloneWaits) + 0.05 * intervalMs);
        const [got, gotAlone] = [beside, alone].map((sent) => waitsOf(lateOnes(sent), "quiet").length);
        expect(got).toBeGreaterThanOrEqual(Math.floor(0.95 * (gotAlone ?? 0)));
      }
    },
  );

  it("and the hog have nearly all there is between them", () => {
    for (const part of PARTS) {
      const asking = oneByOne(candidateOf("quiet"), 10_000, 2_000 * part);
      const terms = termsOf({ hog: 1, quiet: 1 }, windowOf(60));
      const sent = simulate(terms, [queued(candidateOf("hog"), 10_000), asking], MINUTES * MINUTE);
      const used = sent.filter(({ at }) => at >= 2 * MINUTE).length;
      expect(used).toBeGreaterThanOrEqual(0.97 * 60 * (MINUTES - 2));
    }
  });

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
