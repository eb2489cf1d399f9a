import type { LedgerEntry, LedgerGap, LedgerLine, OwnLedger } from "./ledger.ts";
import { createUnwrittenCalls, type UnwrittenCalls, withGaps } from "./ledger-gaps.ts";
import type { GapNote } from "./gap-note.ts";
import { isDiskFull } from "../sqlite/faults.ts";
import type { Observer } from "../types.ts";

/** Says something an operator should look at. */
export type Warn = (message: string, fields: Readonly<Record<string, unknown>>) => void;

export interface UnfailingOptions {
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly warn: Warn;
}

export interface TroubleOptions
  extends Pick<UnfailingOptions, "now">, Pick<Observer, "outOfOrder" | "backInOrder"> {}

/** Operations that are remembered while the ledger fails. Of older ones only the number of calls is remembered. */
const MOST_OWED = 100_000;
/** Operations that are written at a time when the ledger works again. All callers wait meanwhile. */
const MOST_PAID = 1_000;

export interface UnfailingLedgerOptions extends UnfailingOptions, TroubleOptions {
  readonly note: GapNote;
  /** Steps that free space on a full disk, tried in order until the write succeeds. */
  readonly freeSpace: readonly (() => void)[];
  /** Called after each successful write. */
  readonly onWorked: () => void;
}

export interface UnfailingLedger extends OwnLedger {
  readonly gaps: () => readonly LedgerGap[];
  /** Whether calls are written before they are sent. */
  readonly isDurable: () => boolean;
  /** Writes everything that is not written yet, also shortly after a failure: the process is about to end. */
  readonly flush: () => void;
}

/** An operation that the ledger did not take yet. */
interface Owed {
  readonly pay: () => void;
  /** The call that it enters. */
  readonly entry?: LedgerEntry;
}

/**
 * The same ledger, but its operations never throw. On a full disk it frees space and tries again. If that does not
 * help, it remembers the operations, and counts their calls in a note on the disk before they depart; it writes them when the
 * ledger works again. The log says once that the ledger fails, once that lines are lost, and once that it works again.
 * Meanwhile the budget is only in the memory of this process, which is better than no answers. `read` rejects where the
 * ledger's own does.
 */
export function createUnfailingLedger(ledger: OwnLedger, options: UnfailingLedgerOptions): UnfailingLedger {
  const { warn, note } = options;
  const trouble = createTrouble(options);
  const debt = createDebt(options, trouble);

  const owedEntry = (entry: LedgerEntry): Owed => ({ pay: () => ledger.enter(entry), entry });

  function give(operation: Owed): void {
    debt.add(operation);
    debt.payUnlessResting();
    debt.note();
  }

  return {
    enter: (entry) => give(owedEntry(entry)),
    complete(id, completion) {
      debt.arrived(completion.arrivedAt);
      give({ pay: () => ledger.complete(id, completion) });
    },
    flush: () => flush(debt, warn),
    recent(origin, since) {
      let lines: readonly LedgerLine[] = [];
      try {
        lines = ledger.recent(origin, since);
      } catch (error) {
        trouble.failed(error);
      }
      return withGaps(lines, note.past, { origin, since });
    },
    read(from, to) {
      debt.payUnlessResting();
      return ledger.read(from, to);
    },
    completeSince: ledger.completeSince,
    gaps: () => [...note.past, ...debt.gaps()],
    isDurable: () => !trouble.isFailing(),
  };
}

/** What the ledger did not take yet. */
interface Debt extends Pick<UnwrittenCalls, "arrived" | "gaps"> {
  readonly add: (operation: Owed) => void;
  /** Gives the ledger some of it, in order. */
  readonly pay: () => void;
  readonly payUnlessResting: () => void;
  /** Records how many calls are not written. */
  readonly note: () => void;
  /** How many operations. */
  readonly size: () => number;
}

function createDebt({ note, freeSpace, onWorked, warn }: UnfailingLedgerOptions, trouble: Trouble): Debt {
  const unwritten = createUnwrittenCalls();
  let hasLost = false;
  let owed: Owed[] = [];

  function payOff(): void {
    let paid = 0;
    try {
      for (const { pay, entry } of owed.slice(0, MOST_PAID)) {
        tryOnFullDisk(pay, freeSpace);
        paid++;
        if (entry !== undefined) unwritten.written(entry.origin);
      }
    } finally {
      owed = owed.slice(paid);
    }
  }

  function pay(): void {
    try {
      payOff();
      trouble.worked();
      hasLost = false;
      onWorked();
    } catch (error) {
      trouble.failed(error);
    }
    note.write(unwritten.gaps());
  }

  return {
    ...unwritten,
    pay,
    payUnlessResting() {
      if (owed.length > 0 && !trouble.isResting()) pay();
    },
    add(operation) {
      const { entry } = operation;
      owed.push(operation);
      if (entry !== undefined) unwritten.add(entry.origin, entry.at);
      // It is forgotten, but it stays in the count.
      if (owed.length <= MOST_OWED) return;
      owed.shift();
      if (!hasLost)
        warn("The ledger has lost lines: of the oldest unwritten calls only the number is known.", {});
      hasLost = true;
    },
    note: () => note.write(unwritten.gaps()),
    size: () => owed.length,
  };
}

/** @throws what the work throws, if no step frees enough space */
function tryOnFullDisk(work: () => void, freeSpace: readonly (() => void)[]): void {
  let failure: unknown;
  for (const free of [() => undefined, ...freeSpace]) {
    try {
      free();
    } catch {
      // Part of it may be done, or the next step helps.
    }
    try {
      return work();
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      failure = error;
    }
  }
  throw failure;
}

/** Pays for as long as it becomes less. */
function flush({ pay, size }: Debt, warn: Warn): void {
  for (let before = Number.POSITIVE_INFINITY; size() > 0 && size() < before;) {
    before = size();
    pay();
  }
  if (size() > 0)
    warn("The ledger could not be written: of the last calls only the number is recorded.", {
      operations: size(),
    });
}

/** How long the ledger is left alone after it failed. */
const REST_MS = 2_000;

/** Whether the ledger fails, and when it is worth trying again. */
interface Trouble {
  readonly failed: (error: unknown) => void;
  /** It could be written. That it can be read says nothing. */
  readonly worked: () => void;
  /** It is not to be tried now. */
  readonly isResting: () => boolean;
  readonly isFailing: () => boolean;
}

const LEDGER = "the ledger on disk";
const MEANWHILE =
  "Callers notice nothing. Calls are counted in memory, and in a note on the disk for the next start; they are written " +
  "when the disk works again.";

function createTrouble({ now, outOfOrder, backInOrder }: TroubleOptions): Trouble {
  let failedAt: number | undefined;
  return {
    failed(error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (failedAt === undefined) outOfOrder({ what: LEDGER, cause: reason, meanwhile: MEANWHILE });
      failedAt = now();
    },
    worked() {
      if (failedAt !== undefined) backInOrder(LEDGER);
      failedAt = undefined;
    },
    isResting() {
      const sinceMs = failedAt === undefined ? REST_MS : now() - failedAt;
      // A clock that was set back is no reason to rest for longer.
      return sinceMs >= 0 && sinceMs < REST_MS;
    },
    isFailing: () => failedAt !== undefined,
  };
}
