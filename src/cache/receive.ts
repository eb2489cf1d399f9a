/**
 * What becomes of what was fetched: the entry to keep, and what it says of how the answer changes.
 */
import { Problem } from "../errors.ts";
import type { Change, Entry, Fetched, FetchedAnswer, ShadowEffect } from "../types.ts";
import type { Query } from "../query/query.ts";
import { transcode } from "./encoder.ts";
import { confirmed, entryOf, type Receipt } from "./entry.ts";
import { type CacheRules, freshnessLifetimeMs, paceBounds, pacedLifetimeMs } from "./freshness.ts";
import { learn, UNSEEN } from "./change-rate.ts";
import { sameMeaning } from "./same-meaning.ts";

export interface Received {
  readonly entry: Entry;
  /** Whether the upstream allows that it is kept. */
  readonly mayStore: boolean;
  /** Absent where nothing was held before. */
  readonly change: Change | undefined;
  readonly shadow: ShadowEffect | undefined;
}

/**
 * @param held what was held before, fresh or not
 * @throws {Problem} `upstream-invalid-response` where nothing is held that a 304 could confirm, or the answer is
 *   older than any may be
 */
export async function receive(
  query: Query,
  fetched: Fetched,
  held: Entry | undefined,
  { now, fetchMs, purgeEpoch }: Pick<Receipt, "now" | "fetchMs" | "purgeEpoch">,
  rules: CacheRules,
): Promise<Received> {
  if (fetched.terms.ageMs > rules.maxAgeEverMs)
    throw new Problem("upstream-invalid-response", { internal: "the answer is older than cache.maxAgeEver" });
  const change = held && (await changeIn(held, fetched));
  const seen = held === undefined ? UNSEEN : learnt(held, change !== "changed", rules, query, now);
  const shadow = held && rules.adaptiveTtl === "shadow" ? shadowEffect(held, change, now) : undefined;
  const isSpared = shadow === "saved" || shadow === "outdated";
  const shadowUntil = isSpared ? held?.pace.shadowUntil : now + pacedLifetimeMs(rules, query, seen, now);
  const pace = rules.adaptiveTtl === "shadow" && shadowUntil !== undefined ? { ...seen, shadowUntil } : seen;

  const status = fetched.status === 304 ? (held?.status ?? 200) : fetched.status;
  const { terms } = fetched;
  const receipt: Receipt = {
    now,
    fetchMs,
    purgeEpoch,
    ageMs: terms.ageMs,
    lifetimeMs: freshnessLifetimeMs(rules, query, { status, terms }, pace, now),
    retentionMs: rules.retentionMs,
    pace,
    upstreamStale: rules.honourUpstream
      ? { whileRevalidateMs: terms.staleWhileRevalidateMs, ifErrorMs: terms.staleIfErrorMs }
      : {},
  };
  const mayStore = terms.mayStore || !rules.honourUpstream;
  return { entry: entryFrom(query, fetched, held, change, receipt), mayStore, change, shadow };
}

function entryFrom(
  query: Query,
  fetched: Fetched,
  held: Entry | undefined,
  change: Change | undefined,
  receipt: Receipt,
): Entry {
  if (fetched.status !== 304)
    return held !== undefined && change === "unchanged"
      ? confirmed(held, fetched.validators, receipt)
      : entryOf(query, fetched, receipt);
  if (held === undefined)
    throw new Problem("upstream-invalid-response", { internal: "a 304, and nothing is held" });
  // What it does not say again still holds (RFC 9111, section 4.3.4).
  const { etag, lastModified } = fetched.validators;
  const validators = {
    etag: etag ?? held.validators.etag,
    lastModified: lastModified ?? held.validators.lastModified,
  };
  return confirmed(held, validators, receipt);
}

async function changeIn(held: Entry, fetched: Fetched): Promise<Change> {
  if (fetched.status === 304) return "not-modified";
  return (await isSame(held, fetched)) ? "unchanged" : "changed";
}

async function isSame(held: Entry, { status, contentType, body }: FetchedAnswer): Promise<boolean> {
  if (held.status !== status || held.contentType !== contentType) return false;
  return sameMeaning(contentType, await transcode(held, "identity"), body);
}

function learnt(
  held: Entry,
  isSameAsBefore: boolean,
  rules: CacheRules,
  query: Query,
  now: number,
): Entry["pace"] {
  return learn(held.pace, !isSameAsBefore, now - held.storedAt, paceBounds(rules, query));
}

function shadowEffect(held: Entry, change: Change | undefined, now: number): ShadowEffect | undefined {
  const { shadowUntil } = held.pace;
  if (shadowUntil === undefined) return undefined;
  if (now < shadowUntil) return change === "changed" ? "outdated" : "saved";
  return shadowUntil < held.freshUntil ? "extra" : undefined;
}
