/**
 * Encodes bodies in the coding that a caller accepts: once per entry and coding, not once per response.
 */
import { promisify } from "node:util";
import { brotliCompress, constants, gzip, zstdCompress, zstdDecompressSync } from "node:zlib";

import { inOwnMemory } from "../process/buffer-memory.ts";
import { createJobs } from "../process/jobs.ts";
import type { ContentCoding } from "../content-codings.ts";
import type { Entry, PackedBody } from "./entry.ts";
import type { Tiers } from "./store/tiered.ts";

/** Below this size, compression saves less than its header costs. */
const MIN_COMPRESSIBLE_BYTES = 1024;

/** Whether compressing an entry's body is worth it. Images are already compressed. */
export function isCompressible(entry: Entry): boolean {
  return entry.bodyBytes >= MIN_COMPRESSIBLE_BYTES && !entry.contentType.startsWith("image/");
}

/** Brotli's default quality, 11, takes seconds for a large body; 5 is within a few percent of its size. */
const BROTLI_QUALITY = 5;

const COMPRESS: Record<ContentCoding, (body: Buffer) => Promise<Buffer>> = {
  identity: async (body) => body,
  gzip: promisify(gzip),
  br: (body) =>
    promisify(brotliCompress)(body, { params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY } }),
  zstd: promisify(zstdCompress),
};

/** The smallest chunk size that zlib accepts. */
const SMALLEST_CHUNK = 64;

/** @returns an entry's body in a coding, converted from a coding that the entry has. The result is not kept. */
export async function transcode(entry: Entry, coding: ContentCoding): Promise<Buffer> {
  return entry.bodies[coding] ?? (await COMPRESS[coding](decoded(entry)));
}

/**
 * Every entry has one of these bodies: the received one, the stored one, or the packed one. Decompresses synchronously: for a
 * block of 500 records that takes a fraction of a millisecond, and a thread needs three times as much CPU time.
 */
function decoded({ bodies: { identity, packed, zstd }, bodyBytes }: Entry): Buffer {
  if (identity !== undefined) return identity;
  if (packed !== undefined) return unpacked(packed, bodyBytes);
  if (zstd === undefined) throw new Error("An entry has no body.");
  // One chunk, one byte larger than the result, so that zlib does not begin a second one. A larger result is an error.
  const chunkSize = Math.max(SMALLEST_CHUNK, bodyBytes + 1);
  return zstdDecompressSync(zstd, { chunkSize, maxOutputLength: Math.max(1, bodyBytes) });
}

/** Decompresses the frames one by one: Node 24 ignores all frames after the first if the chunk has room for more. */
function unpacked({ zstd, framesAt }: PackedBody, bodyBytes: number): Buffer {
  const frames: Buffer[] = [];
  for (let frame = 1; frame < framesAt.length; frame++)
    frames.push(zstdDecompressSync(zstd.subarray(framesAt[frame - 1], framesAt[frame])));
  return Buffer.concat(frames, bodyBytes);
}

export type Encode = ReturnType<typeof createEncoder>;

/**
 * How many bodies are compressed at once: half of Node's threads. The other threads look up names and read files, which
 * calls to the upstream wait for.
 */
const ENCODINGS_AT_ONCE = 2;
/** How many compressions may wait. Each one takes about 10 ms for a block. */
const WAITING_ENCODINGS = 64;

/** @returns a function that encodes an entry's body at most once per coding and keeps it with the entry */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createEncoder(keepInMemory: Tiers["keepInMemory"]) {
  const compressions = createJobs<Buffer>(ENCODINGS_AT_ONCE);

  /**
   * @param isWanted whether the caller still waits for the body
   * @returns an entry's body in a coding; uncompressed if too many other bodies wait to be compressed. Rejects with
   *   `JobDropped` if no caller waits for the body any more.
   */
  return async function encode(
    key: string,
    entry: Entry,
    wanted: ContentCoding,
    isWanted: () => boolean,
  ): Promise<{ body: Buffer; coding: ContentCoding }> {
    const isTooBusy = compressions.waiting() >= WAITING_ENCODINGS;
    const coding = entry.bodies[wanted] === undefined && isTooBusy ? "identity" : wanted;
    const cached = entry.bodies[coding];
    if (cached !== undefined) return { body: cached, coding };
    const convert = async (): Promise<Buffer> => {
      const body = inOwnMemory(await transcode(entry, coding));
      keepInMemory(key, entry, (bodies) => ({ ...bodies, [coding]: body }));
      return body;
    };
    if (coding === "identity") return { body: await convert(), coding };
    const job = `${coding} ${entry.storedAt} ${entry.etag} ${key}`;
    return { body: await compressions.run(job, isWanted, convert), coding };
  };
}
