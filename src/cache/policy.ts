/**
 * The cache's rules: what becomes of a request, given what is cached, what the caller asks for, and what is
 * known of the upstream (RFC 9111, sections 4 and 5.2.1; RFC 5861). Pure. docs/caching.md has them as a table,
 * and the tests read that table.
 */
import { Problem, type ProblemCode } from "../errors.ts";
import type { CallerDirectives, Entry, Forwarded, ServeNote } from "../types.ts";
import type { Query } from "../query/query.ts";
import { isDueEarly } from "./early.ts";
import { ageMs, type CacheRules, isFresh, isWithinBounds, kindOf } from "./freshness.ts";

/** What is cached under a key. */
export interface Cached {
  readonly entry: Entry;
  /** It was declared out of date: whatever its age, it is stale. */
  readonly isPurged: boolean;
}

/** What is asked, as far as the rules need to know. */
export interface Asked {
  readonly query: Query;
  readonly directives: CallerDirectives;
  readonly mayForceRefresh: boolean;
}

/** What is known of the upstream. */
export interface UpstreamState {
  /** How fetching this failed, or was refused: just now, or so recently that it is not to be tried again yet. */
  readonly failed: Problem | undefined;
  /** The part of the budget that is left, from 0 to 1; only asked for where it counts. */
  readonly budgetLeft: () => number;
  /** From 0 up to, not including, 1: drawn anew for every request. */
  readonly random: number;
}

export type Decision =
  /** With what is cached. */
  | { readonly kind: "serve"; readonly note: ServeNote | undefined }
  /** Likewise, and have it fetched anew while nobody waits. */
  | { readonly kind: "serveAndRefresh"; readonly note: ServeNote | undefined }
  /** Ask the upstream, and wait for it. */
  | { readonly kind: "fetch"; readonly why: Forwarded }
  | { readonly kind: "refuse"; readonly problem: Problem };

/** @param now epoch milliseconds */
export function decide(
  cached: Cached | undefined,
  asked: Asked,
  upstream: UpstreamState,
  rules: CacheRules,
  now: number,
): Decision {
  if (cached === undefined || !isWithinBounds(cached.entry, rules, now))
    return withNothing(cached, asked, upstream);
  return !cached.isPurged && isFresh(cached.entry, rules, now)
    ? withFresh(cached.entry, asked, upstream, rules, now)
    : withStale(cached, asked, upstream, rules, now);
}

function withNothing(cached: Cached | undefined, { directives }: Asked, { failed }: UpstreamState): Decision {
  if (directives.onlyIfCached) return NOT_IN_CACHE;
  if (failed !== undefined) return { kind: "refuse", problem: failed };
  return { kind: "fetch", why: cached === undefined ? "miss" : "stale" };
}

function withFresh(
  entry: Entry,
  { directives, mayForceRefresh }: Asked,
  { failed, budgetLeft, random }: UpstreamState,
  rules: CacheRules,
  now: number,
): Decision {
  const isNewEnough =
    isYoungEnough(entry, directives, now) && leftMs(entry, now) >= (directives.minFreshMs ?? 0);
  if (isNewEnough) {
    const isNearEnd = isDueEarly(entry, random, now) || isLastChance(entry, rules, now);
    const isDue = entry.status === 200 && failed === undefined && isNearEnd;
    return isDue && budgetLeft() > rules.earlyRefreshAbove
      ? { kind: "serveAndRefresh", note: undefined }
      : { kind: "serve", note: undefined };
  }
  if (directives.onlyIfCached) return NOT_IN_CACHE;
  if (!mayForceRefresh) return { kind: "serve", note: "refresh-not-allowed" };
  if (now - entry.storedAt < rules.minRefreshIntervalMs) return { kind: "serve", note: "refreshed-recently" };
  if (failed === undefined) return { kind: "fetch", why: "request" };
  return isStandInFor(failed) ? { kind: "serve", note: failed.code } : { kind: "refuse", problem: failed };
}

function withStale(
  { entry, isPurged }: Cached,
  asked: Asked,
  { failed }: UpstreamState,
  rules: CacheRules,
  now: number,
): Decision {
  const { query, directives } = asked;
  // What was purged is known to be wrong, and what was not there may be by now.
  const isGood = !isPurged && entry.status === 200 && isAcceptable(entry, directives, now);
  const staleMs = now - entry.freshUntil;
  if (isGood && staleMs < whileRevalidateMs(entry, query, rules)) {
    if (failed !== undefined) return { kind: "serve", note: failed.code };
    const kind = directives.onlyIfCached ? "serve" : "serveAndRefresh";
    return { kind, note: "stale-while-revalidate" };
  }
  if (isGood && staleMs <= (directives.maxStaleMs ?? -1) && !mustBeRevalidated(entry))
    return { kind: "serve", note: "max-stale" };
  if (failed !== undefined && mayServeStale(entry, asked, failed, rules, now))
    return { kind: "serve", note: failed.code };
  if (directives.onlyIfCached) return NOT_IN_CACHE;
  return failed === undefined ? { kind: "fetch", why: "stale" } : { kind: "refuse", problem: failed };
}

/** Whether a caller may want a stale answer; who says `max-age` wants none, unless it says `max-stale` too. */
function isAcceptable(entry: Entry, directives: CallerDirectives, now: number): boolean {
  const { minFreshMs, maxAgeMs, maxStaleMs } = directives;
  const wantsFresh = minFreshMs !== undefined || (maxAgeMs !== undefined && maxStaleMs === undefined);
  return !wantsFresh && isYoungEnough(entry, directives, now);
}

/** How long an answer may be given while it is refreshed: as the settings say, or the upstream, if that is shorter. */
function whileRevalidateMs({ upstreamStale }: Entry, query: Query, rules: CacheRules): number {
  const theirs = upstreamStale.whileRevalidateMs ?? Number.POSITIVE_INFINITY;
  return Math.min(rules.staleWhileRevalidateMs[kindOf(query)], theirs);
}

/** The part of its time here, up to the end of all ages, in which an answer that nothing could stand in for afterwards is refreshed. */
const LAST_CHANCE = 0.1;

/** Whether an answer is fresh to the end of all ages, and near it: expired, it could not even stand in. */
function isLastChance(
  { bornAt, storedAt, freshUntil }: Entry,
  { maxAgeEverMs }: CacheRules,
  now: number,
): boolean {
  const endsAt = bornAt + maxAgeEverMs;
  // Not a part of all ages: one that was old when it came would be in it from the first, and so would each new one.
  return freshUntil >= endsAt && now >= endsAt - (endsAt - storedAt) * LAST_CHANCE;
}

const NOT_IN_CACHE: Decision = { kind: "refuse", problem: new Problem("not-in-cache") };

function leftMs({ freshUntil }: Entry, now: number): number {
  return freshUntil - now;
}

/** Whether an answer is as young as a caller wants it. */
function isYoungEnough(entry: Entry, { noCache, maxAgeMs }: CallerDirectives, now: number): boolean {
  return !noCache && ageMs(entry, now) <= (maxAgeMs ?? Number.POSITIVE_INFINITY);
}

/** By the upstream's word: `must-revalidate` and its like. */
function mustBeRevalidated({ upstreamStale }: Entry): boolean {
  return upstreamStale.whileRevalidateMs === 0 && upstreamStale.ifErrorMs === 0;
}

/**
 * Whether a caller may be given an entry that is not fresh, in place of a problem. The entry may have been
 * purged softly, which makes it no more than stale; where it was purged hard there is none.
 *
 * | why there is no new answer                                | may it stand in                                  |
 * |-----------------------------------------------------------|--------------------------------------------------|
 * | the gateway refused to ask: budget, share, cool-off       | within `staleIfError`, the caller's own, the upstream's, and the bound on all ages |
 * | the upstream failed, was not reached, was too slow        | the same                                         |
 * | the upstream refused the question, or knows no such thing | no: that is the answer                           |
 * | the gateway made a mistake                                | no: it should be seen                            |
 */
function mayServeStale(
  entry: Entry,
  { query, directives }: Asked,
  problem: Problem,
  rules: CacheRules,
  now: number,
): boolean {
  if (!isStandInFor(problem)) return false;
  const longestMs = Math.min(
    rules.staleIfErrorMs[kindOf(query)],
    entry.upstreamStale.ifErrorMs ?? Number.POSITIVE_INFINITY,
    directives.staleIfErrorMs ?? Number.POSITIVE_INFINITY,
  );
  // Nothing at all, where nothing is allowed: also in the very moment in which it expires.
  return longestMs > 0 && now - entry.freshUntil <= longestMs;
}

function isStandInFor(problem: Problem): boolean {
  return wasRefusedHere(problem) || isFailureOfUpstream(problem) || problem.code === "deadline-exceeded";
}

/** What the gateway refuses without having asked the upstream. */
const REFUSALS: ReadonlySet<ProblemCode> = new Set(["quota-exceeded", "temporary-reduced-capacity"]);

/** Whether the gateway itself refused to ask the upstream: that cost nothing. */
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
]);

/** Whether the upstream was asked, and failed: it is not to be asked the same again at once. */
export function isFailureOfUpstream(problem: Problem): boolean {
  return FAILURES.has(problem.code) && !wasRefusedHere(problem);
}

/** Whether an entry may take the place of the one that is there: never an older over a newer. */
export function mayReplace(stored: Entry | undefined, entry: Entry): boolean {
  return stored === undefined || entry.storedAt >= stored.storedAt;
}
