import type { Waiting } from "../types.ts";
import type { Clock } from "../process/clock.ts";

/** How long a turn is waited for: until everyone has gone, or the last one's deadline has passed. */
export interface Patience {
  /** Rejects when it ends. */
  readonly rejected: Promise<never>;
  /** It ends now. */
  readonly end: (reason: Error) => void;
  /** From now on it does not end. */
  readonly stop: () => void;
}

/** What is said at the end; each is asked only then, and once. */
interface PatienceEnds {
  /** Everyone has gone; that may be so from the first. */
  readonly gone: () => Error;
  /** The last deadline has passed. */
  readonly late: () => Error;
}

export function createPatience(
  { abandoned, deadlineAt }: Waiting,
  clock: Clock,
  { gone, late }: PatienceEnds,
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
    end(gone());
  }
  function watchDeadline(): void {
    // The deadline moves when others join, so it is looked at again; past it, so that whoever has a
    // deadline of their own goes by that.
    cancel = clock.after(Math.max(0, deadlineAt() - clock.now()) + 1, () => {
      if (deadlineAt() < clock.now()) end(late());
      else watchDeadline();
    });
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
