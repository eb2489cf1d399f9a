import type { Deciding, Following, LedgerEntry, OwnLedger } from "./ledger.ts";
import { createTrouble, type Trouble, type UnfailingOptions, type Warn } from "../ratelimit/trouble.ts";

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
 * The same ledger, but one whose operations never throw: that it fails is reported once, and once more when
 * it works again; what it could not take it is given then, in order and by and by. Meanwhile it is decided
 * without it, and so without those who share it: a budget that this process alone remembers is better than no
 * answers. Only while another process has it locked, which is a matter of moments, nothing is decided for a
 * while. Reading rejects where the ledger's own does; while something is owed, the ledger is not complete since
 * any time but now.
 */
export function createUnfailingLedger(ledger: OwnLedger, options: UnfailingOptions): UnfailingLedger {
  const { now, warn } = options;
  const trouble = createTrouble(options);
  let owed: Owed[] = [];
  /** Epoch milliseconds: before it, something was forgotten. */
  let forgottenUntil = Number.NEGATIVE_INFINITY;

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

  function pay(): void {
    try {
      payOff();
      trouble.worked();
    } catch (error) {
      trouble.failed(error);
    }
  }

  function payOffUnlessResting(): void {
    if (owed.length > 0 && !trouble.isResting()) pay();
  }

  function owe(operation: Owed): void {
    owed.push(operation);
    if (owed.length <= MOST_OWED) return;
    const forgotten = owed.shift();
    if (forgotten?.entryAt !== undefined) forgottenUntil = Math.max(forgottenUntil, forgotten.entryAt + 1);
  }

  function give(operation: Owed): void {
    owe(operation);
    payOffUnlessResting();
  }

  const owedEntry = (entry: LedgerEntry): Owed => ({ pay: () => ledger.enter(entry), entryAt: entry.at });

  return {
    enter: (entry) => give(owedEntry(entry)),
    complete: (id, completion) => give({ pay: () => ledger.complete(id, completion) }),
    flush: () => flush(pay, () => owed.length, warn),
    follow: (follower) =>
      createUnfailingFollowing(ledger.follow(follower), {
        trouble,
        payOff: payOffUnlessResting,
        owe: (entry) => owe(owedEntry(entry)),
      }),
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

interface Creditor {
  readonly trouble: Trouble;
  readonly payOff: () => void;
  readonly owe: (entry: LedgerEntry) => void;
}

function createUnfailingFollowing(following: Following, { trouble, payOff, owe }: Creditor): Following {
  /** @returns nothing where it was not tried, or failed */
  function attempt<T>(work: () => T): T | undefined {
    if (trouble.isResting()) return undefined;
    try {
      return work();
    } catch (error) {
      trouble.failed(error);
      return undefined;
    }
  }
  return {
    news: () => attempt(following.news),
    decide(work) {
      payOff();
      let decided: { readonly entry: LedgerEntry | undefined } | undefined;
      const workOnce: Deciding = (news) => {
        const entry = work(news);
        decided = { entry };
        return entry;
      };
      if (attempt(() => following.decide(workOnce)) === true) {
        trouble.worked();
        return true;
      }
      if (decided === undefined && trouble.isLocked()) return false;
      const { entry } = decided ?? { entry: work(undefined) };
      if (entry !== undefined) owe(entry);
      return true;
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
