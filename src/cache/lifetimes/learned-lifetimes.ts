/**
 * Determines the lifetime of each fetched answer from how often it changes and how often it is asked for. Adjusts the price of a
 * call, and estimates the share of out-of-date answers.
 *
 * A call for an answer saves out-of-date answers. It saves few if the answer seldom changes or is seldom asked for, and
 * more the longer the gateway has waited. One price per call holds for all answers: each one is fetched when the call
 * saves as many as the price. So no other division of the same calls leaves fewer out-of-date answers (Azar et al., PNAS
 * 2018; Kolobov et al., NeurIPS 2019). The price moves until the calls are as many as with one lifetime for all.
 */
import type { Entry, Rates } from "../entry.ts";

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

export type Lifetimes = ReturnType<typeof createLifetimes>;

/** What operators see about out-of-date answers. Shares are from 0 to 1; `null`: not known yet. */
export type Freshness = ReturnType<Lifetimes["freshness"]>;

/** What is known about an entry, and why it has its lifetime. */
export type LearnedAbout = NonNullable<ReturnType<Lifetimes["about"]>>;

/** Learned lifetimes are at most this many times shorter or longer than the one in the settings. */
const SPAN = 3;
/** The estimates use this many of the latest answers. */
const LATEST_ANSWERS = 500;
/** The measured share uses about this many of the latest checks. */
const LATEST_CHECKS = 300;

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createLifetimes(mode: () => "learned" | "fixed") {
  const price = createPrice();
  const { perMs, learn } = createRates();
  const latest: Stored[] = [];
  const seen = { checks: 0, outOfDate: 0 };
  const learnedMs = (rate: PerMs, ttlMs: number): number =>
    lifetimeAt(price.now(), rate, ttlMs / SPAN, ttlMs * SPAN);

  const lifetimes = {
    /** @returns the lifetime of an answer, and what is known about it now */
    of({ ttlMs, bound, known, observation }: Arrival) {
      const fixedMs = bound(ttlMs);
      if (observation === undefined || observation.sinceMs <= 0) return { lifetimeMs: fixedMs, rates: known };
      const rates = learn(known ?? NOTHING_KNOWN, observation, ttlMs);
      const rate = perMs(rates, ttlMs);
      const ownMs = bound(learnedMs(rate, ttlMs));
      price.steer(rate, Math.max(0, ownMs), Math.max(0, fixedMs));
      const lifetimeMs = mode() === "learned" ? ownMs : fixedMs;
      if (lifetimeMs > 0) latest.push({ rate, lifetimeMs, fixedMs });
      if (latest.length > LATEST_ANSWERS) latest.shift();
      return { lifetimeMs, rates };
    },
    /**
     * What is known about an entry, and why it has its lifetime; `null` until the answer was fetched a second time.
     * @param ttlMs the lifetime from the settings
     */
    about({ rates, storedAt, freshUntil }: Entry, ttlMs: number) {
      if (rates === undefined) return null;
      const rate = perMs(rates, ttlMs);
      const lifetimeMs = freshUntil - storedAt;
      return {
        changesEverySeconds: Math.round(1 / rate.changes / 1_000),
        requestsPerHour: Number((rate.requests * 3_600_000).toPrecision(2)),
        lifetimeSeconds: Math.round(lifetimeMs / 1_000),
        why: mode() === "fixed" ? ("fixed" as const) : whyOf(lifetimeMs, learnedMs(rate, ttlMs), ttlMs),
      };
    },
    /** An answer from the cache was compared with the upstream's. */
    checked(isCurrent: boolean): void {
      decay(seen, LATEST_CHECKS);
      seen.checks += 1;
      seen.outOfDate += isCurrent ? 0 : 1;
    },
    freshness: () => ({ lifetimes: mode(), ...expected(latest), measured: measured(seen) }),
  };
  return lifetimes;
}

/**
 * `price`: a call then saves as many out-of-date answers as any other. `limited`: the upstream or a setting forbids more.
 * @param learnedMs the lifetime that the entry would get now
 */
function whyOf(
  lifetimeMs: number,
  learnedMs: number,
  ttlMs: number,
): "longest" | "price" | "shortest" | "limited" {
  // The price may have moved a little since the entry got its lifetime, so these comparisons have a tolerance.
  if (lifetimeMs < learnedMs * 0.8) return "limited";
  if (lifetimeMs < (ttlMs / SPAN) * 1.02) return "shortest";
  return lifetimeMs > ttlMs * SPAN * 0.98 ? "longest" : "price";
}

/** No rate may be 0: not if nothing has changed for a long time, nor for an answer that only the warm list fetches. */
const LEAST_CHANGES = 0.01;
const LEAST_REQUESTS = 0.01;
/** The bounds of the weight of the prior, in changes. */
const LEAST_WEIGHT = 0.5;
const MOST_WEIGHT = 1_000;
/** The prior uses about this many of the latest answers. */
const LATEST_PRIOR = 3_000;
/** Each observation of an answer multiplies the earlier ones by this factor, so about the latest 200 fetches count. */
const MEMORY = 0.995;

/**
 * Estimates the rates of an answer from its own observations and from all answers. Rates of all answers are per lifetime in the
 * settings, because answers with longer lifetimes change less often.
 */
function createRates() {
  // The start assumes two changes in a hundred lifetimes. `together` sums the products of how far an answer's earlier changes
  // and its new changes are from the mean. With equal rates it stays near 0. The more the rates differ, the more it grows.
  const seen = { changes: 2, lifetimes: 100, together: 0.5, expected: 1 };
  const meanPerMs = (ttlMs: number): number => Math.max(seen.changes, LEAST_CHANGES) / seen.lifetimes / ttlMs;

  /**
   * Adds changes at the mean rate to those that were observed (empirical Bayes with a gamma distribution). The less the rates of
   * the answers differ, the more changes are added. If they differ only by chance, each answer gets the mean rate.
   */
  function perMs({ changes, requests, watchedMs }: Rates, ttlMs: number): PerMs {
    const weight = seen.expected / Math.max(seen.together, Number.MIN_VALUE);
    const added = Math.min(MOST_WEIGHT, Math.max(LEAST_WEIGHT, weight));
    return {
      changes: (added + changes) / (added / meanPerMs(ttlMs) + watchedMs),
      requests: Math.max(requests, LEAST_REQUESTS) / watchedMs,
    };
  }

  function learn(known: Rates, { sinceMs, hasChanged, requests }: Observation, ttlMs: number): Rates {
    // The expected number of changes in a time with at least one, for a Poisson process with the answer's rate.
    const expected = perMs(known, ttlMs).changes * sinceMs;
    const changes = hasChanged ? expected / -Math.expm1(-expected) : 0;
    decay(seen, LATEST_PRIOR);
    seen.changes += changes;
    seen.lifetimes += sinceMs / ttlMs;
    const mean = meanPerMs(ttlMs);
    seen.together += (known.changes - mean * known.watchedMs) * (changes - mean * sinceMs);
    seen.expected += mean * known.watchedMs * mean * sinceMs;
    return {
      changes: MEMORY * known.changes + changes,
      requests: MEMORY * known.requests + requests,
      watchedMs: MEMORY * known.watchedMs + sinceMs,
    };
  }
  return { perMs, learn };
}

/** The price of a call at the start, in out-of-date answers. */
const FIRST_PRICE = 0.2;
/** A call that saves less is not worth it. */
const LEAST_PRICE = 0.01;
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
      // The sum of these steps over all answers is 0 if there are as many calls as with one lifetime.
      logarithm += step * (1 - (learnedMs + gapMs) / (fixedMs + gapMs));
      logarithm = Math.max(logarithm, Math.log(LEAST_PRICE));
    },
  };
}

/** A stored answer, with its lifetime and the one that it would have in the mode `fixed`. */
interface Stored {
  readonly rate: PerMs;
  readonly lifetimeMs: number;
  readonly fixedMs: number;
}

/** The search for `callsForHalf` shortens the lifetimes by this factor in each step. */
const SHORTER = 0.95;
/** The search ends at this part of the lifetimes. */
const SHORTEST = 0.01;

/**
 * The expected share of fresh answers from the cache that are out of date, now and with fixed lifetimes; and how many times as
 * many calls would leave half as many out-of-date answers, if all lifetimes were shorter by one factor.
 */
function expected(answers: readonly Stored[]) {
  const now = costWith(answers, ({ lifetimeMs }) => lifetimeMs);
  let callsForHalf: number | null = null;
  for (let part = SHORTER; part > SHORTEST && now.outOfDate > 0 && callsForHalf === null; part *= SHORTER) {
    const cost = costWith(answers, ({ lifetimeMs }) => lifetimeMs * part);
    if (cost.outOfDate <= now.outOfDate / 2) callsForHalf = cost.calls / now.calls;
  }
  const fixed = costWith(answers, ({ fixedMs }) => fixedMs);
  return { expected: now.share, expectedFixed: fixed.share, callsForHalf };
}

/** The calls and out-of-date answers with other lifetimes, in the time that the answers need for one call each now. */
function costWith(answers: readonly Stored[], lifetimeOf: (answer: Stored) => number) {
  const sum = { calls: 0, fresh: 0, outOfDate: 0 };
  for (const answer of answers) {
    const { changes, requests } = answer.rate;
    const ms = lifetimeOf(answer);
    // The first request after the end of the lifetime causes the next call.
    const calls = (answer.lifetimeMs + 1 / requests) / (ms + 1 / requests);
    sum.calls += calls;
    sum.fresh += calls * requests * ms;
    sum.outOfDate += calls * requests * (ms + Math.expm1(-changes * ms) / changes);
  }
  return { ...sum, share: sum.fresh > 0 ? sum.outOfDate / sum.fresh : null };
}

/** The share of checked answers that were out of date, with its 95 % confidence interval (Agresti and Coull). */
function measured({ checks, outOfDate }: { readonly checks: number; readonly outOfDate: number }) {
  if (checks === 0) return null;
  const middle = (outOfDate + 2) / (checks + 4);
  const half = 2 * Math.sqrt((middle * (1 - middle)) / (checks + 4));
  const [from, to] = [Math.max(0, middle - half), Math.min(1, middle + half)];
  return { checks, share: outOfDate / checks, from, to };
}

function decay(sums: { [name: string]: number }, latest: number): void {
  for (const name of Object.keys(sums)) sums[name] = (sums[name] ?? 0) * (1 - 1 / latest);
}

/** What a fetch says about the time since the fetch before. */
interface Observation {
  /** If it is not above 0, the fetch says nothing. */
  readonly sinceMs: number;
  /** Whether it has changed; it may have changed several times. */
  readonly hasChanged: boolean;
  /** The requests in that time, the one that caused the fetch included, in all replicas. */
  readonly requests: number;
}

/** Rates per millisecond. Neither is 0. */
type PerMs = Pick<Rates, "changes" | "requests">;

const NOTHING_KNOWN: Rates = { changes: 0, requests: 0, watchedMs: 0 };

/** The out-of-date answers that a call saves if the last one was `ms` ago. It grows with the time. */
function savedByCall({ changes, requests }: PerMs, ms: number): number {
  const x = changes * ms;
  return -Math.expm1(-x) * (1 + requests / changes) - requests * ms * Math.exp(-x);
}

/** The lifetime of an answer between two bounds: when a call saves as many out-of-date answers as the price. */
function lifetimeAt(price: number, rates: PerMs, leastMs: number, mostMs: number): number {
  let [low, high] = [leastMs, mostMs];
  while (high - low > leastMs / 100) {
    const middle = (low + high) / 2;
    if (savedByCall(rates, middle) > price) high = middle;
    else low = middle;
  }
  // `high` is exact at the upper bound, and precise enough below it.
  return high;
}
