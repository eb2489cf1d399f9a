/**
 * Bodies in the coding a caller accepts: made once per entry and kept with it, not made per response.
 */
import { promisify } from "node:util";
import { brotliCompress, constants, gzip, zstdCompress } from "node:zlib";

import type { ContentCoding, Entry } from "../exchange.ts";
import type { Store } from "./store.ts";

/** Below this the headers outweigh what compression saves. */
const MIN_COMPRESSIBLE_BYTES = 1024;

/** Whether compressing an entry's body is worth it: pictures are compressed already. */
export function isCompressible(entry: Entry): boolean {
  return entry.body.length >= MIN_COMPRESSIBLE_BYTES && !entry.contentType.startsWith("image/");
}

/** Brotli's default quality, 11, takes seconds for a large body; 5 is within a few percent of its size. */
const BROTLI_QUALITY = 5;

const COMPRESSORS = {
  gzip: promisify(gzip),
  br: (body: Buffer): Promise<Buffer> =>
    promisify(brotliCompress)(body, { params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY } }),
  zstd: promisify(zstdCompress),
} as const;

/** An entry's body in a coding. */
export type Encode = (
  key: string,
  entry: Entry,
  coding: Exclude<ContentCoding, "identity">,
) => Promise<Buffer>;

/** @returns a function that compresses an entry's body at most once per coding and keeps the result in the store. */
export function createEncoder(store: Store): Encode {
  /** Compressions under way, so that concurrent callers share one. */
  const underWay = new WeakMap<Entry, Map<ContentCoding, Promise<Buffer>>>();

  async function compressAndKeep(
    key: string,
    entry: Entry,
    coding: keyof typeof COMPRESSORS,
  ): Promise<Buffer> {
    const body = await COMPRESSORS[coding](entry.body);
    const current = await store.get(key);
    if (current?.storedAt === entry.storedAt && current.etag === entry.etag) {
      await store.set(key, { ...current, encoded: { ...current.encoded, [coding]: body } });
    }
    return body;
  }

  return async function encode(key, entry, coding) {
    const kept = entry.encoded[coding];
    if (kept !== undefined) return kept;
    let codings = underWay.get(entry);
    if (codings === undefined) underWay.set(entry, (codings = new Map()));
    let promise = codings.get(coding);
    if (promise === undefined) {
      promise = compressAndKeep(key, entry, coding);
      codings.set(coding, promise);
    }
    return await promise;
  };
}
