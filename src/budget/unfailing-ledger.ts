import { isHeldElsewhere } from "../platform/sqlite.ts";
import type { Deciding, Following, LedgerEntry, OwnLedger } from "./ledger.ts";

/** Says something an operator should look at. */
type Warn = (message: string, fields: Readonly<Record<string, unknown>>) => void;

export interface UnfailingOptions {
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly warn: Warn;
}

/** How long the ledger is left alone after it failed: waiting for a lock, say, holds up every caller. */
const REST_MS = 2_000;
/** The same while another process has it locked: */
const LOCKED_REST_MS = 500;
/** for so long nothing is decided rather than without those others; after that it has failed. */
const LOCKED_MOST_MS = 5_000;
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

/** What is wrong with the ledger. Instants are epoch milliseconds. */
interface Trouble {
  /** `locked`: by another process, and not yet for long. */
  readonly kind: "locked" | "failed";
  readonly since: number;
  /** When it was tried last. */
  readonly triedAt: number;
}

/**
 * The same ledger, but one whose operations never throw: that it fails is reported once, and once more when
 * it works again; what it could not take it is given then, in order and by and by. Meanwhile it is decided
 * without it, and so without those who share it: a budget that this process alone remembers is better than no
 * answers. Only while another process has it locked, which is a matter of moments, nothing is decided for a
 * while. Reading rejects where the ledger's own does; while something is owed, the ledger is not complete since
 * any time but now.
 */
export function createUnfailingLedger(ledger: OwnLedger, { now, warn }: UnfailingOptions): UnfailingLedger {
  let trouble: Trouble | undefined;
  let owed: Owed[] = [];
  /** Epoch milliseconds: before it, something was forgotten. */
  let forgottenUntil = Number.NEGATIVE_INFINITY;

  function fail(error: unknown): void {
    const triedAt = now();
    const { since, triedAt: lastAt } = trouble ?? { since: triedAt, triedAt };
    // Tried so long after the last time, it is locked again, not still.
    const lockedMs = triedAt - lastAt < LOCKED_MOST_MS ? triedAt - since : 0;
    const isLocked =
      trouble?.kind !== "failed" && isHeldElsewhere(error) && lockedMs >= 0 && lockedMs < LOCKED_MOST_MS;
    if (!isLocked && trouble?.kind !== "failed") {
      const reason = error instanceof Error ? error.message : String(error);
      warn("What is sent upstream may be forgotten at a restart.", { reason });
    }
    trouble = { kind: isLocked ? "locked" : "failed", since: triedAt - lockedMs, triedAt };
  }

  function succeed(): void {
    if (trouble?.kind === "failed") warn("What is sent upstream is remembered over a restart again.", {});
    trouble = undefined;
  }

  function isResting(): boolean {
    if (trouble === undefined) return false;
    const sinceMs = now() - trouble.triedAt;
    // A clock that was set back is no reason to rest for longer.
    return sinceMs >= 0 && sinceMs < (trouble.kind === "locked" ? LOCKED_REST_MS : REST_MS);
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

  function pay(): void {
    try {
      payOff();
      succeed();
    } catch (error) {
      fail(error);
    }
  }

  function payOffUnlessResting(): void {
    if (owed.length > 0 && !isResting()) pay();
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

  /** Decides in the ledger, or, where it has failed, without it. */
  function decide(following: Following, work: Deciding): boolean {
    payOffUnlessResting();
    let decided: { readonly entry: LedgerEntry | undefined } | undefined;
    const workOnce: Deciding = (news) => {
      const entry = work(news);
      decided = { entry };
      return entry;
    };
    if (!isResting()) {
      try {
        following.decide(workOnce);
        succeed();
        return true;
      } catch (error) {
        fail(error);
      }
    }
    if (decided === undefined && trouble?.kind === "locked") return false;
    const { entry } = decided ?? { entry: work(undefined) };
    if (entry !== undefined) owe(owedEntry(entry));
    return true;
  }

  function follow(following: Following): Following {
    return {
      decide: (work) => decide(following, work),
      news() {
        if (isResting()) return undefined;
        try {
          // That it can be read does not say that it can be written.
          return following.news();
        } catch (error) {
          fail(error);
          return undefined;
        }
      },
    };
  }

  return {
    enter: (entry) => give(owedEntry(entry)),
    complete: (id, completion) => give({ pay: () => ledger.complete(id, completion) }),
    flush: () => flush(pay, () => owed.length, warn),
    follow: (follower) => follow(ledger.follow(follower)),
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
