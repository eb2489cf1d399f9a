/**
 * How long an answer stays fresh, from how often it changed and how often it is asked for. Pure.
 *
 * A call for an answer saves out-of-date answers. It saves few if the answer seldom changes or is seldom asked for, and
 * more the longer the gateway has waited. One price per call holds for all answers: each one is fetched when the call
 * saves as many as the price. So no other division of the same calls leaves fewer out-of-date answers (Azar et al., PNAS
 * 2018; Kolobov et al., NeurIPS 2019). lifetimes.ts moves the price until the calls are as many as with one lifetime for
 * all.
 */

/** What is known about an answer; it is stored with it. Older observations weigh less. */
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
  readonly hasChanged: boolean;
  /** The requests in that time, the one that caused the fetch included, in all replicas. */
  readonly requests: number;
}

/** The weight of what was known before, at each observation. */
const MEMORY = 0.98;
/** Before the first fetch, an answer counts as changed so often in this many lifetimes. */
const PRIOR = { changes: 2, lifetimes: 100 };

/** @param ttlMs the lifetime from the settings */
export function learn(
  known: Rates | undefined,
  { sinceMs, hasChanged, requests }: Observation,
  ttlMs: number,
): Rates {
  const before = known ?? {
    changes: PRIOR.changes,
    watchedMs: PRIOR.lifetimes * ttlMs,
    requests: 0,
    countedMs: 0,
  };
  // Between two fetches, an answer may have changed several times.
  const x = (before.changes / before.watchedMs) * sinceMs;
  const changes = hasChanged ? expectedChanges(x) : 0;
  return {
    changes: MEMORY * before.changes + changes,
    watchedMs: MEMORY * before.watchedMs + sinceMs,
    requests: MEMORY * before.requests + requests,
    countedMs: MEMORY * before.countedMs + sinceMs,
  };
}

/** The expected number of events of a Poisson process, if there was at least one and `x` would be expected otherwise. */
function expectedChanges(x: number): number {
  return x < 1e-6 ? 1 : x / -Math.expm1(-x);
}

/** Rates per millisecond. */
export interface PerMs {
  readonly changes: number;
  readonly requests: number;
}

export function perMs({ changes, watchedMs, requests, countedMs }: Rates): PerMs {
  return { changes: changes / Math.max(1, watchedMs), requests: requests / Math.max(1, countedMs) };
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

/** What an answer costs per millisecond with a lifetime: calls, and out-of-date answers. */
export interface Cost {
  readonly calls: number;
  readonly outOfDate: number;
}

/** The first request after the end of the lifetime causes the next call. */
export function costOf({ changes, requests }: PerMs, lifetimeMs: number): Cost {
  const x = changes * lifetimeMs;
  const calls = 1 / (lifetimeMs + 1 / requests);
  const upToDate = x === 0 ? 1 : -Math.expm1(-x) / x;
  return { calls, outOfDate: requests * lifetimeMs * (1 - upToDate) * calls };
}
