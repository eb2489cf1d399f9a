/**
 * Learned lifetimes against one lifetime for all, in a simulation: requests and changes at random, and the rates are known from
 * the fetches alone. It needs no gateway, so it plays days in a second.
 */
import { describe, expect, it } from "vitest";

import type { Rates } from "../../../src/cache/entry.ts";
import { createLifetimes, type Lifetimes } from "../../../src/cache/lifetimes/learned-lifetimes.ts";
import { seededRandom } from "../../../src/sandbox/dataset/random.ts";

const TTL_MS = 300_000;

interface World {
  readonly answers: number;
  /** Requests per second for all answers together. The n-th popular answer gets 1/n as many as the first, or each as many. */
  readonly requests: number;
  readonly areEquallyPopular?: boolean;
  /** Lifetimes between two changes of the median answer. */
  readonly medianLifetimes: number;
  /** The deviation of the logarithm of the change rates; 0: all are equal. */
  readonly spread: number;
  /** Popular answers change more often. */
  readonly isCorrelated?: boolean;
}

const SEARCHES: World = { answers: 800, requests: 0.42, medianLifetimes: 58, spread: 2.5 };

const CHANGING: World = { ...SEARCHES, requests: 4, medianLifetimes: 20 };

type Outcome = ReturnType<typeof play>;

interface Game {
  readonly seed?: number;
  /** The first third does not count. */
  readonly hours?: number;
  readonly ttlMs?: number;
  readonly model?: Lifetimes;
}

/** Plays a world. The same seed gives the same requests and changes. */
function play(lifetimes: "learned" | "fixed", world: World, game: Game = {}) {
  const { seed = 1, hours = 36, ttlMs = TTL_MS, model = createLifetimes(() => lifetimes) } = game;
  const { next: random } = seededRandom(seed);
  const { shares, answers } = createAnswers(world, seed, random);
  const nextRequest = pauses(world.requests / 1_000, random);

  const endAt = hours * 3_600_000;
  const counts = { requests: 0, calls: 0, outOfDate: 0, oldestMs: 0 };
  for (let now = nextRequest(); now < endAt; now += nextRequest()) {
    const drawn = random();
    const answer = answers[shares.findIndex((upTo) => drawn < upTo)] ?? answers.at(-1)!;
    for (; answer.changesAt <= now; answer.changesAt += answer.nextChange()) answer.version++;
    const counted = now > endAt / 3 ? 1 : 0;
    counts.requests += counted;
    const { stored } = answer;
    if (stored !== undefined) {
      stored.requests++;
      if (now < stored.until) {
        if (stored.version !== answer.version) counts.outOfDate += counted;
        counts.oldestMs = Math.max(counts.oldestMs, now - stored.at);
        continue;
      }
    }
    counts.calls += counted;
    const { lifetimeMs, rates } = model.of({
      ttlMs,
      bound: (ms) => ms,
      known: stored?.rates,
      observation: stored && {
        sinceMs: now - stored.at,
        hasChanged: stored.version !== answer.version,
        requests: stored.requests,
      },
    });
    answer.stored = { at: now, until: now + lifetimeMs, version: answer.version, requests: 0, rates };
  }
  return {
    callsPerThousand: (counts.calls / counts.requests) * 1_000,
    /** The share of all answers that were out of date, and of those that were fresh by their lifetime. */
    outOfDate: counts.outOfDate / counts.requests,
    outOfDateFresh: counts.outOfDate / (counts.requests - counts.calls),
    /** The greatest age of an answer, in lifetimes. */
    oldest: counts.oldestMs / ttlMs,
    freshness: model.freshness(),
  };
}

/** @returns the answers, and for each one the share of requests for it and for all more popular ones */
function createAnswers(world: World, seed: number, random: () => number) {
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const weights = Array.from({ length: world.answers }, (_, nth) =>
    world.areEquallyPopular === true ? 1 : 1 / (nth + 1),
  );
  const allWeights = weights.reduce((sum, weight) => sum + weight, 0);
  const shares: number[] = [];
  for (const weight of weights) shares.push((shares.at(-1) ?? 0) + weight / allWeights);
  const changeRates = weights.map(() => Math.exp(normal() * world.spread) / (world.medianLifetimes * TTL_MS));
  if (world.isCorrelated === true) changeRates.sort((a, b) => b - a);
  const answers = changeRates.map((rate, nth) => {
    const nextChange = pauses(rate, seededRandom(seed * 100_000 + nth).next);
    return { nextChange, changesAt: nextChange(), version: 0, stored: undefined as Stored | undefined };
  });
  return { shares, answers };
}

interface Stored {
  readonly at: number;
  readonly until: number;
  readonly version: number;
  requests: number;
  readonly rates: Rates | undefined;
}

/** @returns the times between events of a Poisson process, in milliseconds */
function pauses(perMs: number, random: () => number): () => number {
  return () => (perMs > 0 ? -Math.log(1 - random()) / perMs : Infinity);
}

/** Learned lifetimes by fixed ones. */
function compare(world: World, game: Game = {}): { calls: number; outOfDate: number; learned: Outcome } {
  const [fixed, learned] = [play("fixed", world, game), play("learned", world, game)];
  return {
    calls: learned.callsPerThousand / fixed.callsPerThousand,
    outOfDate: learned.outOfDate / fixed.outOfDate,
    learned,
  };
}

describe("learned lifetimes", () => {
  it.each<[string, World, number]>([
    ["less than half of the out-of-date answers for the same calls", SEARCHES, 0.5],
    [
      "at most three quarters if popular answers change more often",
      { ...SEARCHES, spread: 2, isCorrelated: true },
      0.75,
    ],
    ["fewer if all answers change equally often", { ...SEARCHES, spread: 0, medianLifetimes: 15 }, 1],
  ])("leave %s", (_much, world, most) => {
    const { calls, outOfDate } = compare(world);
    expect(calls).toBeLessThan(1.03);
    expect(outOfDate).toBeLessThan(most);
  });

  it("are not worse by more than 3 % if all answers change equally often and are equally popular", () => {
    const world = { answers: 150, requests: 2, medianLifetimes: 15, spread: 0, areEquallyPopular: true };
    const games = [1, 2, 3, 4, 5, 6].map((seed) => compare(world, { seed, hours: 20 }));
    const ratios = games.map(({ outOfDate }) => outOfDate);
    const mean = ratios.reduce((sum, ratio) => sum + ratio, 0) / ratios.length;
    const variance = ratios.reduce((sum, ratio) => sum + (ratio - mean) ** 2, 0) / (ratios.length - 1);
    // The upper end of the interval of 95 % (Student's t with five degrees of freedom).
    expect(mean + 2.57 * Math.sqrt(variance / ratios.length)).toBeLessThan(1.03);
    for (const { calls } of games) expect(calls).toBeLessThan(1.03);
  });

  it.each<[string, number, number]>([
    ["fewer calls if nothing changes", Infinity, 0.9],
    ["no more calls if everything changes all the time", 0.05, 1.03],
  ])("need %s, and no answer is too old", (_calls, medianLifetimes, most) => {
    const { calls, learned } = compare({ ...SEARCHES, medianLifetimes, spread: 0 }, { hours: 24 });
    expect(calls).toBeLessThan(most);
    expect(learned.oldest).toBeLessThan(3);
  });

  it.each(["learned", "fixed"] as const)("are estimated as they are (%s)", (lifetimes) => {
    const { outOfDateFresh, freshness } = play(lifetimes, CHANGING);
    expect(freshness.expected).toBeGreaterThan(outOfDateFresh * 0.8);
    expect(freshness.expected).toBeLessThan(outOfDateFresh * 1.25);
    const fixed = play("fixed", CHANGING).outOfDateFresh;
    expect(freshness.expectedFixed).toBeGreaterThan(fixed * 0.8);
    expect(freshness.expectedFixed).toBeLessThan(fixed * 1.25);
  });

  it("say what half as many out-of-date answers cost", () => {
    const now = play("learned", CHANGING);
    const half = play("learned", CHANGING, { ttlMs: TTL_MS / 2 });
    expect(half.outOfDate / now.outOfDate).toBeCloseTo(0.5, 1);
    const calls = half.callsPerThousand / now.callsPerThousand;
    expect(now.freshness.callsForHalf).toBeGreaterThan(calls * 0.9);
    expect(now.freshness.callsForHalf).toBeLessThan(calls * 1.1);
  });
});
