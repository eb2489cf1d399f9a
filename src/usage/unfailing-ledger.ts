import type { LedgerEntry, LedgerGap, LedgerLine, OwnLedger } from "./ledger.ts";
import { createUnwrittenCalls, type UnwrittenCalls, withGaps } from "./ledger-gaps.ts";
import type { GapNote } from "./gap-note.ts";
import { isDiskFull } from "../sqlite/faults.ts";
import type { Observer } from "../types.ts";

/** Logs a warning for operators. */
export type Warn = (message: string, fields: Readonly<Record<string, unknown>>) => void;

export interface UnfailingOptions {
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly warn: Warn;
}

export interface TroubleOptions
  extends Pick<UnfailingOptions, "now">, Pick<Observer, "outOfOrder" | "backInOrder"> {}

/** The most operations that are remembered while the ledger fails. Of older ones, only the number of calls is kept. */
const MOST_PENDING = 100_000;
/** The most operations that are written at once when the ledger works again, because all callers wait meanwhile. */
const MOST_AT_ONCE = 1_000;

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
  /** Writes everything that is not written yet, also shortly after a failure. Call it when the process is about to end. */
  readonly flush: () => void;
}

/** An operation that is not written yet. */
interface Pending {
  readonly write: () => void;
  /** The call that it enters, if it enters one. */
  readonly entry?: LedgerEntry;
}

/**
 * Wraps a ledger, so that its operations never throw. On a full disk it frees space and tries again. If that does not
 * help, it remembers the operations, and counts their calls in a note on the disk before the calls are sent. It writes them
 * when the ledger works again. The log reports once that the ledger fails, once that lines are lost, and once that it works
 * again. Meanwhile the budget is only in the memory of this process, which is better than no answers. `read` rejects if the
 * wrapped ledger's does.
 */
export function createUnfailingLedger(ledger: OwnLedger, options: UnfailingLedgerOptions): UnfailingLedger {
  const { warn, note } = options;
  const trouble = createTrouble(options);
  const backlog = createBacklog(options, trouble);

  const entering = (entry: LedgerEntry): Pending => ({ write: () => ledger.enter(entry), entry });

  function submit(operation: Pending): void {
    backlog.add(operation);
    backlog.writeUnlessResting();
    backlog.note();
  }

  return {
    enter: (entry) => submit(entering(entry)),
    complete(id, completion) {
      backlog.arrived(completion.arrivedAt);
      submit({ write: () => ledger.complete(id, completion) });
    },
    flush: () => flush(backlog, warn),
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
      backlog.writeUnlessResting();
      return ledger.read(from, to);
    },
    completeSince: ledger.completeSince,
    gaps: () => [...note.past, ...backlog.gaps()],
    isDurable: () => !trouble.isFailing(),
  };
}

/** The operations that are not written yet. */
interface Backlog extends Pick<UnwrittenCalls, "arrived" | "gaps"> {
  readonly add: (operation: Pending) => void;
  /** Writes some of them, in order. */
  readonly write: () => void;
  readonly writeUnlessResting: () => void;
  /** Records how many calls are not written. */
  readonly note: () => void;
  /** The number of operations. */
  readonly size: () => number;
}

function createBacklog(
  { note, freeSpace, onWorked, warn }: UnfailingLedgerOptions,
  trouble: Trouble,
): Backlog {
  const unwritten = createUnwrittenCalls();
  let hasLost = false;
  let pending: Pending[] = [];

  function writeSome(): void {
    let written = 0;
    try {
      for (const operation of pending.slice(0, MOST_AT_ONCE)) {
        tryOnFullDisk(operation.write, freeSpace);
        written++;
        const { entry } = operation;
        if (entry !== undefined) unwritten.written(entry.origin);
      }
    } finally {
      pending = pending.slice(written);
    }
  }

  function write(): void {
    try {
      writeSome();
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
    write,
    writeUnlessResting() {
      if (pending.length > 0 && !trouble.isResting()) write();
    },
    add(operation) {
      const { entry } = operation;
      pending.push(operation);
      if (entry !== undefined) unwritten.add(entry.origin, entry.at);
      if (pending.length <= MOST_PENDING) return;
      // The oldest operation is forgotten, but its call stays in the count.
      pending.shift();
      if (!hasLost)
        warn("The ledger has lost lines: of the oldest unwritten calls only the number is known.", {});
      hasLost = true;
    },
    note: () => note.write(unwritten.gaps()),
    size: () => pending.length,
  };
}

/** @throws what the work throws, if no step frees enough space */
function tryOnFullDisk(work: () => void, freeSpace: readonly (() => void)[]): void {
  let failure: unknown;
  for (const free of [() => undefined, ...freeSpace]) {
    try {
      free();
    } catch {
      // The step may have freed some space all the same, or the next one may.
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

/** Writes as long as the backlog becomes smaller. */
function flush({ write, size }: Backlog, warn: Warn): void {
  for (let before = Number.POSITIVE_INFINITY; size() > 0 && size() < before;) {
    before = size();
    write();
  }
  if (size() > 0)
    warn("The ledger could not be written: of the last calls only the number is recorded.", {
      operations: size(),
    });
}

/** How long the ledger is not tried after a failure. */
const REST_MS = 2_000;

/** Whether the ledger fails, and when to try it again. */
interface Trouble {
  readonly failed: (error: unknown) => void;
  /** A write succeeded. A successful read does not count. */
  readonly worked: () => void;
  /** Whether it is too early for the next try. */
  readonly isResting: () => boolean;
  readonly isFailing: () => boolean;
}

const LEDGER = "the ledger on disk";
const MEANWHILE =
  "Callers are not affected. Calls are counted in memory, and in a note on the disk for the next start. They are written " +
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
      // A clock that was set back must not prolong the pause.
      return sinceMs >= 0 && sinceMs < REST_MS;
    },
    isFailing: () => failedAt !== undefined,
  };
}
