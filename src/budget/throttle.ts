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
 *   everyone who waited has gone; with `deadline-exceeded` where the turn has not come by the deadline
 *   all the same, because those ahead take their time.
 */
export function createThrottle(options: ThrottleOptions): Throttled {
  const { windows, concurrency, clock, warn = () => undefined } = options;
  const queue = new Bottleneck({ maxConcurrent: concurrency });
  const sends = noSends();
  const sendLog = options.sendLog && unfailing(options.sendLog, warn);
  for (const at of sendLog?.load(clock.now()) ?? []) recordSend(sends, at);
  let waitingForPlace = 0;
  /** Those out of the queue take their places one by one: timers would not keep their order. */
  let line: Promise<unknown> = Promise.resolve();

  function nextPlace(ahead: number): number {
    const now = clock.now();
    forgetOld(windows, sends, now);
    return earliestSend(windows, sends, now, ahead);
  }

  const reducedCapacity = (): Problem => noPlaceFor(nextPlace(waitingForPlace) - clock.now());

  async function takePlace(patience: Patience): Promise<void> {
    for (;;) {
      if (patience.over.aborted) throw reducedCapacity();
      const waitMs = nextPlace(0) - clock.now();
      if (waitMs <= 0) break;
      await pause(clock, waitMs, patience.over);
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
    const patience = createPatience(waiting, clock, reducedCapacity);
    const turn = queue.schedule(async () => {
      const place = line.then(() => takePlace(patience));
      line = place.catch(() => undefined);
      try {
        await place;
      } finally {
        leaveQueue();
      }
      patience.stop();
      return await job();
    });
    try {
      // A job cannot be taken out of Bottleneck's queue: its caller leaves at once, and the job, when
      // its turn comes, sees that and returns without spending.
      return await Promise.race([turn, patience.rejected]);
    } catch (error) {
      turn.catch(() => undefined);
      throw error;
    } finally {
      leaveQueue();
      patience.stop();
    }
  };
}

/** @param waitMs until there is a place again, behind all who wait */
function noPlaceFor(waitMs: number): Problem {
  return new Problem("temporary-reduced-capacity", {
    retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)),
    internal: "no place in the budget's windows before the deadline",
  });
}

interface Patience {
  /** Aborted when nobody waits any more. */
  readonly over: AbortSignal;
  /** Rejects at the same time. */
  readonly rejected: Promise<never>;
  /** From now on it does not end. */
  stop(): void;
}

/** How long a place is waited for: until everyone has gone, or the last one's deadline has passed. */
function createPatience({ abandoned, deadlineAt }: Waiting, clock: Clock, whyGone: () => Error): Patience {
  const { promise, reject } = Promise.withResolvers<never>();
  const over = new AbortController();
  let cancel = (): void => undefined;
  const stop = (): void => {
    cancel();
    abandoned.removeEventListener("abort", onAbandoned);
  };
  function end(reason: Error): void {
    stop();
    over.abort();
    reject(reason);
  }
  function onAbandoned(): void {
    end(whyGone());
  }
  function watchDeadline(): void {
    const leftMs = deadlineAt() - clock.now();
    if (leftMs < 0) end(new Problem("deadline-exceeded", { internal: "still in the throttle's queue" }));
    // The deadline moves when others join, so it is looked at again; past it, so that whoever has a
    // deadline of their own goes by that.
    else cancel = clock.after(leftMs + 1, watchDeadline);
  }
  // Nobody may be racing it at the time.
  promise.catch(() => undefined);
  if (abandoned.aborted) onAbandoned();
  else {
    abandoned.addEventListener("abort", onAbandoned, { once: true });
    watchDeadline();
  }
  return { over: over.signal, rejected: promise, stop };
}
