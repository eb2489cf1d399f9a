import { Problem } from "../errors.ts";
import type { Waiting } from "../exchange.ts";
import type { Clock } from "../platform/clock.ts";

/** How long a turn is waited for: until everyone has gone, or the last one's deadline has passed. */
export interface Patience {
  /** Rejects when it ends. */
  readonly rejected: Promise<never>;
  /** It ends now. */
  readonly end: (reason: Error) => void;
  /** From now on it does not end. */
  readonly stop: () => void;
}

/** @param whyGone what is said where everyone has gone */
export function createPatience(
  { abandoned, deadlineAt }: Waiting,
  clock: Clock,
  whyGone: () => Error,
): Patience {
  const { promise, reject } = Promise.withResolvers<never>();
  let cancel = (): void => undefined;
  const stop = (): void => {
    cancel();
    abandoned.removeEventListener("abort", onAbandoned);
  };
  function end(reason: Error): void {
    stop();
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
  return { rejected: promise, end, stop };
}
