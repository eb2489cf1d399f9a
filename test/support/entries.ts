import { zstdCompressSync } from "node:zlib";

import { entryOf, type Receipt, type Entry, type PackedBody } from "../../src/cache/entry.ts";
import type { CachingHeaders } from "../../src/upstream/caching-headers.ts";
import type { FetchedAnswer } from "../../src/upstream/verdict.ts";
import { cacheKey } from "../../src/query/key.ts";

/** Where the tests' clocks begin. */
const START = Date.UTC(2026, 0, 15, 12);

/** A key like those the gateway makes. */
export const keyOf = (text: string): string => cacheKey("json", text);

/** What an upstream says of how its answer may be used that says nothing of it. */
export const NO_CACHING_HEADERS: CachingHeaders = {
  mayStore: true,
  ageMs: 0,
  freshForMs: undefined,
  staleWhileRevalidateMs: undefined,
  staleIfErrorMs: undefined,
};

/** An answer of an upstream that says nothing of it: an empty JSON object where nothing else is given. */
export function fetchedWith(changes: Partial<FetchedAnswer> = {}): FetchedAnswer {
  return {
    status: 200,
    contentType: "application/json",
    body: Buffer.from("{}"),
    validators: { etag: undefined, lastModified: undefined },
    caching: NO_CACHING_HEADERS,
    recordIds: [],
    ...changes,
  };
}

/** How an answer was come by: at once, fresh for a minute and kept for an hour. */
export function receiptAt(storedAt = START): Receipt {
  return {
    purgeEpoch: 0,
    storedAt,
    bornAt: storedAt,
    freshUntil: storedAt + 60_000,
    keepUntil: storedAt + 3_600_000,
    upstreamStale: {},
    rates: undefined,
    served: { count: 0 },
  };
}

/** An entry with a body, stored at an instant, fresh for a minute and kept for an hour. */
export function entryWith(body: Buffer | string, storedAt = START, changes: Partial<Entry> = {}): Entry {
  const query = { kind: "record", resource: "sold", serviceId: "4711", extras: [] } as const;
  const answer = fetchedWith({ body: Buffer.from(body) });
  return { ...entryOf(query, answer, receiptAt(storedAt)), ...changes };
}

/** A body in two frames. */
export function inFrames(body: Buffer): PackedBody {
  const middle = Math.floor(body.length / 2);
  const frames = [body.subarray(0, middle), body.subarray(middle)].map((part) => zstdCompressSync(part));
  const zstd = Buffer.concat(frames);
  const framesAt = Uint32Array.from([0, frames[0]?.length ?? 0, zstd.length]);
  return { zstd, framesAt, head: body.subarray(0, 1), tail: body.subarray(-1) };
}
