/** What is wrong with a ledger that fails now and then, and when it is worth trying again. */
import { isInUse } from "../sqlite/faults.ts";
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

/** How long the ledger is left alone after it failed: waiting for a lock, say, holds up every caller. */
const REST_MS = 2_000;
/** The same while another process has it locked, */
const LOCKED_REST_MS = 500;
/** which is a matter of moments; after so long it has failed. */
const LOCKED_MOST_MS = 5_000;

export interface Trouble {
  readonly failed: (error: unknown) => void;
  /** It could be written. That it can be read says nothing. */
  readonly worked: () => void;
  /** It is not to be tried now. */
  readonly isResting: () => boolean;
  /** Another process has it, and has not had it for long. */
  readonly isLocked: () => boolean;
}

const LEDGER = "the ledger on disk";
const MEANWHILE =
  "Callers notice nothing. Calls are counted in memory, and in a note on the disk for the next start; they are written " +
  "when the disk works again.";

export function createTrouble({ now, outOfOrder, backInOrder }: TroubleOptions): Trouble {
  /** Instants are epoch milliseconds. */
  let current:
    | { readonly kind: "locked" | "failed"; readonly since: number; readonly triedAt: number }
    | undefined;
  return {
    failed(error) {
      const triedAt = now();
      const last = current ?? { since: triedAt, triedAt };
      // Tried so long after the last time, it is locked again, not still; and a clock may have been set back.
      const isStill = triedAt >= last.since && triedAt - last.triedAt < LOCKED_MOST_MS;
      const since = isStill ? last.since : triedAt;
      const isNew = current?.kind !== "failed";
      const isLocked = isNew && isInUse(error) && triedAt - since < LOCKED_MOST_MS;
      current = { kind: isLocked ? "locked" : "failed", since, triedAt };
      const reason = error instanceof Error ? error.message : String(error);
      if (isNew && !isLocked) outOfOrder({ what: LEDGER, cause: reason, meanwhile: MEANWHILE });
    },
    worked() {
      if (current?.kind === "failed") backInOrder(LEDGER);
      current = undefined;
    },
    isResting() {
      if (current === undefined) return false;
      const sinceMs = now() - current.triedAt;
      // A clock that was set back is no reason to rest for longer.
      return sinceMs >= 0 && sinceMs < (current.kind === "locked" ? LOCKED_REST_MS : REST_MS);
    },
    isLocked: () => current?.kind === "locked",
  };
}
