/**
 * Gives each fetched answer its lifetime, steers the one price of a call, and estimates how many answers are out of date.
 */
import type { Entry } from "./entry.ts";
import {
  type Cost,
  costOf,
  learn,
  lifetimeAt,
  NOTHING_KNOWN,
  type Observation,
  perMs,
  type PerMs,
  type Prior,
  type Rates,
} from "./learned-lifetime.ts";
import { createRecordChanges, type RecordChanges } from "./record-changes.ts";

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

type Mode = "learned" | "fixed";

/** What operators see about out-of-date answers. Shares are from 0 to 1; `null`: not known yet. */
export interface Freshness {
  readonly lifetimes: Mode;
  /** The expected share of fresh answers from the cache that are out of date, now and with fixed lifetimes. */
  readonly expected: number | null;
  readonly expectedFixed: number | null;
  /** How many times as many calls, from lifetimes that are all shorter by one factor, would leave half as many out-of-date answers. */
  readonly callsForHalf: number | null;
  /** The same share in answers that were checked, and its interval of 95 %. */
  readonly measured: Measured | null;
}

/** What is known about an entry, and why it has its lifetime. */
export interface LearnedAbout {
  readonly changesEverySeconds: number;
  readonly requestsPerHour: number;
  readonly lifetimeSeconds: number;
  /** `price`: then a call saves as many out-of-date answers as any other. `limited`: the upstream or a setting allows no longer one. */
  readonly why: "fixed" | "longest" | "price" | "shortest" | "limited";
}

export interface Lifetimes {
  /** @returns the lifetime of an answer, and what is known about it now */
  readonly of: (arrival: Arrival) => { readonly lifetimeMs: number; readonly rates: Rates | undefined };
  readonly records: RecordChanges;
  /** @param ttlMs the lifetime from the settings @returns `null` until the answer was fetched a second time */
  readonly about: (entry: Entry, ttlMs: number) => LearnedAbout | null;
  /** An answer from the cache was compared with the upstream's. */
  readonly checked: (isCurrent: boolean) => void;
  readonly freshness: () => Freshness;
}

/** Learned lifetimes are at most this many times shorter or longer than the one in the settings. */
const SPAN = 3;

export function createLifetimes(mode: () => Mode): Lifetimes {
  const price = createPrice();
  const others = createOthers();
  const estimate = createEstimate();
  const checks = createMeasure();
  const learnedMs = (rate: PerMs, ttlMs: number): number =>
    lifetimeAt(price.now(), rate, ttlMs / SPAN, ttlMs * SPAN);

  return {
    records: createRecordChanges(),
    of({ ttlMs, bound, known, observation }) {
      const fixedMs = bound(ttlMs);
      if (observation === undefined) return { lifetimeMs: fixedMs, rates: known };
      const before = known ?? NOTHING_KNOWN;
      const { rates, changes } = learn(before, observation, others.prior(ttlMs));
      others.add(before, observation.sinceMs, changes, ttlMs);
      const rate = perMs(rates, others.prior(ttlMs));
      const ownMs = bound(learnedMs(rate, ttlMs));
      price.steer(rate, Math.max(0, ownMs), Math.max(0, fixedMs));
      const lifetimeMs = mode() === "learned" ? ownMs : fixedMs;
      if (lifetimeMs > 0) estimate.add({ rate, lifetimeMs, fixedMs });
      return { lifetimeMs, rates };
    },
    about({ rates, storedAt, freshUntil }, ttlMs) {
      if (rates === undefined) return null;
      const rate = perMs(rates, others.prior(ttlMs));
      const lifetimeMs = freshUntil - storedAt;
      return {
        changesEverySeconds: Math.round(1 / rate.changes / 1_000),
        requestsPerHour: Number((rate.requests * 3_600_000).toPrecision(2)),
        lifetimeSeconds: Math.round(lifetimeMs / 1_000),
        why: mode() === "fixed" ? "fixed" : whyOf(lifetimeMs, learnedMs(rate, ttlMs), ttlMs),
      };
    },
    checked: (isCurrent) => checks.add(isCurrent),
    freshness: () => ({ lifetimes: mode(), ...estimate.read(), measured: checks.read() }),
  };
}

/** @param learnedMs the lifetime that the entry would get now */
function whyOf(lifetimeMs: number, learnedMs: number, ttlMs: number): LearnedAbout["why"] {
  // Meanwhile the price may have moved a little.
  if (lifetimeMs < learnedMs * 0.8) return "limited";
  if (lifetimeMs < (ttlMs / SPAN) * 1.01) return "shortest";
  return lifetimeMs > ttlMs * SPAN * 0.99 ? "longest" : "price";
}

/** Before the first fetches, answers count as changed so often in this many lifetimes. */
const FIRST_PRIOR = { changes: 2, lifetimes: 100 };
const LEAST_CHANGES = 0.01;
/** The prior counts like so many changes at least and at most, and is from about so many of the latest answers. */
const [LEAST_WEIGHT, MOST_WEIGHT, LATEST_PRIOR] = [0.5, 1_000, 3_000];

/** What all answers say about one that is hardly known. Rates are per lifetime, because answers with longer ones change less often. */
function createOthers() {
  const seen = { changes: FIRST_PRIOR.changes, lifetimes: FIRST_PRIOR.lifetimes };
  const differing = { together: 1 / FIRST_PRIOR.changes, expected: 1 };
  // Even if nothing has changed for a long time, something may.
  const perLifetime = (): number => Math.max(seen.changes, LEAST_CHANGES) / seen.lifetimes;
  return {
    prior(ttlMs: number): Prior {
      const { together, expected } = differing;
      const weight = together > 0 ? expected / together : MOST_WEIGHT;
      const changes = Math.min(MOST_WEIGHT, Math.max(LEAST_WEIGHT, weight));
      return { changes, watchedMs: (changes / perLifetime()) * ttlMs };
    },
    add(before: Rates, sinceMs: number, changes: number, ttlMs: number): void {
      decay(seen, LATEST_PRIOR);
      decay(differing, LATEST_PRIOR);
      seen.changes += changes;
      seen.lifetimes += sinceMs / ttlMs;
      const rate = perLifetime() / ttlMs;
      // By chance alone, the past of an answer says nothing about its next observation, and these sum up to nothing.
      differing.together += (before.changes - rate * before.watchedMs) * (changes - rate * sinceMs);
      differing.expected += rate * before.watchedMs * rate * sinceMs;
    },
  };
}

/** The price of a call at the start, in out-of-date answers, and the least: a call that saves less is not worth it. */
const [FIRST_PRICE, LEAST_PRICE] = [0.2, 0.01];
/** The steps of the price's logarithm: 1 at the start, then smaller ones. */
const SMALLEST_STEP = 0.02;

function createPrice() {
  let logarithm = Math.log(FIRST_PRICE);
  let answers = 0;
  return {
    now: (): number => Math.exp(logarithm),
    steer({ requests }: PerMs, learnedMs: number, fixedMs: number): void {
      const gapMs = 1 / requests;
      const step = Math.max(SMALLEST_STEP, 1 / Math.sqrt(++answers));
      // Over all answers, these steps add up to nothing if there are as many calls as with one lifetime.
      logarithm += step * (1 - (learnedMs + gapMs) / (fixedMs + gapMs));
      logarithm = Math.max(logarithm, Math.log(LEAST_PRICE));
    },
  };
}

/** A stored answer, with the lifetime that it has and the one that it would have. */
interface Stored {
  readonly rate: PerMs;
  readonly lifetimeMs: number;
  readonly fixedMs: number;
}

/** Estimates are over so many of the latest answers. */
const LATEST_ANSWERS = 500;
/** `callsForHalf` is sought with shorter and shorter lifetimes: by this factor, down to this part. */
const [SHORTER, SHORTEST] = [0.95, 0.01];

function createEstimate() {
  const latest: Stored[] = [];

  /** What all answers together cost while they are stored. */
  function costWith(lifetimeOf: (answer: Stored) => number): Cost {
    const sum = { calls: 0, fresh: 0, outOfDate: 0 };
    for (const answer of latest) {
      const { calls, fresh, outOfDate } = costOf(answer.rate, lifetimeOf(answer));
      const storedMs = answer.lifetimeMs + 1 / answer.rate.requests;
      sum.calls += calls * storedMs;
      sum.fresh += fresh * storedMs;
      sum.outOfDate += outOfDate * storedMs;
    }
    return sum;
  }

  function callsForHalf(now: Cost): number | null {
    for (let part = SHORTER; part > SHORTEST && now.outOfDate > 0; part *= SHORTER) {
      const cost = costWith(({ lifetimeMs }) => lifetimeMs * part);
      if (cost.outOfDate <= now.outOfDate / 2) return cost.calls / now.calls;
    }
    return null;
  }

  return {
    add(answer: Stored): void {
      latest.push(answer);
      if (latest.length > LATEST_ANSWERS) latest.shift();
    },
    read() {
      const now = costWith(({ lifetimeMs }) => lifetimeMs);
      const fixed = costWith(({ fixedMs }) => fixedMs);
      const shareOf = ({ fresh, outOfDate }: Cost): number | null => (fresh > 0 ? outOfDate / fresh : null);
      return { expected: shareOf(now), expectedFixed: shareOf(fixed), callsForHalf: callsForHalf(now) };
    },
  };
}

interface Measured {
  readonly checks: number;
  readonly share: number;
  readonly from: number;
  readonly to: number;
}

/** The share is measured over about so many of the latest checks. */
const LATEST_CHECKS = 300;

function createMeasure() {
  const seen = { checks: 0, outOfDate: 0 };
  return {
    add(isCurrent: boolean): void {
      decay(seen, LATEST_CHECKS);
      seen.checks += 1;
      seen.outOfDate += isCurrent ? 0 : 1;
    },
    /** The share and its interval (Wilson). */
    read(): Measured | null {
      const { checks, outOfDate } = seen;
      if (checks === 0) return null;
      const share = outOfDate / checks;
      const z = 1.96 ** 2 / checks;
      const middle = (share + z / 2) / (1 + z);
      const half = Math.sqrt(z * share * (1 - share) + (z * z) / 4) / (1 + z);
      return { checks, share, from: Math.max(0, middle - half), to: Math.min(1, middle + half) };
    },
  };
}

function decay(sums: { [name: string]: number }, latest: number): void {
  for (const name of Object.keys(sums)) sums[name] = (sums[name] ?? 0) * (1 - 1 / latest);
}
