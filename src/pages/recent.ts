/**
 * A least-recently-used cache with a limit in bytes, for decompressed blocks and derived results. Creating such a value takes
 * many times as long as cutting a page, and it is often needed again soon.
 */
export interface Recent<K, V> {
  readonly find: (key: K) => V | undefined;
  readonly keep: (key: K, value: V) => void;
}

export function createRecent<K, V>(maxBytes: number, bytesOf: (value: V) => number): Recent<K, V> {
  const known = new Map<K, V>();
  let size = 0;

  function forget(key: K): void {
    const value = known.get(key);
    if (value !== undefined) size -= bytesOf(value);
    known.delete(key);
  }
  function keep(key: K, value: V): void {
    forget(key);
    known.set(key, value);
    size += bytesOf(value);
    for (const oldest of known.keys()) {
      if (size <= maxBytes) break;
      forget(oldest);
    }
  }

  return {
    keep,
    find(key) {
      const value = known.get(key);
      // The order of the map is the order of use.
      if (value !== undefined) keep(key, value);
      return value;
    },
  };
}
