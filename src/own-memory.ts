/** The bytes that a kept buffer may hold beside its own. */
const MOST_EXTRA_BYTES = 64;

/**
 * Copies a buffer that is a small part of a larger memory block. Whoever keeps it would otherwise keep the whole block, which
 * may be many times as large: zlib returns parts of 16 KiB, and Node takes short buffers from a pool.
 */
export function inOwnMemory(bytes: Buffer): Buffer {
  if (bytes.buffer.byteLength - bytes.length <= MOST_EXTRA_BYTES) return bytes;
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}
