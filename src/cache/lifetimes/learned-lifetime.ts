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
  /** Changes that are believed to have been, and requests that were counted. */
  readonly changes: number;
  readonly requests: number;
  /** The milliseconds in which they were. */
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
 * What is assumed about an answer before its first observation, from all answers: so many changes in so much time. The less their
 * rates differ, the more it weighs against the answer's own observations (empirical Bayes with a gamma distribution). If they
 * differ by no more than chance explains, each answer gets the mean rate, and so the same lifetime.
 */
export type Prior = Pick<Rates, "changes" | "watchedMs">;

/** Rates per millisecond. Neither is 0. */
export type PerMs = Pick<Rates, "changes" | "requests">;

export const NOTHING_KNOWN: Rates = { changes: 0, requests: 0, watchedMs: 0 };

/** How many changes of a Poisson process with this rate are expected in an observation in which some were seen. */
export function believedChanges({ sinceMs, changes }: Observation, perMs: number): number {
  const x = perMs * sinceMs;
  return changes === 0 ? 0 : Math.max(changes, x / -Math.expm1(-x));
}

/** The weight of what was known before, at each observation: some 200 fetches count. */
const MEMORY = 0.995;

export function learn(known: Rates, { sinceMs, requests }: Observation, changes: number): Rates {
  return {
    changes: MEMORY * known.changes + changes,
    requests: MEMORY * known.requests + requests,
    watchedMs: MEMORY * known.watchedMs + sinceMs,
  };
}

/** A warm answer may be fetched although nobody asks for it. */
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
  // The greatest lifetime is exact; the others are as good as exact.
  return high;
}
