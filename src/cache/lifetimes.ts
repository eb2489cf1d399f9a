/**
 * Gives each fetched answer its lifetime, steers the one price of a call, and estimates how many answers are out of date.
 */
import type { Entry } from "./entry.ts";
import {
  costOf,
  learn,
  lifetimeAt,
  type Observation,
  perMs,
  type PerMs,
  type Rates,
} from "./learned-lifetime.ts";

/** A fetched answer that can be stored. */
interface Arrival {
  /** The lifetime from the settings. */
  readonly ttlMs: number;
  /** Shortens a lifetime to what the upstream and the other settings allow. */
  readonly bound: (ms: number) => number;
  readonly known: Rates | undefined;
  /** Absent if there was no answer before. */
  readonly observation: Observation | undefined;
}

/** What operators see about out-of-date answers. Shares are from 0 to 1; `null`: not known yet. */
export interface Freshness {
  readonly lifetimes: "learned" | "fixed";
  /** The expected share of answers from the cache that are out of date, now and with fixed lifetimes. */
  readonly expected: number | null;
  readonly expectedFixed: number | null;
  /** How many times as many calls would leave half as many out-of-date answers. */
  readonly callsForHalf: number | null;
  /** The share in checked answers, and its interval of 95 %. */
  readonly measured: {
    readonly checks: number;
    readonly share: number;
    readonly from: number;
    readonly to: number;
  } | null;
}

export interface Lifetimes {
  /** @returns the lifetime of an answer, and what is known about it now */
  readonly of: (arrival: Arrival) => { readonly lifetimeMs: number; readonly rates: Rates | undefined };
  /** An answer from the cache was compared with the upstream's. */
  readonly checked: (isCurrent: boolean) => void;
  readonly freshness: () => Freshness;
}

/** Learned lifetimes are at most this many times shorter or longer than the one in the settings. */
const SPAN = 3;
/** The price of a call at the start, in out-of-date answers, and the least: a call that saves less is not worth it. */
const [FIRST_PRICE, LEAST_PRICE] = [0.2, 0.01];
/** The steps of the price's logarithm: 1 at the start, then smaller ones. */
const SMALLEST_STEP = 0.02;
/** Estimates are over about this many of the latest answers and checks. */
const [LATEST_ANSWERS, LATEST_CHECKS] = [1_000, 300];
/** The prices at which `callsForHalf` is sought, as parts of the price. */
const LOWER_PRICES = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64];

export function createLifetimes(mode: () => Freshness["lifetimes"]): Lifetimes {
  const price = createPrice();
  const estimate = createEstimate();
  const checks = { all: 0, outOfDate: 0 };

  return {
    of({ ttlMs, bound, known, observation }) {
      const fixedMs = bound(ttlMs);
      if (observation === undefined) return { lifetimeMs: fixedMs, rates: known };
      const rates = learn(known, observation, ttlMs);
      const rate = perMs(rates);
      const learnedMs = bound(lifetimeAt(price.now(), rate, ttlMs / SPAN, ttlMs * SPAN));
      price.steer(rate, Math.max(0, learnedMs), Math.max(0, fixedMs));
      const lifetimeMs = mode() === "learned" ? learnedMs : fixedMs;
      if (lifetimeMs > 0) estimate.add(rate, price.now(), { ttlMs, lifetimeMs, fixedMs });
      return { lifetimeMs, rates };
    },
    checked(isCurrent) {
      decay(checks, LATEST_CHECKS);
      checks.all += 1;
      checks.outOfDate += isCurrent ? 0 : 1;
    },
    freshness: () => ({
      lifetimes: mode(),
      ...estimate.read(),
      measured: checks.all > 0 ? intervalOf(checks.outOfDate, checks.all) : null,
    }),
  };
}

interface Price {
  /** The price of a call, in out-of-date answers. */
  readonly now: () => number;
  readonly steer: (rate: PerMs, learnedMs: number, fixedMs: number) => void;
}

function createPrice(): Price {
  let logarithm = Math.log(FIRST_PRICE);
  let answers = 0;
  return {
    now: () => Math.exp(logarithm),
    steer({ requests }, learnedMs, fixedMs) {
      const gapMs = 1 / requests;
      const step = Math.max(SMALLEST_STEP, 1 / Math.sqrt(++answers));
      // Over all answers, these steps add up to nothing if there are as many calls as with one lifetime.
      logarithm += step * (1 - (learnedMs + gapMs) / (fixedMs + gapMs));
      logarithm = Math.max(logarithm, Math.log(LEAST_PRICE));
    },
  };
}

interface Estimate {
  /** Counts an answer for as long as it will be stored. */
  readonly add: (
    rate: PerMs,
    price: number,
    of: { readonly ttlMs: number; readonly lifetimeMs: number; readonly fixedMs: number },
  ) => void;
  readonly read: () => Pick<Freshness, "expected" | "expectedFixed" | "callsForHalf">;
}

function createEstimate(): Estimate {
  const sums = { requests: 0, calls: 0, outOfDate: 0, outOfDateFixed: 0 };
  const atLowerPrices = LOWER_PRICES.map((part) => ({ part, sum: { calls: 0, outOfDate: 0 } }));

  function callsForHalf(): number | null {
    let before = { calls: 1, outOfDate: 1 };
    for (const { sum } of atLowerPrices) {
      const now = { calls: sum.calls / sums.calls, outOfDate: sum.outOfDate / sums.outOfDate };
      if (now.outOfDate <= 0.5) {
        const part = (before.outOfDate - 0.5) / (before.outOfDate - now.outOfDate);
        return before.calls + part * (now.calls - before.calls);
      }
      before = now;
    }
    return null;
  }

  return {
    add(rate, price, { ttlMs, lifetimeMs, fixedMs }) {
      const storedMs = lifetimeMs + 1 / rate.requests;
      const count = (sum: { calls: number; outOfDate: number }, forMs: number): void => {
        const { calls, outOfDate } = costOf(rate, forMs);
        decay(sum, LATEST_ANSWERS);
        sum.calls += calls * storedMs;
        sum.outOfDate += outOfDate * storedMs;
      };
      count(sums, lifetimeMs);
      sums.requests += rate.requests * storedMs;
      sums.outOfDateFixed += costOf(rate, fixedMs).outOfDate * storedMs;
      for (const { part, sum } of atLowerPrices)
        count(sum, lifetimeAt(price * part, rate, ttlMs / SPAN / 10, Math.min(ttlMs * SPAN, lifetimeMs)));
    },
    read: () => ({
      expected: sums.requests > 0 ? sums.outOfDate / sums.requests : null,
      expectedFixed: sums.requests > 0 ? sums.outOfDateFixed / sums.requests : null,
      callsForHalf: sums.outOfDate > 0 ? callsForHalf() : null,
    }),
  };
}

function decay(sums: Record<string, number>, latest: number): void {
  for (const name of Object.keys(sums)) sums[name] = (sums[name] ?? 0) * (1 - 1 / latest);
}

/** The interval of 95 % of a share (Wilson). */
function intervalOf(hits: number, checks: number): NonNullable<Freshness["measured"]> {
  const z = 1.96 ** 2 / checks;
  const share = hits / checks;
  const middle = (share + z / 2) / (1 + z);
  const half = Math.sqrt(z * share * (1 - share) + (z * z) / 4) / (1 + z);
  return { checks, share, from: Math.max(0, middle - half), to: Math.min(1, middle + half) };
}

/** Why an entry has its lifetime. */
export interface LearnedAbout {
  readonly changesEverySeconds: number;
  readonly requestsPerHour: number;
  readonly lifetimeSeconds: number;
}

export function learnedAbout({ rates, storedAt, freshUntil }: Entry): LearnedAbout | null {
  if (rates === undefined) return null;
  const { changes, requests } = perMs(rates);
  return {
    changesEverySeconds: Math.round(1 / changes / 1_000),
    requestsPerHour: Number((requests * 3_600_000).toPrecision(2)),
    lifetimeSeconds: Math.round((freshUntil - storedAt) / 1_000),
  };
}
