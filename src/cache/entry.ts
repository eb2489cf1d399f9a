import { entityTagOf } from "../http-fields.ts";
import type { ContentCoding } from "../content-codings.ts";
import type { Validators } from "../upstream/caching-headers.ts";
import type { ListPage } from "../interface/envelope.ts";
import type { FetchedAnswer } from "../upstream/verdict.ts";
import { inOwnMemory } from "../process/buffer-memory.ts";
import type { Query } from "../query/query.ts";

/** The body of an answer: in at least one coding, or packed. Other codings are added when a caller needs them. */
export type Bodies = Readonly<Partial<Record<ContentCoding, Buffer>>> & {
  readonly packed?: PackedBody;
};

/**
 * A body in several zstd frames, so that a part of it can be decompressed alone. It exists in memory only. Callers, Redis and
 * SQLite get the body in one frame, because some clients stop after the first one.
 */
export interface PackedBody {
  /** The frames, one after the other. Together they decompress to the whole body (RFC 8878, section 3). */
  readonly zstd: Buffer;
  /** Where each frame begins in `zstd`, and where the last one ends. */
  readonly framesAt: Uint32Array;
  /** The bytes before the first record, not compressed. */
  readonly head: Buffer;
  /** The bytes after the last record, not compressed. */
  readonly tail: Buffer;
}

/** The parts of an entry that a later answer with the same meaning renews. Instants are epoch milliseconds. */
export interface Receipt {
  /** The latest purge when the fetch began. Later purges apply to the entry (src/cache/store/purge-marks.ts). */
  readonly purgeEpoch: number;
  /** When the answer arrived, or when the upstream last confirmed it. It is always later than `storedAt` of the version before. */
  readonly storedAt: number;
  /** When the upstream made the answer. `Age` counts from here. */
  readonly bornAt: number;
  readonly freshUntil: number;
  /** How long the upstream allows the entry to be served stale, in milliseconds; absent if it does not say. */
  readonly upstreamStale: {
    readonly whileRevalidateMs?: number | undefined;
    readonly ifErrorMs?: number | undefined;
  };
  /** After this instant the entry can be removed. */
  readonly keepUntil: number;
  /** How often it changes and is asked for; absent until it was fetched a second time. */
  readonly rates?: Rates | undefined;
  /** How often this process has served it. All copies of an entry share this object; the stores do not keep it. */
  readonly served: { count: number };
}

/** The sum of the observations of an answer, stored with the answer. Older observations weigh less. */
export interface Rates {
  /** Changes are estimated, because some are not seen. Requests are counted. */
  readonly changes: number;
  readonly requests: number;
  /** The time in which they occurred, in milliseconds. */
  readonly watchedMs: number;
}

/** A cached answer, or one that could be cached. */
export interface Entry extends Receipt {
  readonly status: 200 | 400 | 404;
  readonly contentType: string;
  readonly bodies: Bodies;
  /** The length of the body without coding. */
  readonly bodyBytes: number;
  /** The strong entity tag of the body without coding (RFC 9110, section 8.8.3), without quotes. */
  readonly etag: string;
  /** The upstream's own validators, for conditional requests. */
  readonly validators: Validators;
  /** Absent if the answer is not a page of a list, or if an older version stored the entry. */
  readonly page?: ListPage | undefined;
  /** What the answer contains, for purging: `area:76`, `record:123`. */
  readonly tags: readonly string[];
}

/** Creates the entry of an answer. */
export function entryOf(query: Query, fetched: FetchedAnswer, receipt: Receipt): Entry {
  const { status, contentType, body, validators, page } = fetched;
  return {
    status,
    contentType,
    bodies: { identity: inOwnMemory(body) },
    bodyBytes: body.length,
    etag: entityTagOf(body),
    validators,
    tags: tagsOf(query, fetched.recordIds),
    ...(page && { page }),
    ...receipt,
  };
}

/** The clocks of replicas may differ by this much, or be corrected by it. */
const CLOCKS_DIFFER_MS = 60_000;

/**
 * Whether an entry can be used, fresh or stale. If the clock was set back after it was stored, its age is unknown, and it would
 * count as newer than every answer that is fetched.
 */
export function isUsable({ storedAt, keepUntil }: Entry, now: number): boolean {
  return now < keepUntil && storedAt <= now + CLOCKS_DIFFER_MS;
}

/** The tags of an answer: the areas in the query, and every record or area in the answer. */
function tagsOf(query: Query, recordIds: readonly string[]): string[] {
  const tags = recordIds.map((id) => (query.resource === "areas" ? `area:${id}` : `record:${id}`));
  if (query.kind !== "search") return [`record:${query.serviceId}`];
  for (const [name, value] of query.filters) {
    if (name === "areaId") tags.push(...value.split(",").map((id) => `area:${id}`));
  }
  return tags;
}

/** The size of an entry besides its bodies and tags, estimated generously (docs/internals/performance.md shows the measurement). */
const ENTRY_OVERHEAD_BYTES = 1_024;
/** The response heads that memory keeps ready for a body (src/http/response-headers.ts). */
const HEADS_BYTES = 1_024;
const TAG_BYTES = 48;

/** The size of an entry under its key, in bytes. */
export function sizeOf(key: string, entry: Entry): number {
  let bytes = ENTRY_OVERHEAD_BYTES + key.length * 2 + entry.tags.length * TAG_BYTES;
  const { packed, ...codings } = entry.bodies;
  for (const body of Object.values(codings)) bytes += HEADS_BYTES + body.length;
  if (packed === undefined) return bytes;
  const { zstd, framesAt, head, tail } = packed;
  return bytes + HEADS_BYTES + zstd.length + framesAt.byteLength + head.length + tail.length;
}
