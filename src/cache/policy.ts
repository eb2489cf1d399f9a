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

/** How long after its life an answer may stand in for one that cannot be had (RFC 5861, section 4). */
export interface StaleBounds extends Bounds {
  /** In milliseconds, for the kind of answer; see `Lifetimes.ttlMs`. */
  readonly staleIfErrorMs: Readonly<Record<Resource | "records", number>>;
}

/**
 * How long an answer is fresh, in milliseconds from when it was received. A lifetime beyond the bound on
 * all ages ends with it, so that `max-age` never promises a caller more.
 */
export function freshnessLifetimeMs(lifetimes: Lifetimes & Bounds, query: Query, status: number): number {
  const { ttlMs, negativeTtlMs, maxAgeEverMs } = lifetimes;
  const lifetimeMs = status === 404 ? negativeTtlMs : ttlMs[kindOf(query)];
  return Math.min(lifetimeMs, maxAgeEverMs);
}

function kindOf(query: Query): Resource | "records" {
  return query.kind === "record" ? "records" : query.resource;
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
 *
 * | why there is no new answer                                | may it stand in                                  |
 * |-----------------------------------------------------------|--------------------------------------------------|
 * | the gateway refused to ask: budget, share, cool-off       | within `staleIfError` and the bound on all ages  |
 * | the upstream failed, was not reached, was too slow        | the same                                         |
 * | the upstream refused the question, or knows no such thing | no: that is the answer                           |
 * | the gateway made a mistake                                | no: it should be seen                            |
 * @param now epoch milliseconds
 */
export function mayServeStale(
  entry: Entry,
  query: Query,
  problem: Problem,
  now: number,
  bounds: StaleBounds,
): boolean {
  if (entry.status !== 200 || now >= entry.keepUntil || !isWithin(bounds, entry, now)) return false;
  const isStandIn = wasRefusedHere(problem) || FAILURES.has(problem.code);
  return isStandIn && now - entry.freshUntil <= bounds.staleIfErrorMs[kindOf(query)];
}

/** What the gateway refuses without having asked the upstream. */
const REFUSALS: ReadonlySet<ProblemCode> = new Set(["quota-exceeded", "temporary-reduced-capacity"]);

/** Whether the gateway itself refused to ask the upstream: what is held says more than that refusal. */
export function wasRefusedHere({ code, details }: Problem): boolean {
  return REFUSALS.has(code) || details.refusedHere === true;
}

/** Ways in which the upstream, or the way to it, fails. */
const FAILURES: ReadonlySet<ProblemCode> = new Set([
  "upstream-authentication-failed",
  "upstream-error",
  "upstream-unreachable",
  "upstream-invalid-response",
  "upstream-unavailable",
  "upstream-timeout",
  "deadline-exceeded",
]);

/** Whether an entry may take the place of the one that is there: never an older over a newer. */
export function mayReplace(stored: Entry | undefined, entry: Entry): boolean {
  return stored === undefined || entry.storedAt >= stored.storedAt;
}
