import { hash } from "node:crypto";

import type { ContentCoding, Entry, Fetched } from "../exchange.ts";
import type { Query } from "../query/query.ts";

export interface EntryTimes {
  /** When the answer was received, epoch milliseconds. */
  readonly now: number;
  /** How long it is fresh, in milliseconds. */
  readonly lifetimeMs: number;
  /** How long it is kept, in milliseconds; not shorter than it is fresh. */
  readonly retentionMs: number;
  /** The latest purge known when the fetch began. */
  readonly purgeEpoch: number;
}

/** Makes the entry of an answer. */
export function entryOf(query: Query, fetched: Fetched, times: EntryTimes): Entry {
  const { status, contentType, body, lastModified } = fetched;
  const { now, lifetimeMs, retentionMs, purgeEpoch } = times;
  return {
    status,
    contentType,
    bodies: { identity: body },
    bodyBytes: body.length,
    etag: hash("sha256", body, "base64url").slice(0, 22),
    lastModified,
    tags: tagsOf(query, fetched.recordIds),
    purgeEpoch,
    storedAt: now,
    freshUntil: now + lifetimeMs,
    keepUntil: now + Math.max(lifetimeMs, retentionMs),
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
