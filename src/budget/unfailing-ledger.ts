import type { OwnLedger } from "./ledger.ts";

/** Says something an operator should look at. */
type Warn = (message: string, fields: Readonly<Record<string, unknown>>) => void;

export interface UnfailingOptions {
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly warn: Warn;
}

/** How long the ledger is left alone after it failed: waiting for a lock, say, holds up every caller. */
const REST_MS = 2_000;
/** More operations than this are not remembered while it fails. */
const MOST_OWED = 100_000;
/** When it works again it is given no more than so many at a time: everybody waits meanwhile. */
const MOST_PAID = 1_000;

export interface UnfailingLedger extends OwnLedger {
  /** Gives the ledger all it is owed, whether it rests or not: the process is about to end. */
  readonly flush: () => void;
}

/** What the ledger could not take. */
interface Owed {
  readonly pay: () => void;
  /** Epoch milliseconds, of an entry: what is missing from the ledger if it is forgotten. */
  readonly entryAt?: number;
}

/**
 * The same ledger, but one whose `enter`, `complete` and `recent` never throw: that it fails is reported
 * once, and once more when it works again; what it could not take it is given then, in order and by and by. A budget that
 * this process alone remembers is better than no answers. Reading rejects where the ledger's own does; while
 * something is owed, the ledger is not complete since any time but now.
 */
export function createUnfailingLedger(ledger: OwnLedger, { now, warn }: UnfailingOptions): UnfailingLedger {
  let failedAt: number | undefined;
  let owed: Owed[] = [];
  /** Epoch milliseconds: before it, something was forgotten. */
  let forgottenUntil = Number.NEGATIVE_INFINITY;

  function attempt<T>(work: () => T, otherwise: T): T {
    try {
      const result = work();
      if (failedAt !== undefined) warn("What is sent upstream is remembered over a restart again.", {});
      failedAt = undefined;
      return result;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (failedAt === undefined) warn("What is sent upstream may be forgotten at a restart.", { reason });
      failedAt = now();
      return otherwise;
    }
  }

  function payOff(): void {
    let paid = 0;
    try {
      for (const { pay } of owed.slice(0, MOST_PAID)) {
        pay();
        paid++;
      }
    } finally {
      owed = owed.slice(paid);
    }
  }

  const pay = (): void => attempt(payOff, undefined);

  function payOffUnlessResting(): void {
    const sinceMs = now() - (failedAt ?? Number.NEGATIVE_INFINITY);
    // A clock that was set back is no reason to rest for longer.
    if (owed.length > 0 && (sinceMs < 0 || sinceMs >= REST_MS)) pay();
  }

  function give(operation: Owed): void {
    owed.push(operation);
    if (owed.length > MOST_OWED) {
      const forgotten = owed.shift();
      if (forgotten?.entryAt !== undefined) forgottenUntil = Math.max(forgottenUntil, forgotten.entryAt + 1);
    }
    payOffUnlessResting();
  }

  return {
    enter: (entry) => give({ pay: () => ledger.enter(entry), entryAt: entry.at }),
    complete: (id, completion) => give({ pay: () => ledger.complete(id, completion) }),
    flush: () => flush(pay, () => owed.length, warn),
    recent: (origin, since) => attempt(() => ledger.recent(origin, since), []),
    read(from, to) {
      payOffUnlessResting();
      return ledger.read(from, to);
    },
    async completeSince() {
      payOffUnlessResting();
      const since = await ledger.completeSince();
      return owed.length > 0 ? Math.max(since, now()) : Math.max(since, forgottenUntil);
    },
  };
}

/** Pays for as long as it becomes less. */
function flush(pay: () => void, owed: () => number, warn: Warn): void {
  for (let before = Number.POSITIVE_INFINITY; owed() > 0 && owed() < before;) {
    before = owed();
    pay();
  }
  if (owed() > 0) warn("Sends are missing from what is remembered.", { operations: owed() });
}
