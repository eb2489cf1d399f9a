/**
 * Turns a fetched answer into an entry.
 */
import { Problem } from "../errors.ts";
import type { Change } from "../telemetry/events.ts";
import type { Fetched, FetchedAnswer } from "../upstream/fetched.ts";
import type { Query } from "../query/query.ts";
import { transcode } from "./encoder.ts";
import { confirmed, entryOf, type Receipt, type Entry } from "./entry.ts";
import { type CacheRules, freshnessLifetimeMs } from "./freshness.ts";
import { sameMeaning } from "./same-meaning.ts";

export interface Received {
  readonly entry: Entry;
  /** Whether the upstream allows storing it. */
  readonly mayStore: boolean;
  /** Absent if nothing was cached before. */
  readonly change: Change | undefined;
}

/**
 * @param cached the entry cached before, fresh or not
 * @throws {Problem} `upstream-invalid-response` for a 304 without a cached entry, or an answer older than
 *   `cache.maxAgeEver`
 */
export async function receive(
  query: Query,
  fetched: Fetched,
  cached: Entry | undefined,
  { now, purgeEpoch }: Pick<Receipt, "now" | "purgeEpoch">,
  rules: CacheRules,
): Promise<Received> {
  if (fetched.caching.ageMs > rules.maxAgeEverMs)
    throw new Problem("upstream-invalid-response", { internal: "the answer is older than cache.maxAgeEver" });
  const change = cached && (await changeIn(cached, fetched));
  const status = fetched.status === 304 ? (cached?.status ?? 200) : fetched.status;
  const { caching } = fetched;
  const receipt: Receipt = {
    now,
    purgeEpoch,
    ageMs: caching.ageMs,
    lifetimeMs: freshnessLifetimeMs(rules, query, { status, caching }),
    retentionMs: rules.retentionMs,
    upstreamStale: rules.honourUpstream
      ? { whileRevalidateMs: caching.staleWhileRevalidateMs, ifErrorMs: caching.staleIfErrorMs }
      : {},
  };
  const mayStore = caching.mayStore || !rules.honourUpstream;
  return { entry: entryFrom(query, fetched, cached, change, receipt), mayStore, change };
}

function entryFrom(
  query: Query,
  fetched: Fetched,
  cached: Entry | undefined,
  change: Change | undefined,
  receipt: Receipt,
): Entry {
  if (fetched.status !== 304)
    return cached !== undefined && change === "unchanged"
      ? confirmed(cached, fetched.validators, receipt)
      : entryOf(query, fetched, receipt);
  if (cached === undefined)
    throw new Problem("upstream-invalid-response", { internal: "a 304, and nothing is cached" });
  // A 304 need not repeat the validators (RFC 9111, section 4.3.4).
  const { etag, lastModified } = fetched.validators;
  const validators = {
    etag: etag ?? cached.validators.etag,
    lastModified: lastModified ?? cached.validators.lastModified,
  };
  return confirmed(cached, validators, receipt);
}

async function changeIn(cached: Entry, fetched: Fetched): Promise<Change> {
  if (fetched.status === 304) return "not-modified";
  return (await isSame(cached, fetched)) ? "unchanged" : "changed";
}

async function isSame(cached: Entry, { status, contentType, body }: FetchedAnswer): Promise<boolean> {
  if (cached.status !== status || cached.contentType !== contentType) return false;
  return sameMeaning(contentType, await transcode(cached, "identity"), body);
}
