import { hash } from "node:crypto";

import type { ContentCoding, Entry, FetchedAnswer, PackedBody, Validators } from "../types.ts";
import { inOwnMemory } from "../own-memory.ts";
import type { Query } from "../query/query.ts";

/** When and how an answer was received, and its lifetimes. */
export interface Receipt {
  /** When it was received; epoch milliseconds. */
  readonly now: number;
  /** How old it was then, in milliseconds. */
  readonly ageMs: number;
  /** How long the fetch took, in milliseconds. */
  readonly fetchMs: number;
  /** How long it is fresh, in milliseconds. */
  readonly lifetimeMs: number;
  /** How long it is kept, in milliseconds. */
  readonly retentionMs: number;
  /** The latest purge known when the call was sent. */
  readonly purgeEpoch: number;
  readonly upstreamStale: Entry["upstreamStale"];
}

/** Creates the entry of an answer. */
export function entryOf(query: Query, fetched: FetchedAnswer, receipt: Receipt): Entry {
  const { status, contentType, body, validators, page } = fetched;
  return {
    status,
    contentType,
    bodies: { identity: inOwnMemory(body) },
    bodyBytes: body.length,
    etag: hash("sha256", body, "base64url").slice(0, 22),
    validators,
    tags: tagsOf(query, fetched.recordIds),
    ...(page && { page }),
    ...received(receipt),
  };
}

/**
 * Renews the cached entry after an answer with the same meaning. The body and its ETag stay, so that callers still
 * get 304.
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
  upstreamStale,
}: Receipt): Pick<
  Entry,
  "purgeEpoch" | "storedAt" | "bornAt" | "fetchMs" | "freshUntil" | "keepUntil" | "upstreamStale"
> {
  return {
    purgeEpoch,
    storedAt: now,
    bornAt: now - ageMs,
    fetchMs,
    freshUntil: now + Math.min(lifetimeMs, retentionMs),
    keepUntil: now + retentionMs,
    upstreamStale,
  };
}

/** The tags of an answer: the areas in the query, and every record or area in the answer. */
function tagsOf(query: Query, recordIds: readonly string[]): string[] {
  const kind = query.resource === "areas" ? "area" : "record";
  const tags = recordIds.map((id) => `${kind}:${id}`);
  if (query.kind !== "search") return [`record:${query.serviceId}`];
  for (const [name, value] of query.filters) {
    if (name === "areaId") tags.push(...value.split(",").map((id) => `area:${id}`));
  }
  return tags;
}

/** Adds the body in one more coding. */
export function withBody(entry: Entry, coding: ContentCoding, body: Buffer): Entry {
  return { ...entry, bodies: { ...entry.bodies, [coding]: body } };
}

/** The size of an entry besides its bodies and tags, estimated generously (docs/performance.md shows the measurement). */
const ENTRY_OVERHEAD_BYTES = 1_024;
/** The response heads that memory keeps ready for a body (src/http/answer-head.ts). */
const HEADS_BYTES = 1_024;
const TAG_BYTES = 48;

/** The size of an entry under its key, in bytes. */
export function sizeOf(key: string, entry: Entry): number {
  let bytes = ENTRY_OVERHEAD_BYTES + key.length * 2 + entry.tags.length * TAG_BYTES;
  const { packed, ...codings } = entry.bodies;
  for (const body of Object.values(codings)) bytes += HEADS_BYTES + body.length;
  return packed === undefined ? bytes : bytes + HEADS_BYTES + sizeOfPacked(packed);
}

function sizeOfPacked({ zstd, framesAt, head, tail }: PackedBody): number {
  return zstd.length + framesAt.byteLength + head.length + tail.length;
}
