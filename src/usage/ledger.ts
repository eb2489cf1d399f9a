import { hash } from "node:crypto";

import type { Cause, OriginName, UpstreamFaultKind } from "../types.ts";
import type { Resource } from "../interface/resources.ts";

/** A send, as it is entered before it goes. */
export interface LedgerEntry {
  /** Unlike any other's. */
  readonly id: string;
  readonly origin: OriginName;
  /** Epoch milliseconds: when it was allowed to go. */
  readonly at: number;
  readonly app: string;
  readonly resource: Resource;
  readonly cause: Cause;
  /** Hash of the canonical query (`queryHash`). */
  readonly query: string;
  /** Under which limits it was allowed (`limitsText`); empty where that is not known, as of lines of older versions. */
  readonly limits: string;
}

/** What is added when it has ended. */
export interface LedgerCompletion {
  /** HTTP status, or the kind of failure; `unsent` where it never went and its place was given back. */
  readonly status: number | UpstreamFaultKind | "unsent";
  readonly durationMs: number;
  /** Epoch milliseconds: by then it had reached the upstream. It counts in the windows from here. */
  readonly arrivedAt: number;
}

/** A line of the ledger: an entry, completed or not. A crash before its completion counts as sent. */
export interface LedgerLine extends LedgerEntry {
  readonly completion: LedgerCompletion | undefined;
}

/** Calls of a period that were sent but could not be written to the ledger. */
export interface LedgerGap {
  readonly origin: OriginName;
  /** Epoch milliseconds of the first of these calls. */
  readonly from: number;
  /** Epoch milliseconds: the last of them was sent, and arrived, by then. */
  readonly to: number;
  /** How many; 0 where nobody knows. */
  readonly sends: number;
}

/** Where the ledger is read. */
export interface LedgerReader {
  /**
   * Lines with `from <= at < to` (epoch milliseconds), oldest first, in pieces, so that a long period does
   * not have to be held in memory at once. Rejects with `StoreUnavailable` where it cannot be read.
   */
  readonly read: (from: number, to: number) => AsyncIterable<readonly LedgerLine[]>;
  /** Epoch milliseconds from which on it is known to be complete; what is older was dropped, or never entered. */
  readonly completeSince: () => Promise<number>;
  /** Calls that are missing since then. Absent: none ever are. */
  readonly gaps?: () => readonly LedgerGap[];
}

/** A ledger that is written as well. */
interface Ledger extends LedgerReader {
  /** May throw: then the entry is not there. */
  readonly enter: (entry: LedgerEntry) => void;
  /** May throw. */
  readonly complete: (id: string, completion: LedgerCompletion) => void;
}

/** The ledger of a process, from which its windows are filled when it starts. */
export interface OwnLedger extends Ledger {
  /**
   * Sends to an origin whose instant (`instantOf`) is `since` (epoch milliseconds) or later, in the order of
   * their instants, oldest first. What was never sent is left out. What a clock that was ahead has entered
   * in the future counts as sent now, so that it does not hold everything back until then. May throw.
   */
  readonly recent: (origin: OriginName, since: number) => readonly LedgerLine[];
}

/** How much a ledger keeps. */
export interface LedgerBounds {
  /** Lines older than this, in milliseconds, are dropped, */
  readonly retentionMs: number;
  /** and the oldest ones where there are more than so many. */
  readonly maxRecords: number;
  /** Lines were dropped because there were more than `maxRecords`. */
  readonly onOverflow?: () => void;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/**
 * No send takes longer from when it was allowed to go until it has reached the upstream: that is a matter
 * of connecting and waiting for the head of the answer. Whoever looks for instants reads lines from so many
 * milliseconds before.
 */
export const LONGEST_ARRIVAL_MS = 3_600_000;

/** @returns when a send counts in the windows, in epoch milliseconds */
export function instantOf({ at, completion }: LedgerLine): number {
  return completion?.arrivedAt ?? at;
}

/** @returns what the ledger keeps of a canonical query: enough to tell questions apart, nothing to read them from */
export function queryHash(text: string): string {
  return hash("sha256", text, "base64url").slice(0, 16);
}
