/**
 * Makes the next entry of a key from a fetched answer: a new entry, or the cached one renewed.
 */
import { Problem } from "../errors.ts";
import type { Query } from "../query/query.ts";
import type { Change } from "../telemetry/events.ts";
import type { Fetched } from "../upstream/verdict.ts";
import { transcode } from "./encoder.ts";
import { entryOf, type Entry, type Receipt } from "./entry.ts";
import { type CacheRules, ttlMs } from "./freshness.ts";
import type { Lifetimes } from "./lifetimes/learned-lifetimes.ts";
import { sameMeaning } from "./same-meaning.ts";

/** A fetched answer, and what the gateway knows about its fetch. */
export interface Arrived {
  readonly query: Query;
  readonly fetched: Fetched;
  /** When the answer was received; epoch milliseconds. */
  readonly now: number;
  /** The latest purge known when the call was sent. */
  readonly purgeEpoch: number;
  /** The entry cached before, fresh or not. */
  readonly cached: Entry | undefined;
  /** The version stored before, even if a hard purge removed it, and the requests for it in all replicas. */
  readonly before:
    | { readonly entry: Entry; readonly wasPurged: boolean; readonly requests: number }
    | undefined;
}

/**
 * @returns the entry, whether the upstream allows storing it, and what has changed if an answer was cached before
 * @throws {Problem} `upstream-invalid-response` for a 304 without a cached entry
 */
export async function nextEntry(
  arrived: Arrived,
  rules: CacheRules,
  lifetimes: Pick<Lifetimes, "of">,
): Promise<{ entry: Entry; mayStore: boolean; change: Change | undefined }> {
  const { query, fetched, now, purgeEpoch, cached, before } = arrived;
  const { caching } = fetched;
  const change = await changeIn(arrived);
  const bornAt = now - caching.ageMs;
  // `maxAgeEver` and `retention` are limits, so that `max-age` never promises a caller more than the cache keeps. If the
  // result is below zero, the answer was already stale when it arrived.
  const bound = (oursMs: number): number => {
    const upstreamMs = rules.honourUpstream ? (caching.freshForMs ?? oursMs) : oursMs;
    return Math.min(oursMs, upstreamMs, rules.maxAgeEverMs - caching.ageMs, rules.retentionMs);
  };
  const status = fetched.status === 304 ? (cached?.status ?? 200) : fetched.status;
  const fixedMs = ttlMs(rules, query, status);
  const observation = before && {
    sinceMs: bornAt - before.entry.bornAt,
    hasChanged: before.wasPurged || change === "changed",
    requests: before.requests,
  };
  // Lifetimes of 404s and 400s are not learned.
  const { lifetimeMs, rates } =
    status === 200
      ? lifetimes.of({ ttlMs: fixedMs, bound, known: before?.entry.rates, observation })
      : { lifetimeMs: bound(fixedMs), rates: undefined };
  const entry = entryFrom(arrived, change, {
    purgeEpoch,
    // A version stored before may be from a clock that was ahead. The stores would then keep it, even if it was purged.
    storedAt: Math.max(now, (before?.entry.storedAt ?? 0) + 1),
    bornAt,
    freshUntil: now + lifetimeMs,
    keepUntil: now + rules.retentionMs,
    rates,
    served: { count: 0 },
    upstreamStale: rules.honourUpstream
      ? { whileRevalidateMs: caching.staleWhileRevalidateMs, ifErrorMs: caching.staleIfErrorMs }
      : {},
  });
  return { entry, mayStore: caching.mayStore || !rules.honourUpstream, change };
}

/** An answer with the same meaning renews the cached entry. The body and its ETag stay, so that callers still get 304. */
function entryFrom({ query, fetched, cached }: Arrived, change: Change | undefined, receipt: Receipt): Entry {
  if (fetched.status !== 304) {
    return cached !== undefined && change === "unchanged"
      ? { ...cached, validators: fetched.validators, ...receipt }
      : entryOf(query, fetched, receipt);
  }
  if (cached === undefined)
    throw new Problem("upstream-invalid-response", { internal: "a 304, and nothing is cached" });
  // A 304 need not repeat the validators (RFC 9111, section 4.3.4).
  const { etag = cached.validators.etag, lastModified = cached.validators.lastModified } = fetched.validators;
  return { ...cached, validators: { ...fetched.validators, etag, lastModified }, ...receipt };
}

/** @returns `undefined` if nothing was cached before */
async function changeIn({ fetched, cached }: Arrived): Promise<Change | undefined> {
  if (cached === undefined) return undefined;
  if (fetched.status === 304) return "not-modified";
  if (cached.status !== fetched.status || cached.contentType !== fetched.contentType) return "changed";
  const before = await transcode(cached, "identity");
  return sameMeaning(fetched.contentType, before, fetched.body) ? "unchanged" : "changed";
}
