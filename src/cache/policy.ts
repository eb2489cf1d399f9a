/**
 * The cache's rules as pure functions of the entry, the query and the time (RFC 9111, section 4.2).
 */
import type { Entry } from "../exchange.ts";
import type { Resource } from "../interface/resources.ts";
import type { Query } from "../query/query.ts";

/** Freshness lifetimes in milliseconds. */
export interface Lifetimes {
  /** For searches and images by resource, and for single records. */
  readonly ttlMs: Readonly<Record<Resource | "records", number>>;
  /** For 404s, whatever was asked. */
  readonly negativeTtlMs: number;
}

/** How long an answer is fresh, in milliseconds from when it was received. */
export function freshnessLifetimeMs(lifetimes: Lifetimes, query: Query, status: number): number {
  if (status === 404) return lifetimes.negativeTtlMs;
  return lifetimes.ttlMs[query.kind === "record" ? "records" : query.resource];
}

/** @param now epoch milliseconds */
export function isFresh(entry: Entry, now: number): boolean {
  return now < entry.freshUntil;
}

/** Whether an entry may take the place of the one that is there: never an older over a newer. */
export function mayReplace(stored: Entry | undefined, entry: Entry): boolean {
  return stored === undefined || entry.storedAt >= stored.storedAt;
}
