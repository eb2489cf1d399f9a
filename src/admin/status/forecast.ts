/** What becomes of a window if the calls go on at the present rate. Pure. */
export interface ForecastInput {
  readonly limit: number;
  readonly spent: number;
  readonly remaining: number;
  readonly windowMs: number;
  /** Calls per second: the mean of each period until now, in the order of `periodsMs`. */
  readonly callsPerSecond: readonly number[];
  /** Ascending. */
  readonly periodsMs: readonly number[];
}

export interface Forecast {
  /** The part of the limit that is spent in the long run at this rate; more than 1: it is not enough. */
  readonly load: number;
  /** When nothing is left; `null`: something is always left. */
  readonly emptyInMs: number | null;
}

/** The rate is that of the longest period that is at most this part of the window. */
const PART = 1 / 6;

/**
 * In the long run a rolling window holds as many calls as are made in its length. Until then, calls of the past come back:
 * it is assumed that they were made evenly over the window.
 */
export function forecast(input: ForecastInput): Forecast {
  const { limit, spent, remaining, windowMs } = input;
  const rate = rateOf(input);
  const load = (rate * (windowMs / 1000)) / limit;
  if (load <= 1) return { load, emptyInMs: null };
  const netPerMs = rate / 1000 - spent / windowMs;
  // More comes back than is spent until the calls of this rate fill the window.
  const emptyInMs = netPerMs > 0 ? Math.min(remaining / netPerMs, windowMs) : windowMs;
  return { load, emptyInMs: Math.round(emptyInMs) };
}

function rateOf({ windowMs, callsPerSecond, periodsMs }: ForecastInput): number {
  const index = periodsMs.findLastIndex((periodMs) => periodMs <= windowMs * PART);
  return callsPerSecond[Math.max(0, index)] ?? 0;
}
