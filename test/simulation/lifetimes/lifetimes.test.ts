/**
 * Learned lifetimes against one lifetime for all, in a simulation: requests and changes at random, and the rates are known from
 * the fetches alone. It needs no gateway, so it plays days in a second.
 */
import { describe, expect, it } from "vitest";

import type { Rates } from "../../../src/cache/learned-lifetime.ts";
import { createLifetimes, type Freshness } from "../../../src/cache/lifetimes.ts";
import { seededRandom } from "../../../src/sandbox/dataset/random.ts";

const TTL_MS = 300_000;

interface World {
  readonly answers: number;
  /** Requests per second for all answers together. The n-th popular answer gets 1/n as many as the first. */
  readonly requests: number;
  /** Lifetimes between two changes of the median answer. */
  readonly medianLifetimes: number;
  /** The deviation of the logarithm of the change rates; 0: all are equal. */
  readonly spread: number;
  /** Popular answers change more often. */
  readonly isCorrelated?: boolean;
}

const SEARCHES: World = { answers: 800, requests: 0.42, medianLifetimes: 58, spread: 2.5 };

interface Outcome {
  readonly callsPerThousand: number;
  /** The share of out-of-date answers. */
  readonly outOfDate: number;
  /** The greatest age of an answer, in lifetimes. */
  readonly oldest: number;
  readonly freshness: Freshness;
}

/** Plays a day, of which the last two thirds count. */
function play(lifetimes: "learned" | "fixed", world: World, seed = 1, hours = 36): Outcome {
  const { next: random } = seededRandom(seed);
  const waiting = (perMs: number): number => (perMs > 0 ? -Math.log(1 - random()) / perMs : Infinity);
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const weights = Array.from({ length: world.answers }, (_, nth) => 1 / (nth + 1));
  const allWeights = weights.reduce((sum, weight) => sum + weight, 0);
  const shares: number[] = [];
  for (const weight of weights) shares.push((shares.at(-1) ?? 0) + weight / allWeights);
  const changeRates = weights.map(() => Math.exp(normal() * world.spread) / (world.medianLifetimes * TTL_MS));
  if (world.isCorrelated === true) changeRates.sort((a, b) => b - a);
  const answers = changeRates.map((changes) => ({
    changes,
    changesAt: waiting(changes),
    version: 0,
    stored: undefined as
      | { at: number; until: number; version: number; requests: number; rates: Rates | undefined }
      | undefined,
  }));

  const { of, freshness } = createLifetimes(() => lifetimes);
  const endAt = hours * 3_600_000;
  const counts = { requests: 0, calls: 0, outOfDate: 0, oldestMs: 0 };
  for (let now = waiting(world.requests / 1_000); now < endAt; now += waiting(world.requests / 1_000)) {
    const at = random();
    const answer = answers[shares.findIndex((share) => at < share)] ?? answers[0]!;
    for (; answer.changesAt <= now; answer.changesAt += waiting(answer.changes)) answer.version++;
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
    const { lifetimeMs, rates } = of({
      ttlMs: TTL_MS,
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
    outOfDate: counts.outOfDate / counts.requests,
    oldest: counts.oldestMs / TTL_MS,
    freshness: freshness(),
  };
}

describe("learned lifetimes", () => {
  it.each([1, 2, 3])(
    "leave less than half of the out-of-date answers for the same calls (seed %i)",
    (seed) => {
      const [fixed, learned] = [play("fixed", SEARCHES, seed), play("learned", SEARCHES, seed)];
      expect(learned.callsPerThousand / fixed.callsPerThousand).toBeLessThan(1.03);
      expect(learned.outOfDate / fixed.outOfDate).toBeLessThan(0.5);
    },
  );

  it("leave at most three quarters if popular answers change more often", () => {
    const world = { ...SEARCHES, spread: 2, isCorrelated: true };
    const [fixed, learned] = [play("fixed", world), play("learned", world)];
    expect(learned.callsPerThousand / fixed.callsPerThousand).toBeLessThan(1.03);
    expect(learned.outOfDate / fixed.outOfDate).toBeLessThan(0.75);
  });

  it("are not worse if all answers change equally often", () => {
    const world = { ...SEARCHES, spread: 0, medianLifetimes: 15 };
    const [fixed, learned] = [play("fixed", world), play("learned", world)];
    expect(learned.callsPerThousand / fixed.callsPerThousand).toBeLessThan(1.03);
    expect(learned.outOfDate / fixed.outOfDate).toBeLessThan(1.03);
  });

  it("need fewer calls if nothing changes", () => {
    const world = { ...SEARCHES, medianLifetimes: Infinity };
    const [fixed, learned] = [play("fixed", world), play("learned", world)];
    expect(learned.callsPerThousand).toBeLessThan(fixed.callsPerThousand * 0.9);
    expect(learned.oldest).toBeLessThan(3);
  });

  it("need no more calls if everything changes all the time, and no answer is too old", () => {
    const world = { ...SEARCHES, medianLifetimes: 0.05, spread: 0 };
    const [fixed, learned] = [play("fixed", world, 1, 24), play("learned", world, 1, 24)];
    expect(learned.callsPerThousand / fixed.callsPerThousand).toBeLessThan(1.03);
    expect(learned.oldest).toBeLessThan(3);
  });

  it.each(["learned", "fixed"] as const)("are estimated as they are (%s)", (lifetimes) => {
    const { outOfDate, freshness } = play(lifetimes, { ...SEARCHES, requests: 4, medianLifetimes: 20 });
    expect(freshness.expected).toBeGreaterThan(outOfDate * 0.7);
    expect(freshness.expected).toBeLessThan(outOfDate * 1.4);
    const fixed = play("fixed", { ...SEARCHES, requests: 4, medianLifetimes: 20 });
    expect(freshness.expectedFixed).toBeGreaterThan(fixed.outOfDate * 0.7);
    expect(freshness.expectedFixed).toBeLessThan(fixed.outOfDate * 1.4);
  });
});
