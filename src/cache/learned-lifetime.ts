/**
 * How long an answer stays fresh, from how often it changed and how often it is asked for. Pure.
 *
 * A call for an answer saves out-of-date answers. It saves few if the answer seldom changes or is seldom asked for, and
 * more the longer the gateway has waited. One price per call holds for all answers: each one is fetched when the call
 * saves as many as the price. So no other division of the same calls leaves fewer out-of-date answers (Azar et al., PNAS
 * 2018; Kolobov et al., NeurIPS 2019). lifetimes.ts moves the price until the calls are as many as with one lifetime for
 * all.
 */

/** What the fetches of an answer have shown; it is stored with it. Older observations weigh less. */
export interface Rates {
  /** Changes that were seen, and the milliseconds in which they were. */
  readonly changes: number;
  readonly watchedMs: number;
  /** Requests that were counted, and the milliseconds in which they were. */
  readonly requests: number;
  readonly countedMs: number;
}

/** What a fetch says about the time since the fetch before. */
export interface Observation {
  readonly sinceMs: number;
  /** The changes that were seen; there may have been more. */
  readonly changes: number;
  /** The requests in that time, the one that caused the fetch included, in all replicas. */
  readonly requests: number;
}

/** The weight of what was known before, at each observation: some 200 fetches count. */
const MEMORY = 0.995;

/**
 * What is assumed about an answer before its first observation, from all answers: so many changes in so much time. The less their
 * rates differ, the more it weighs against the answer's own observations (empirical Bayes with a gamma distribution). If they
 * differ by no more than chance explains, each answer gets the mean rate, and so the same lifetime.
 */
export type Prior = Pick<Rates, "changes" | "watchedMs">;

export const NOTHING_KNOWN: Rates = { changes: 0, watchedMs: 0, requests: 0, countedMs: 0 };

/** @returns the rates after an observation, and how many changes it is believed to contain */
export function learn(
  known: Rates,
  { sinceMs, changes, requests }: Observation,
  prior: Prior,
): { readonly rates: Rates; readonly changes: number } {
  const believed =
    changes === 0 ? 0 : Math.max(changes, expectedChanges(perMs(known, prior).changes * sinceMs));
  const rates = {
    changes: MEMORY * known.changes + believed,
    watchedMs: MEMORY * known.watchedMs + sinceMs,
    requests: MEMORY * known.requests + requests,
    countedMs: MEMORY * known.countedMs + sinceMs,
  };
  return { rates, changes: believed };
}

/** The expected number of events of a Poisson process, if there was at least one and `x` would be expected otherwise. */
function expectedChanges(x: number): number {
  return x < 1e-6 ? 1 : x / -Math.expm1(-x);
}

const LEAST_REQUESTS = 0.01;

/** Rates per millisecond. Neither is 0. */
export interface PerMs {
  readonly changes: number;
  readonly requests: number;
}

export function perMs({ changes, watchedMs, requests, countedMs }: Rates, prior: Prior): PerMs {
  return {
    changes: (prior.changes + changes) / (prior.watchedMs + watchedMs),
    // A warm answer may be fetched although nobody asks for it.
    requests: Math.max(requests, LEAST_REQUESTS) / Math.max(1, countedMs),
  };
}

/** The out-of-date answers that a call saves if the last one was `ms` ago. It grows with the time. */
function savedByCall({ changes, requests }: PerMs, ms: number): number {
  const x = changes * ms;
  if (x === 0) return 0;
  const m = requests * ms;
  return -Math.expm1(-x) * (1 + m / x) - m * Math.exp(-x);
}

/** The lifetime of an answer between two bounds: when a call saves as many out-of-date answers as the price. */
export function lifetimeAt(price: number, rates: PerMs, leastMs: number, mostMs: number): number {
  let [low, high] = [leastMs, mostMs];
  if (savedByCall(rates, high) <= price) return high;
  if (savedByCall(rates, low) >= price) return low;
  while (high - low > leastMs / 100) {
    const middle = (low + high) / 2;
    if (savedByCall(rates, middle) < price) low = middle;
    else high = middle;
  }
  return high;
}

/** What happens per millisecond with a lifetime: calls, fresh answers from the cache, and how many of these are out of date. */
export interface Cost {
  readonly calls: number;
  readonly fresh: number;
  readonly outOfDate: number;
}

/** The first request after the end of the lifetime causes the next call. */
export function costOf({ changes, requests }: PerMs, lifetimeMs: number): Cost {
  const x = changes * lifetimeMs;
  const calls = 1 / (lifetimeMs + 1 / requests);
  const upToDate = x === 0 ? 1 : -Math.expm1(-x) / x;
  const fresh = requests * lifetimeMs * calls;
  return { calls, fresh, outOfDate: fresh * (1 - upToDate) };
}
