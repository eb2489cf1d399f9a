import { readFileSync } from "node:fs";

import { attempt } from "./attempt.ts";

/** Time is passed in as an argument: the system clock, or a fake one in tests. */
export interface Clock {
  /** Epoch milliseconds. */
  readonly now: () => number;
  /**
   * Whole milliseconds of a clock for durations. It never runs backwards, even if the time of day is changed. It starts at the
   * epoch milliseconds of the start of the process.
   */
  readonly monotonic: () => number;
  /** The same clock with fractions of a millisecond, for short durations. */
  readonly precise: () => number;
  /** Calls back once after `delayMs`. The returned function cancels the call. */
  readonly after: (delayMs: number, callback: () => void) => () => void;
  /** The time since the machine started. Nobody can set it, and it goes on when a process ends. */
  readonly machine: {
    /** Identifies the start of the machine; unique to the process where that is unknown. */
    readonly boot: string;
    /** Milliseconds since then. */
    readonly up: () => number;
  };
}

/** Node fires timers with a longer delay immediately, so a longer delay is shortened. Callers must check the time again. */
const LONGEST_TIMER_MS = 2_147_483_647;

const { timeOrigin } = performance;

const bootId = attempt(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").slice(0, 13));

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => Math.floor(timeOrigin + performance.now()),
  precise: () => timeOrigin + performance.now(),
  after(delayMs, callback) {
    const timer = setTimeout(callback, Math.min(Math.max(delayMs, 0), LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  },
  machine: {
    boot: bootId ?? `${process.pid}.${timeOrigin}`,
    // On Linux, Node's high-resolution time counts from the start of the machine, in all processes.
    up: () => Number(process.hrtime.bigint() / 1_000_000n),
  },
};

/** Resolves after `delayMs`, or when `signal` aborts. It never rejects. */
export async function pause(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const end = (): void => resolve();
  const cancel = clock.after(delayMs, end);
  signal?.addEventListener("abort", end, { once: true });
  if (signal?.aborted) end();
  await promise;
  cancel();
  signal?.removeEventListener("abort", end);
}

/** Calls back every `intervalMs`. The returned function ends that. */
export function every(clock: Pick<Clock, "after">, intervalMs: number, callback: () => void): () => void {
  let cancel = (): void => undefined;
  function next(): void {
    cancel = clock.after(intervalMs, () => {
      next();
      callback();
    });
  }
  next();
  return () => cancel();
}

/**
 * Limits how often an event is reported, by default to once a minute.
 * @param now milliseconds by any clock
 * @param report gets the number of events since the last report, this one included
 * @returns the function to call at each event
 */
export function atMostEvery(
  now: Clock["now"],
  report: (times: number) => void,
  intervalMs = 60_000,
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
