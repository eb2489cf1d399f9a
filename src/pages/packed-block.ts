/**
 * Packs blocks for the memory tier: compresses each one in several zstd frames. To cut a page, the gateway decompresses only
 * the frames that contain its records.
 */
import { setImmediate } from "node:timers/promises";
import { zstdCompressSync, zstdDecompressSync } from "node:zlib";

import { inOwnMemory } from "../process/buffer-memory.ts";
import type { PackedBody } from "../cache/entry.ts";
import type { BlockIndex } from "./block-index.ts";
import type { Bytes } from "./cut-page.ts";

/** How many bytes of a block a frame contains. Smaller frames compress less. Larger frames contain more unneeded records. */
const FRAME_BYTES = 16 * 1024;
/** Compressing this many frames takes about 0.3 ms. Then other requests get a turn. */
const FRAMES_PER_TURN = 8;

/** Packs a block. It compresses synchronously, because a thread takes several times as long for such a short frame. */
export async function packBlock(body: Buffer, { starts, ends, inside }: BlockIndex): Promise<PackedBody> {
  const frames: Buffer[] = [];
  const framesAt = [0];
  let zstdBytes = 0;
  for (let at = 0; at < body.length; at += FRAME_BYTES) {
    if (frames.length % FRAMES_PER_TURN === 0) await setImmediate();
    const part = body.subarray(at, at + FRAME_BYTES);
    // A frame with its size in the header needs less memory when it is decompressed. A compressed frame usually fits into one
    // chunk of this size. Node's default chunk is four times as large, and leaves that much more garbage.
    const options = { pledgedSrcSize: part.length, chunkSize: FRAME_BYTES / 4 };
    const frame = zstdCompressSync(part, options);
    frames.push(frame);
    zstdBytes += frame.length;
    framesAt.push(zstdBytes);
  }
  const head = body.subarray(0, starts[0] ?? inside.start);
  const tail = body.subarray(ends.at(-1) ?? inside.end);
  const all = inOwnMemory(Buffer.concat([...frames, head, tail]));
  const tailAt = zstdBytes + head.length;
  return {
    zstd: all.subarray(0, zstdBytes),
    framesAt: Uint32Array.from(framesAt),
    head: all.subarray(zstdBytes, tailAt),
    tail: all.subarray(tailAt),
  };
}

/**
 * @param length the length of the block
 * @returns the bytes of a packed block. `copy` decompresses only the frames that contain the copied bytes
 */
export function bytesIn({ zstd, framesAt, head, tail }: PackedBody, length: number): Bytes {
  const tailAt = length - tail.length;
  return {
    length,
    copy(target, targetStart, start, end) {
      if (end <= head.length) return head.copy(target, targetStart, start, end);
      if (start >= tailAt) return tail.copy(target, targetStart, start - tailAt, end - tailAt);
      const next = Math.ceil(end / FRAME_BYTES);
      let copied = 0;
      for (let frame = Math.floor(start / FRAME_BYTES); frame < next;) {
        // At least two frames, because Node takes smaller buffers from its pool, whose memory cannot be freed below. One byte
        // more than the result, so that zlib does not begin a second chunk.
        const chunkSize = Math.max(next - frame, 2) * FRAME_BYTES + 1;
        const bytes = zstdDecompressSync(zstd.subarray(framesAt[frame], framesAt[next]), { chunkSize });
        const offset = frame * FRAME_BYTES;
        copied += bytes.copy(target, targetStart + copied, Math.max(0, start - offset), end - offset);
        // Node 24 stops after the first frame. Later versions decompress all of them.
        frame += Math.ceil(bytes.length / FRAME_BYTES);
        // Free the memory now. Otherwise, the garbage collector runs so often that a page takes a third more CPU time.
        if (bytes.buffer.byteLength === chunkSize) bytes.buffer.transfer(0);
      }
      return copied;
    },
  };
}
