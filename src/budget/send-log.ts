/**
 * The port of what was sent upstream, beyond the life of this process: a restart must not forget what
 * was spent.
 */
export interface SendLog {
  /** Instants of what was sent and may still count, oldest first, none after `now`. May throw. */
  readonly load: (now: number) => readonly number[];
  /** Enters a send; instants are epoch milliseconds. May throw. */
  readonly record: (at: number) => void;
}

/** Says something an operator should look at. */
export type Warn = (message: string, fields: Readonly<Record<string, unknown>>) => void;

/** How long the log is left alone after it failed: waiting for a lock, say, holds up every caller. */
const REST_MS = 2_000;
/** More sends than this are not remembered while it fails. */
const MOST_OWED = 100_000;

/**
 * The same log, but one that never throws: that it fails is reported once, and once more when it works
 * again; what it could not take it is given then. A budget that this process alone remembers is better
 * than no answers.
 */
export function unfailing(log: SendLog, warn: Warn): SendLog {
  let failedAt: number | undefined;
  let owed: number[] = [];

  function attempt<T>(now: number, work: () => T, otherwise: T): T {
    try {
      const result = work();
      if (failedAt !== undefined) warn("What is sent upstream is remembered over a restart again.", {});
      failedAt = undefined;
      return result;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (failedAt === undefined) warn("What is sent upstream may be forgotten at a restart.", { reason });
      failedAt = now;
      return otherwise;
    }
  }

  function payOff(): void {
    let paid = 0;
    try {
      for (const at of owed) {
        log.record(at);
        paid++;
      }
    } finally {
      owed = owed.slice(paid);
    }
  }

  return {
    load: (now) => attempt(now, () => log.load(now), []),
    record(at) {
      owed.push(at);
      if (owed.length > MOST_OWED) owed.shift();
      const sinceMs = at - (failedAt ?? Number.NEGATIVE_INFINITY);
      // A clock that was set back is no reason to rest for longer.
      if (sinceMs < 0 || sinceMs >= REST_MS) attempt(at, payOff, undefined);
    },
  };
}
