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

/**
 * The same log, but one that never throws: what it cannot do is reported once, and once more when it
 * works again. A budget that this process alone remembers is better than no answers.
 */
export function unfailing(log: SendLog, warn: Warn): SendLog {
  let isFailing = false;

  function attempt<T>(work: () => T, otherwise: T): T {
    try {
      const result = work();
      if (isFailing) warn("What is sent upstream is remembered over a restart again.", {});
      isFailing = false;
      return result;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (!isFailing) warn("What is sent upstream may be forgotten at a restart.", { reason });
      isFailing = true;
      return otherwise;
    }
  }

  return {
    load: (now) => attempt(() => log.load(now), []),
    record: (at) => attempt(() => log.record(at), undefined),
  };
}
