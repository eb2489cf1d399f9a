/**
 * The throttle in front of every upstream call, in this process: Bottleneck holds the queue and the
 * concurrency; the rolling windows say when the next place is free.
 *
 * Bottleneck's own reservoir is not used: it admits up to twice its size across a refresh, and knows
 * one window only.
 */
import Bottleneck from "bottleneck";

import { Problem } from "../errors.ts";
import type { Throttled, Waiting } from "../exchange.ts";
import { pause, type Clock } from "../platform/clock.ts";
import { unfailing, type SendLog, type Warn } from "./send-log.ts";
import { earliestSend, forgetOld, noSends, recordSend, type Window } from "./windows.ts";

export interface ThrottleOptions {
  readonly windows: readonly Window[];
  /** Calls on their way at once. */
  readonly concurrency: number;
  readonly clock: Clock;
  /** What was sent before this process began, and what the next one is to know; without it, each starts at zero. */
  readonly sendLog?: SendLog | undefined;
  /** Told when that log fails, and when it works again; calls go out all the same. */
  readonly warn?: Warn | undefined;
}

/**
 * @returns a function that runs a job when its turn has come. It rejects, without running the job, with
 *   `temporary-reduced-capacity` at once where the predicted turn is after the deadline, and as soon as
 *   everyone who waited has gone.
 */
export function createThrottle(options: ThrottleOptions): Throttled {
  const { windows, concurrency, clock, warn = () => undefined } = options;
  const queue = new Bottleneck({ maxConcurrent: concurrency });
  const sends = noSends();
  const sendLog = options.sendLog && unfailing(options.sendLog, warn);
  for (const at of sendLog?.load(clock.now()) ?? []) recordSend(sends, at);
  let waitingForPlace = 0;

  function nextPlace(ahead: number): number {
    const now = clock.now();
    forgetOld(windows, sends, now);
    return earliestSend(windows, sends, now, ahead);
  }

  function reducedCapacity(): Problem {
    const waitMs = nextPlace(waitingForPlace) - clock.now();
    return new Problem("temporary-reduced-capacity", {
      retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)),
      internal: "no place in the budget's windows before the deadline",
    });
  }

  async function takePlace(waiting: Waiting): Promise<void> {
    for (;;) {
      if (waiting.abandoned.aborted) throw reducedCapacity();
      const waitMs = nextPlace(0) - clock.now();
      if (waitMs <= 0) break;
      await pause(clock, waitMs, waiting.abandoned);
    }
    const at = clock.now();
    recordSend(sends, at);
    // Before the call departs: a process that is killed during it has spent it.
    sendLog?.record(at);
  }

  return async function throttled(job, waiting) {
    if (nextPlace(waitingForPlace) > waiting.deadlineAt()) throw reducedCapacity();
    waitingForPlace++;
    let placed = false;
    const leaveQueue = (): void => {
      if (!placed) waitingForPlace--;
      placed = true;
    };
    const withdrawn = whenAborted(waiting.abandoned, reducedCapacity);
    const turn = queue.schedule(async () => {
      try {
        await takePlace(waiting);
      } finally {
        leaveQueue();
      }
      withdrawn.disarm();
      return await job();
    });
    try {
      // A job cannot be taken out of Bottleneck's queue: its caller leaves at once, and the job, when
      // its turn comes, sees that and returns without spending.
      return await Promise.race([turn, withdrawn.rejected]);
    } catch (error) {
      turn.catch(() => undefined);
      throw error;
    } finally {
      leaveQueue();
      withdrawn.disarm();
    }
  };
}

/** A promise that rejects when the signal aborts, until disarmed. */
function whenAborted(signal: AbortSignal, reason: () => Error): { rejected: Promise<never>; disarm(): void } {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(reason());
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  return { rejected: promise, disarm: () => signal.removeEventListener("abort", onAbort) };
}
