import { hash } from "node:crypto";

import type { ContentCoding, Entry, FetchedAnswer, ChangeRate, Validators } from "../types.ts";
import type { Query } from "../query/query.ts";

/** How an answer was come by, and what was made of that. */
export interface Receipt {
  /** When it was received, epoch milliseconds. */
  readonly now: number;
  /** How old it was by then, in milliseconds. */
  readonly ageMs: number;
  /** How long it took to come, in milliseconds. */
  readonly fetchMs: number;
  /** How long it is fresh, in milliseconds. */
  readonly lifetimeMs: number;
  /** How long it is kept, in milliseconds. */
  readonly retentionMs: number;
  /** The latest purge known when the fetch began. */
  readonly purgeEpoch: number;
  readonly changeRate: ChangeRate;
  readonly upstreamStale: Entry["upstreamStale"];
}

/** Makes the entry of an answer. */
export function entryOf(query: Query, fetched: FetchedAnswer, receipt: Receipt): Entry {
  const { status, contentType, body, validators } = fetched;
  return {
    status,
    contentType,
    bodies: { identity: body },
    bodyBytes: body.length,
    etag: hash("sha256", body, "base64url").slice(0, 22),
    validators,
    tags: tagsOf(query, fetched.recordIds),
    ...received(receipt),
  };
}

/**
 * The entry of an answer that says the same as the one cached: its body stays, and with it its validator, so
 * that callers go on being told that nothing has changed.
 */
export function confirmed(cached: Entry, validators: Validators, receipt: Receipt): Entry {
  return { ...cached, validators, ...received(receipt) };
}

function received({
  now,
  ageMs,
  fetchMs,
  lifetimeMs,
  retentionMs,
  purgeEpoch,
  changeRate,
  upstreamStale,
}: Receipt): Pick<
  Entry,
  | "purgeEpoch"
  | "storedAt"
  | "bornAt"
  | "fetchMs"
  | "freshUntil"
  | "keepUntil"
  | "changeRate"
  | "upstreamStale"
> {
  return {
    purgeEpoch,
    storedAt: now,
    bornAt: now - ageMs,
    fetchMs,
    freshUntil: now + Math.min(lifetimeMs, retentionMs),
    keepUntil: now + retentionMs,
    changeRate,
    upstreamStale,
  };
}

/** What an answer is about: the areas asked for, and every record or area in it. */
function tagsOf(query: Query, recordIds: readonly string[]): string[] {
  const kind = query.resource === "areas" ? "area" : "record";
  const tags = recordIds.map((id) => `${kind}:${id}`);
  if (query.kind !== "search") return [`record:${query.serviceId}`];
  for (const [name, value] of query.filters) {
    if (name === "areaId") tags.push(...value.split(",").map((id) => `area:${id}`));
  }
  return tags;
}

/** The same entry with its body in one coding more. */
export function withBody(entry: Entry, coding: ContentCoding, body: Buffer): Entry {
  return { ...entry, bodies: { ...entry.bodies, [coding]: body } };
}

/** What an entry weighs besides its bodies: the object, its headers, its place in the index. A guess on the safe side. */
const ENTRY_OVERHEAD_BYTES = 512;
const TAG_BYTES = 48;

/** Bytes an entry occupies under its key. */
export function sizeOf(key: string, entry: Entry): number {
  let bytes = ENTRY_OVERHEAD_BYTES + key.length * 2 + entry.tags.length * TAG_BYTES;
  for (const body of Object.values(entry.bodies)) bytes += body.length;
  return bytes;
}
