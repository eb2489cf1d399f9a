/**
 * Bodies in the coding a caller accepts: made once per entry and kept with it, not made per response.
 */
import { promisify } from "node:util";
import {
  brotliCompress,
  brotliDecompress,
  constants,
  gunzip,
  gzip,
  zstdCompress,
  zstdDecompress,
} from "node:zlib";

import type { ContentCoding, Entry } from "../types.ts";
import { withBody } from "./entry.ts";

/** Below this the headers outweigh what compression saves. */
const MIN_COMPRESSIBLE_BYTES = 1024;

/** Whether compressing an entry's body is worth it: pictures are compressed already. */
export function isCompressible(entry: Entry): boolean {
  return entry.bodyBytes >= MIN_COMPRESSIBLE_BYTES && !entry.contentType.startsWith("image/");
}

/** Brotli's default quality, 11, takes seconds for a large body; 5 is within a few percent of its size. */
const BROTLI_QUALITY = 5;

type Transcode = (body: Buffer) => Promise<Buffer>;

const COMPRESS: Record<ContentCoding, Transcode> = {
  identity: async (body) => body,
  gzip: promisify(gzip),
  br: (body) =>
    promisify(brotliCompress)(body, { params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY } }),
  zstd: promisify(zstdCompress),
};

const DECOMPRESS: Record<ContentCoding, Transcode> = {
  identity: async (body) => body,
  gzip: promisify(gunzip),
  br: promisify(brotliDecompress),
  zstd: promisify(zstdDecompress),
};

/** The codings a body is made from, the cheapest to decode first. */
const SOURCES: readonly ContentCoding[] = ["identity", "zstd", "gzip", "br"];

/** @returns an entry's body in a coding, made from one it is cached in; keeps nothing. */
export async function transcode(entry: Entry, coding: ContentCoding): Promise<Buffer> {
  const cached = entry.bodies[coding];
  if (cached !== undefined) return cached;
  const source = SOURCES.find((candidate) => entry.bodies[candidate] !== undefined) ?? "identity";
  const body = entry.bodies[source] ?? Buffer.alloc(0);
  return await COMPRESS[coding](await DECOMPRESS[source](body));
}

/** @returns the entry as a store behind memory keeps it: with one body, compressed where that is worth it */
export async function inStoredCoding(entry: Entry): Promise<Entry> {
  const coding = isCompressible(entry) ? "zstd" : "identity";
  return { ...entry, bodies: { [coding]: await transcode(entry, coding) } };
}

/** An entry's body in a coding. */
export type Encode = (key: string, entry: Entry, coding: ContentCoding) => Promise<Buffer>;

/** Keeps an entry in this process' memory in place of the same one with fewer bodies. */
export type KeepInMemory = (key: string, replace: (current: Entry) => Entry | undefined) => void;

/** @returns a function that makes an entry's body in a coding at most once and keeps it with the entry. */
export function createEncoder(keepInMemory: KeepInMemory): Encode {
  /** Under way, so that concurrent callers share one. */
  const underWay = new WeakMap<Entry, Map<ContentCoding, Promise<Buffer>>>();

  async function transcodeAndKeep(key: string, entry: Entry, coding: ContentCoding): Promise<Buffer> {
    const body = await transcode(entry, coding);
    keepInMemory(key, (current) => {
      const same = current.storedAt === entry.storedAt && current.etag === entry.etag;
      return same ? withBody(current, coding, body) : undefined;
    });
    return body;
  }

  return async function encode(key, entry, coding) {
    const cached = entry.bodies[coding];
    if (cached !== undefined) return cached;
    let codings = underWay.get(entry);
    if (codings === undefined) underWay.set(entry, (codings = new Map()));
    let promise = codings.get(coding);
    if (promise === undefined) {
      promise = transcodeAndKeep(key, entry, coding);
      codings.set(coding, promise);
    }
    return await promise;
  };
}
