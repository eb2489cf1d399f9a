/**
 * The cache's rules as pure functions of the entry, the query and the time (RFC 9111, section 4.2).
 */
import type { Problem, ProblemCode } from "../errors.ts";
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

/** What holds for every answer, whatever else is agreed. */
export interface Bounds {
  /** No caller is given an answer older than this, in milliseconds from when it was received. */
  readonly maxAgeEverMs: number;
}

/**
 * How long an answer is fresh, in milliseconds from when it was received. A lifetime beyond the bound on
 * all ages ends with it, so that `max-age` never promises a caller more.
 */
export function freshnessLifetimeMs(lifetimes: Lifetimes & Bounds, query: Query, status: number): number {
  const { ttlMs, negativeTtlMs, maxAgeEverMs } = lifetimes;
  const lifetimeMs =
    status === 404 ? negativeTtlMs : ttlMs[query.kind === "record" ? "records" : query.resource];
  return Math.min(lifetimeMs, maxAgeEverMs);
}

/** @param now epoch milliseconds */
export function isFresh(entry: Entry, now: number, bounds: Bounds): boolean {
  return now < entry.freshUntil && isWithin(bounds, entry, now);
}

/** An entry may be from before a restart, when longer lifetimes were set: the bound is today's. */
function isWithin({ maxAgeEverMs }: Bounds, { storedAt }: Entry, now: number): boolean {
  return now - storedAt <= maxAgeEverMs;
}

/**
 * Whether a caller may be given an entry that is not fresh, in place of a problem. The entry may have been
 * purged softly, which makes it no more than stale; where it was purged hard there is none.
 * @param now epoch milliseconds
 */
export function mayServeStale(entry: Entry, problem: Problem, now: number, bounds: Bounds): boolean {
  return (
    entry.status === 200 && now < entry.keepUntil && isWithin(bounds, entry, now) && wasRefusedHere(problem)
  );
}

/** What the gateway refuses without having asked the upstream. */
const REFUSALS: ReadonlySet<ProblemCode> = new Set(["quota-exceeded", "temporary-reduced-capacity"]);

/** Whether the gateway itself refused to ask the upstream: what is held says more than that refusal. */
function wasRefusedHere({ code, details }: Problem): boolean {
  return REFUSALS.has(code) || details.refusedHere === true;
}

/** Whether an entry may take the place of the one that is there: never an older over a newer. */
export function mayReplace(stored: Entry | undefined, entry: Entry): boolean {
  return stored === undefined || entry.storedAt >= stored.storedAt;
}
