/** Predicts how full a window becomes if calls continue at the present rate. Pure. */
export interface ForecastInput {
  readonly limit: number;
  readonly spent: number;
  readonly remaining: number;
  readonly windowMs: number;
  /** Calls per second: the mean over each of the periods until now, in the order of `periodsMs`. */
  readonly callsPerSecond: readonly number[];
  /** Ascending. */
  readonly periodsMs: readonly number[];
}

export interface Forecast {
  /** The part of the limit that is spent in the long run at this rate; more than 1: the limit is too low for it. */
  readonly load: number;
  /** The time until nothing is left; `null`: something is always left. */
  readonly emptyInMs: number | null;
}

/** The rate is the mean over the longest period that is at most this part of the window. */
const PART = 1 / 6;

/**
 * In the long run, a rolling window contains all calls of its length. Until then, past calls leave the window. The forecast
 * assumes that they were spread evenly over it.
 */
export function forecast(input: ForecastInput): Forecast {
  const { limit, spent, remaining, windowMs } = input;
  const rate = rateOf(input);
  const load = (rate * (windowMs / 1000)) / limit;
  if (load <= 1) return { load, emptyInMs: null };
  const netPerMs = rate / 1000 - spent / windowMs;
  // If more calls leave the window than enter it, it is full only when it contains calls of this rate alone.
  const emptyInMs = netPerMs > 0 ? Math.min(remaining / netPerMs, windowMs) : windowMs;
  return { load, emptyInMs: Math.round(emptyInMs) };
}

function rateOf({ windowMs, callsPerSecond, periodsMs }: ForecastInput): number {
  const index = periodsMs.findLastIndex((periodMs) => periodMs <= windowMs * PART);
  return callsPerSecond[Math.max(0, index)] ?? 0;
}
