/**
 * How long an answer may be used: as fresh, as stale, at all (RFC 9111, section 4.2; RFC 5861). Pure.
 */
import type { Entry, FetchedAnswer, NotModified, ChangeRate } from "../types.ts";
import type { Resource } from "../interface/resources.ts";
import type { Query } from "../query/query.ts";
import { isSettled, lifetimeAt, type LifetimeBounds } from "./change-rate.ts";

/** Searches and images by resource, and single records: each kind of answer has times of its own. */
export type Kind = Resource | "records";

type PerKind = Readonly<Record<Kind, number>>;

/** The settings the rules follow; times in milliseconds. See `cache` in config/default.yaml. */
export interface CacheRules {
  readonly ttlMs: PerKind;
  readonly adaptiveTtl: "off" | "shadow" | "on";
  readonly ttlMinMs: PerKind;
  readonly ttlMaxMs: PerKind;
  /** For 404s and 400s. */
  readonly negativeTtlMs: PerKind;
  readonly staleWhileRevalidateMs: PerKind;
  readonly staleIfErrorMs: PerKind;
  readonly maxWaitForFreshMs: number;
  /** No caller is given an answer older than this. */
  readonly maxAgeEverMs: number;
  /** Nothing is kept for longer than this. */
  readonly retentionMs: number;
  readonly honourUpstream: boolean;
  readonly minRefreshIntervalMs: number;
  /** From 0 to 1. */
  readonly earlyRefreshAbove: number;
}

export function kindOf(query: Query): Kind {
  return query.kind === "record" ? "records" : query.resource;
}

/** What the rules say of the lifetimes of a kind of answer. */
export function lifetimeBounds(rules: CacheRules, query: Query): LifetimeBounds {
  const kind = kindOf(query);
  return { ttlMs: rules.ttlMs[kind], ttlMinMs: rules.ttlMinMs[kind], ttlMaxMs: rules.ttlMaxMs[kind] };
}

/** The lifetime of an answer by how fast it changes, in milliseconds. */
export function adaptiveLifetimeMs(
  rules: CacheRules,
  query: Query,
  changeRate: ChangeRate,
  now: number,
): number {
  return lifetimeAt(changeRate, lifetimeBounds(rules, query), isSettled(query, now));
}

/**
 * How long an answer is fresh, in milliseconds from when it was received: as the settings and its changeRate say,
 * or the upstream, where that is shorter. It ends with the bounds on age and keeping, so that `max-age` never
 * promises a caller more than is kept. Below zero, it was stale already when it came.
 * @param status that of the answer; a 304's is that of what it confirms
 */
export function freshnessLifetimeMs(
  rules: CacheRules,
  query: Query,
  {
    status,
    caching,
  }: { readonly status: Entry["status"]; readonly caching: (FetchedAnswer | NotModified)["caching"] },
  changeRate: ChangeRate,
  now: number,
): number {
  const kind = kindOf(query);
  const ours =
    status !== 200
      ? rules.negativeTtlMs[kind]
      : rules.adaptiveTtl === "on"
        ? adaptiveLifetimeMs(rules, query, changeRate, now)
        : rules.ttlMs[kind];
  const theirs = rules.honourUpstream ? (caching.freshForMs ?? ours) : ours;
  return Math.min(ours, theirs, rules.maxAgeEverMs - caching.ageMs, rules.retentionMs);
}

/** How old an answer is, in milliseconds (RFC 9111, section 4.2.3). */
export function ageMs({ bornAt }: Entry, now: number): number {
  return Math.max(0, now - bornAt);
}

/**
 * Whether an entry may be given to anybody at all. It may be from before a restart, when longer times were
 * set: the bounds are today's.
 */
export function isWithinBounds(entry: Entry, rules: CacheRules, now: number): boolean {
  return (
    now < entry.keepUntil &&
    now - entry.storedAt <= rules.retentionMs &&
    ageMs(entry, now) <= rules.maxAgeEverMs
  );
}

/** @param now epoch milliseconds */
export function isFresh(entry: Entry, rules: CacheRules, now: number): boolean {
  return now < entry.freshUntil && isWithinBounds(entry, rules, now);
}
