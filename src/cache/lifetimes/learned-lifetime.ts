/**
 * How long an answer stays fresh, from how often it changed and how often it is asked for. Pure.
 *
 * A call for an answer saves out-of-date answers. It saves few if the answer seldom changes or is seldom asked for, and
 * more the longer the gateway has waited. One price per call holds for all answers: each one is fetched when the call
 * saves as many as the price. So no other division of the same calls leaves fewer out-of-date answers (Azar et al., PNAS
 * 2018; Kolobov et al., NeurIPS 2019). lifetimes.ts moves the price until the calls are as many as with one lifetime for
 * all.
 */

/** The sum of the observations of an answer, stored with the answer. Older observations weigh less. */
export interface Rates {
  /** Changes are estimated, because some are not seen. Requests are counted. */
  readonly changes: number;
  readonly requests: number;
  /** The time in which they occurred, in milliseconds. */
  readonly watchedMs: number;
}

/** What a fetch says about the time since the fetch before. */
export interface Observation {
  /** If it is not above 0, the fetch says nothing. */
  readonly sinceMs: number;
  /** The changes that were seen; there may have been more. */
  readonly changes: number;
  /** The requests in that time, the one that caused the fetch included, in all replicas. */
  readonly requests: number;
}

/**
 * The assumption about an answer before its first observation: `changes` in the time `watchedMs`, estimated from all answers.
 * It is added to the answer's own observations (empirical Bayes with a gamma distribution). The less the rates of the answers
 * differ, the larger are both numbers. If the rates differ only by chance, each answer gets the mean rate.
 */
export type Prior = Pick<Rates, "changes" | "watchedMs">;

/** Rates per millisecond. Neither is 0. */
export type PerMs = Pick<Rates, "changes" | "requests">;

export const NOTHING_KNOWN: Rates = { changes: 0, requests: 0, watchedMs: 0 };

/** The expected number of changes in an observation in which some were seen, for a Poisson process with this rate. */
export function believedChanges({ sinceMs, changes }: Observation, perMs: number): number {
  const x = perMs * sinceMs;
  return changes === 0 ? 0 : Math.max(changes, x / -Math.expm1(-x));
}

/** Each observation multiplies the earlier ones by this factor, so about the latest 200 fetches count. */
const MEMORY = 0.995;

export function learn(known: Rates, { sinceMs, requests }: Observation, changes: number): Rates {
  return {
    changes: MEMORY * known.changes + changes,
    requests: MEMORY * known.requests + requests,
    watchedMs: MEMORY * known.watchedMs + sinceMs,
  };
}

/** The rate of requests must not be 0, also for an answer that only the warm list fetches. */
const LEAST_REQUESTS = 0.01;

export function perMsOf({ changes, requests, watchedMs }: Rates, prior: Prior): PerMs {
  return {
    changes: (prior.changes + changes) / (prior.watchedMs + watchedMs),
    requests: Math.max(requests, LEAST_REQUESTS) / watchedMs,
  };
}

/** The out-of-date answers that a call saves if the last one was `ms` ago. It grows with the time. */
function savedByCall({ changes, requests }: PerMs, ms: number): number {
  const x = changes * ms;
  return -Math.expm1(-x) * (1 + requests / changes) - requests * ms * Math.exp(-x);
}

/** The lifetime of an answer between two bounds: when a call saves as many out-of-date answers as the price. */
export function lifetimeAt(price: number, rates: PerMs, leastMs: number, mostMs: number): number {
  let [low, high] = [leastMs, mostMs];
  while (high - low > leastMs / 100) {
    const middle = (low + high) / 2;
    if (savedByCall(rates, middle) > price) high = middle;
    else low = middle;
  }
  // `high` is exact at the upper bound, and precise enough below it.
  return high;
}
