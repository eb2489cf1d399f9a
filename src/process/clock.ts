/** Time as an argument: the process' own clock, or a test's. */
export interface Clock {
  /** Epoch milliseconds. */
  readonly now: () => number;
  /**
   * Whole milliseconds by a clock that only ever runs forward, whatever becomes of the time of day: to
   * tell how long something is ago. It began as epoch milliseconds.
   */
  readonly steady: () => number;
  /** Calls back once, `delayMs` from now; the returned function cancels. */
  readonly after: (delayMs: number, callback: () => void) => () => void;
}

/** Node fires a timer of more than this at once, so longer waits are cut and checked again by the caller. */
const LONGEST_TIMER_MS = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  steady: () => Math.floor(performance.timeOrigin + performance.now()),
  after(delayMs, callback) {
    const timer = setTimeout(callback, Math.min(Math.max(delayMs, 0), LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  },
};

/** Resolves after `delayMs`, or as soon as `signal` aborts; it never rejects. */
export function pause(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const cancel = clock.after(delayMs, done);
    function done(): void {
      cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    }
    signal?.addEventListener("abort", done, { once: true });
  });
}

/**
 * Limits how often something is reported, however often it happens.
 * @param now epoch milliseconds
 * @param report gets how often it has happened since the last report, this time included
 * @returns the function to call each time
 */
export function atMostEvery(
  intervalMs: number,
  now: Clock["now"],
  report: (times: number) => void,
): () => void {
  let dueAt = -Infinity;
  let times = 0;
  return () => {
    times++;
    if (now() < dueAt) return;
    dueAt = now() + intervalMs;
    report(times);
    times = 0;
  };
}
