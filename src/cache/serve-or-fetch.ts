/**
 * The cache's rules: decides how a request is answered, given the cached entry, the caller's directives and the
 * state of the upstream (RFC 9111, sections 4 and 5.2.1; RFC 5861). Pure. docs/internals/cache-policy.md shows them as a table,
 * and the tests read that table.
 */
import { Problem, wasRefusedHere } from "../errors.ts";
import type { CallerDirectives, GatewayRequest, Question } from "../query/request.ts";
import type { Entry } from "./entry.ts";
import type { Found } from "./store/tiered.ts";
import type { Forwarded, ServeNote } from "../telemetry/events.ts";
import { ageMs, type CacheRules, isFresh, isWithinBounds, kindOf } from "./freshness.ts";

/** The cached entry of a key. */
export type Cached = Pick<Found, "entry" | "isPurged">;

/** The parts of a question that the rules need. */
export interface CacheRequest extends Pick<Question, "query"> {
  readonly request: Pick<GatewayRequest, "directives" | "mayForceRefresh">;
}

/** Serve the cached entry. `serveAndRefresh`: and refresh it in the background. */
export interface Serve {
  readonly kind: "serve" | "serveAndRefresh";
  readonly isFresh: boolean;
  readonly note?: ServeNote;
}

export type Decision =
  | Serve
  /** Wait for the upstream. */
  | { readonly kind: "fetch"; readonly why: Forwarded }
  | { readonly kind: "refuse"; readonly problem: Problem };

/**
 * @param failed how fetching this key failed or was refused, just now or so recently that it is not tried again yet
 * @param now epoch milliseconds
 */
export function decide(
  cached: Cached | undefined,
  asked: CacheRequest,
  failed: Problem | undefined,
  rules: CacheRules,
  now: number,
): Decision {
  if (cached !== undefined && isWithinBounds(cached.entry, rules, now)) {
    return !cached.isPurged && isFresh(cached.entry, rules, now)
      ? withFresh(cached.entry, asked, failed, rules, now)
      : withStale(cached, asked, failed, rules, now);
  }
  if (asked.request.directives.onlyIfCached) return NOT_IN_CACHE;
  if (failed !== undefined) return { kind: "refuse", problem: failed };
  return { kind: "fetch", why: cached === undefined ? "miss" : "stale" };
}

function withFresh(
  entry: Entry,
  { request: { directives, mayForceRefresh } }: CacheRequest,
  failed: Problem | undefined,
  rules: CacheRules,
  now: number,
): Decision {
  const leftMs = entry.freshUntil - now;
  if (isYoungEnough(entry, directives, now) && leftMs >= (directives.minFreshMs ?? 0)) {
    const mayRefresh = failed === undefined && directives.onlyIfCached !== true;
    const isDue = mayRefresh && entry.status === 200 && isLastChance(entry, rules, now);
    return { kind: isDue ? "serveAndRefresh" : "serve", isFresh: true };
  }
  if (directives.onlyIfCached) return NOT_IN_CACHE;
  if (!mayForceRefresh) return { kind: "serve", isFresh: true, note: "refresh-not-allowed" };
  if (now - entry.storedAt < rules.minRefreshIntervalMs)
    return { kind: "serve", isFresh: true, note: "refreshed-recently" };
  if (failed === undefined) return { kind: "fetch", why: "request" };
  return allowsStale(failed)
    ? { kind: "serve", isFresh: true, note: failed.code }
    : { kind: "refuse", problem: failed };
}

function withStale(
  { entry, isPurged }: Cached,
  asked: CacheRequest,
  failed: Problem | undefined,
  rules: CacheRules,
  now: number,
): Decision {
  const { directives } = asked.request;
  // A purged answer is known to be wrong, and a record that did not exist may exist by now.
  const isGood = !isPurged && entry.status === 200 && isAcceptable(entry, directives, now);
  const staleMs = now - entry.freshUntil;
  const limits = staleLimits(entry, asked, rules);
  if (isGood && staleMs < limits.whileRevalidateMs) {
    if (failed !== undefined) return stale(failed.code);
    const kind = directives.onlyIfCached ? "serve" : "serveAndRefresh";
    return { kind, isFresh: false, note: "stale-while-revalidate" };
  }
  if (isGood && staleMs <= limits.onRequestMs) return stale("max-stale");
  // A limit of 0 allows nothing, not even in the millisecond in which the answer expires.
  const isWithinError = limits.ifErrorMs > 0 && staleMs <= limits.ifErrorMs;
  if (failed !== undefined && allowsStale(failed) && isWithinError) return stale(failed.code);
  if (directives.onlyIfCached) return NOT_IN_CACHE;
  return failed === undefined ? { kind: "fetch", why: "stale" } : { kind: "refuse", problem: failed };
}

const NO_LIMIT = Number.POSITIVE_INFINITY;

/** How stale an answer may be served, in milliseconds. The settings, the upstream and the caller each set limits. */
function staleLimits(
  { upstreamStale }: Entry,
  { query, request: { directives } }: CacheRequest,
  rules: CacheRules,
) {
  const { whileRevalidateMs = NO_LIMIT, ifErrorMs = NO_LIMIT } = upstreamStale;
  const { maxStaleMs = -1, staleIfErrorMs = NO_LIMIT } = directives;
  const kind = kindOf(query);
  // The upstream sent `must-revalidate` or an equivalent.
  const mustBeRevalidated = whileRevalidateMs === 0 && ifErrorMs === 0;
  return {
    whileRevalidateMs: Math.min(rules.staleWhileRevalidateMs[kind], whileRevalidateMs),
    ifErrorMs: Math.min(rules.staleIfErrorMs[kind], ifErrorMs, staleIfErrorMs),
    onRequestMs: mustBeRevalidated ? -1 : maxStaleMs,
  };
}

function stale(note: ServeNote): Serve {
  return { kind: "serve", isFresh: false, note };
}

/** Whether the caller accepts a stale answer. `max-age` excludes one, unless `max-stale` is given too. */
function isAcceptable(entry: Entry, directives: CallerDirectives, now: number): boolean {
  const { minFreshMs, maxAgeMs, maxStaleMs = maxAgeMs === undefined ? NO_LIMIT : -1 } = directives;
  const isTooStale = minFreshMs !== undefined || now - entry.freshUntil > maxStaleMs;
  return !isTooStale && isYoungEnough(entry, directives, now);
}

/** The last part of an entry's time in the cache in which `isLastChance` refreshes it. */
const LAST_CHANCE = 0.1;

/** Whether an entry is about to expire and can never be served stale. It must then be refreshed before it expires. */
function isLastChance(
  { bornAt, storedAt, freshUntil }: Entry,
  { maxAgeEverMs }: CacheRules,
  now: number,
): boolean {
  const endsAt = bornAt + maxAgeEverMs;
  // Measured from the time of storing. Otherwise an answer that was already old would always be near its end.
  return freshUntil >= endsAt && now >= endsAt - (endsAt - storedAt) * LAST_CHANCE;
}

const NOT_IN_CACHE: Decision = { kind: "refuse", problem: new Problem("not-in-cache") };

/** Whether an entry is young enough for the caller. */
function isYoungEnough(entry: Entry, { noCache, maxAgeMs }: CallerDirectives, now: number): boolean {
  return noCache !== true && ageMs(entry, now) <= (maxAgeMs ?? NO_LIMIT);
}

/**
 * Whether a stale entry may be served instead of a problem. A soft purge only makes an entry stale; after a hard purge there is
 * none.
 *
 * | why there is no new answer                                | may it be served                                 |
 * |-----------------------------------------------------------|--------------------------------------------------|
 * | the gateway refused the call: budget, share, cool-off     | within `staleIfError`, the caller's limit, the upstream's limit and `maxAgeEver` |
 * | the upstream failed, was unreachable or too slow          | the same                                         |
 * | the upstream answered 400 or 404                          | no: that is the answer                           |
 * | the gateway has a bug                                     | no: the bug must be visible                      |
 */
function allowsStale(problem: Problem): boolean {
  return wasRefusedHere(problem) || isFailureOfUpstream(problem) || problem.code === "deadline-exceeded";
}

/**
 * Whether the upstream was called and failed, or the network did. The same key is then not tried again at once. If the upstream
 * rejects a question, it works.
 */
export function isFailureOfUpstream(problem: Problem): boolean {
  const { code } = problem;
  return code.startsWith("upstream-") && code !== "upstream-rejected" && !wasRefusedHere(problem);
}
