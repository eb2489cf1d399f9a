import { hash } from "node:crypto";

import type { Cause, UpstreamFaultKind } from "../telemetry/events.ts";
import type { Resource, OriginName } from "../interface/resources.ts";
import type { Clock } from "../process/clock.ts";

/** A call, as it is entered before it is sent. */
export interface LedgerEntry {
  /** Unique. */
  readonly id: string;
  readonly origin: OriginName;
  /** Epoch milliseconds: when its permit was granted. */
  readonly at: number;
  readonly app: string;
  readonly resource: Resource;
  readonly cause: Cause;
  /** Hash of the canonical query (`queryHash`). */
  readonly query: string;
  /** The limits under which it was permitted (`limitsText`); empty if unknown, as in lines of older versions. */
  readonly limits: string;
}

/** The end of a call, which is added to its entry. */
export interface LedgerCompletion {
  /** HTTP status, or the kind of failure; `unsent`: it was never sent, and its permit was released. */
  readonly status: number | UpstreamFaultKind | "unsent";
  readonly durationMs: number;
  /** Epoch milliseconds: it had reached the upstream by then. It counts in the windows from this instant. */
  readonly arrivedAt: number;
}

/** A line of the ledger: an entry, completed or not. Without a completion, the call counts as sent. */
export interface LedgerLine extends LedgerEntry {
  readonly completion: LedgerCompletion | undefined;
}

/** A time in which calls were sent but could not be recorded. How many is unknown. Epoch milliseconds. */
export interface Unrecorded {
  readonly since: number;
  /** When the last of these calls was permitted. */
  readonly until: number;
}

/** What is known about the oldest lines of a ledger. */
export interface Completeness {
  /** Epoch milliseconds from which the ledger is known to be complete. Older lines were dropped, or never entered. */
  readonly since: number;
  /** Whether older lines were lost, not only dropped by age, as far as the ledger knows. */
  readonly hasLost: boolean;
}

/** Reads the ledger. */
export interface LedgerReader {
  /**
   * Lines with `from <= at < to` (epoch milliseconds), in any order. They come in pieces, so that a long period need not be
   * in memory at once. Rejects with `StoreUnavailable` if the ledger cannot be read.
   */
  readonly read: (from: number, to: number) => AsyncIterable<readonly LedgerLine[]>;
  readonly completeness: () => Promise<Completeness>;
  /** Calls of this time may be missing. */
  readonly unrecorded?: () => Unrecorded | undefined;
}

/** The ledger of a process. When the process starts, it fills its windows from this ledger. */
export interface OwnLedger extends LedgerReader {
  /** May throw. Entering the same entry again is then harmless. */
  readonly enter: (entry: LedgerEntry) => void;
  /** May throw. */
  readonly complete: (id: string, completion: LedgerCompletion) => void;
  /**
   * Calls to an origin whose instant (`instantOf`) is `since` (epoch milliseconds) or later, ordered by their instants, oldest
   * first. Calls that were never sent are left out. The instants are by the present clock: the age of a call comes from the
   * time since the machine started, if it has not started again since the call, else from the time of day. Calls in the
   * future, because the clock was ahead, count as sent now. May throw.
   */
  readonly recent: (origin: OriginName, since: number) => readonly LedgerLine[];
}

/** The bounds of a ledger. */
export interface LedgerBounds {
  /** Lines older than this, in milliseconds, are dropped. */
  readonly retentionMs: number;
  /** If there are more lines than this, the oldest ones are dropped. */
  readonly maxRecords: number;
  /** Called when lines are dropped because there are more than `maxRecords`. */
  readonly onOverflow?: () => void;
  readonly clock: Pick<Clock, "now" | "machine">;
}

/**
 * No call takes longer from its permit until it reaches the upstream, because that is only connecting and
 * waiting for the head of the answer. So a reader that needs all calls from an instant on reads lines from this
 * many milliseconds before it.
 */
export const LONGEST_ARRIVAL_MS = 3_600_000;

/** @returns the instant at which a call counts in the windows, in epoch milliseconds */
export function instantOf({ at, completion }: LedgerLine): number {
  return completion?.arrivedAt ?? at;
}

/** @returns the hash of a canonical query that the ledger keeps. It identifies a query, but does not reveal it. */
export const queryHash = (text: string): string => hash("sha256", text, "base64url").slice(0, 16);
