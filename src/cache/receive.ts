/**
 * Turns a fetched answer into an entry.
 */
import { Problem } from "../errors.ts";
import type { Change } from "../telemetry/events.ts";
import type { Fetched } from "../upstream/verdict.ts";
import type { Query } from "../query/query.ts";
import { transcode } from "./encoder.ts";
import { entryOf, type Entry, type Receipt } from "./entry.ts";
import { type CacheRules, freshnessLifetimeMs, ttlMs } from "./ttl.ts";
import type { Lifetimes } from "./lifetimes/lifetimes.ts";
import { changesSince, noteChanges } from "./lifetimes/record-changes.ts";
import { sameMeaning } from "./same-meaning.ts";

type Learning = Pick<Lifetimes, "of" | "records">;

/** A fetched answer, and what the gateway knows about its fetch. */
export interface Reception {
  readonly query: Query;
  readonly fetched: Fetched;
  /** When the answer was received; epoch milliseconds. */
  readonly now: number;
  /** The latest purge known when the call was sent. */
  readonly purgeEpoch: number;
  /** The entry cached before, fresh or not, and whether it was purged. */
  readonly cached: Entry | undefined;
  /** The version stored before, even if a hard purge removed it. */
  readonly before: Entry | undefined;
  readonly wasPurged: boolean;
  /** The requests for the cached entry, in all replicas. */
  readonly requests: number;
}

/**
 * @returns the entry, whether the upstream allows storing it, and what has changed if an answer was cached before
 * @throws {Problem} `upstream-invalid-response` for a 304 without a cached entry, or an answer older than
 *   `cache.maxAgeEver`
 */
export async function receive(
  reception: Reception,
  rules: CacheRules,
  lifetimes: Learning,
): Promise<{ entry: Entry; mayStore: boolean; change: Change | undefined }> {
  const { fetched, now, purgeEpoch } = reception;
  const { caching } = fetched;
  if (caching.ageMs > rules.maxAgeEverMs)
    throw new Problem("upstream-invalid-response", { internal: "the answer is older than cache.maxAgeEver" });
  const change = await changeIn(reception, lifetimes.records);
  const { lifetimeMs, rates } = lifetimeOf(reception, change, rules, lifetimes);
  const entry = entryFrom(reception, change, {
    purgeEpoch,
    storedAt: now,
    bornAt: now - caching.ageMs,
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

/** Lifetimes of 404s and 400s are not learned. */
function lifetimeOf(
  { query, fetched, cached, before, now, wasPurged, requests }: Reception,
  change: Change | undefined,
  rules: CacheRules,
  lifetimes: Learning,
): ReturnType<Learning["of"]> {
  const { caching } = fetched;
  const status = fetched.status === 304 ? (cached?.status ?? 200) : fetched.status;
  const bound = (ms: number): number => freshnessLifetimeMs(rules, caching, ms);
  const fixedMs = ttlMs(rules, query, status);
  if (status !== 200) return { lifetimeMs: bound(fixedMs), rates: undefined };
  const own = wasPurged || change === "changed" ? 1 : 0;
  const observation = before && {
    sinceMs: now - caching.ageMs - before.bornAt,
    changes: Math.max(own, changesSince(lifetimes.records, before)),
    requests,
  };
  return lifetimes.of({ ttlMs: fixedMs, bound, known: before?.rates, observation });
}

/** An answer with the same meaning renews the cached entry. The body and its ETag stay, so that callers still get 304. */
function entryFrom(
  { query, fetched, cached }: Reception,
  change: Change | undefined,
  receipt: Receipt,
): Entry {
  if (fetched.status !== 304) {
    return cached !== undefined && change === "unchanged"
      ? { ...cached, validators: fetched.validators, ...receipt }
      : entryOf(query, fetched, receipt);
  }
  if (cached === undefined)
    throw new Problem("upstream-invalid-response", { internal: "a 304, and nothing is cached" });
  // A 304 need not repeat the validators (RFC 9111, section 4.3.4).
  const { etag = cached.validators.etag, lastModified = cached.validators.lastModified } = fetched.validators;
  return { ...cached, validators: { etag, lastModified }, ...receipt };
}

/** @returns `undefined` if nothing was cached before */
async function changeIn(
  { query: { resource }, fetched, cached, now }: Reception,
  records: Learning["records"],
): Promise<Change | undefined> {
  if (cached === undefined) return undefined;
  if (fetched.status === 304) return "not-modified";
  if (cached.status !== fetched.status || cached.contentType !== fetched.contentType) return "changed";
  const before = await transcode(cached, "identity");
  if (sameMeaning(fetched.contentType, before, fetched.body)) return "unchanged";
  if (fetched.status === 200 && resource !== "images")
    await noteChanges(records, resource, cached, before, fetched.body, now);
  return "changed";
}
