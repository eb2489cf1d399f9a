/**
 * The bytes of compressed blocks that pages were cut from last. Unpacking takes many times as long as cutting, and
 * whoever walks through a search comes back for the next page.
 */

/** Bytes of blocks that were used last: about thirty of them. */
const UNPACKED_BYTES = 10 * 1024 * 1024;

export interface Unpacked {
  readonly find: (packed: Buffer) => Buffer | undefined;
  readonly keep: (packed: Buffer, bytes: Buffer) => void;
}

export function createUnpacked(): Unpacked {
  const known = new Map<Buffer, Buffer>();
  let size = 0;

  function forget(packed: Buffer): void {
    size -= known.get(packed)?.length ?? 0;
    known.delete(packed);
  }
  function keep(packed: Buffer, bytes: Buffer): void {
    forget(packed);
    known.set(packed, bytes);
    size += bytes.length;
    for (const oldest of known.keys()) {
      if (size <= UNPACKED_BYTES) break;
      forget(oldest);
    }
  }

  return {
    keep,
    find(packed) {
      const bytes = known.get(packed);
      // The order of the map is the order of use.
      if (bytes !== undefined) keep(packed, bytes);
      return bytes;
    },
  };
}
