/** A kept buffer may belong to a memory block that is larger by at most this many bytes. */
const MOST_EXTRA_BYTES = 64;

/**
 * Copies a buffer that is a part of a larger memory block, because the part keeps the whole block in memory. The block may be
 * many times as large: zlib returns parts of blocks of 16 KiB, and Node takes short buffers from a pool.
 * @returns the copy, or the buffer itself if its memory block is hardly larger
 */
export function inOwnMemory(bytes: Buffer): Buffer {
  if (bytes.buffer.byteLength - bytes.length <= MOST_EXTRA_BYTES) return bytes;
  return Buffer.from(new Uint8Array(bytes).buffer);
}
