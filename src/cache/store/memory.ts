import { LRUCache } from "lru-cache";

import type { Entry, WhyNotStored } from "../../types.ts";
import type { Clock } from "../../process/clock.ts";
import { sizeOf } from "../entry.ts";
import { mayReplace } from "../policy.ts";
import { MAX_BODY_BYTES, type Store, type StoreStats } from "./port.ts";

export interface MemoryStore extends Store {
  /** Like `get`, synchronously. @param now epoch milliseconds, if the caller knows them */
  readonly find: (key: string, now?: number) => Entry | undefined;
  /** Like `set`, synchronously. */
  readonly put: (key: string, entry: Entry) => true | WhyNotStored;
  readonly keys: () => Iterable<string>;
  /** Counts entries without marking them as used. */
  readonly count: (isCounted: (key: string, entry: Entry) => boolean) => number;
  readonly stats: () => StoreStats;
}

/**
 * Entries in the memory of this process; the least recently used ones are evicted first.
 * @param maxBytes the limit for all entries; one entry may take an eighth of it
 */
export function createMemoryStore(maxBytes: number, clock: Clock): MemoryStore {
  let evictions = 0;
  // One very large entry must not evict all others.
  const maxEntryBytes = Math.ceil(maxBytes / 8);
  const entries = new LRUCache<string, Entry>({
    maxSize: maxBytes,
    sizeCalculation: (entry, key) => sizeOf(key, entry),
    dispose: (_entry, _key, reason) => {
      if (reason === "evict") evictions++;
    },
  });

  function alive(key: string, entry: Entry | undefined, now = clock.now()): Entry | undefined {
    if (entry === undefined || now < entry.keepUntil) return entry;
    entries.delete(key);
    return undefined;
  }

  const find: MemoryStore["find"] = (key, now) => alive(key, entries.get(key), now);
  function put(key: string, entry: Entry): true | WhyNotStored {
    if (entry.bodyBytes > MAX_BODY_BYTES) return "too-large";
    if (!mayReplace(entries.peek(key), entry)) return "newer-stored";
    // In this case lru-cache would remove the stored entry.
    if (sizeOf(key, entry) > maxEntryBytes) return "too-large";
    entries.set(key, entry);
    return true;
  }

  return {
    tier: "memory",
    stats: () => ({ entries: entries.size, bytes: entries.calculatedSize, evictions }),
    find,
    put,
    keys: () => entries.keys(),
    count(isCounted) {
      let count = 0;
      for (const [key, entry] of entries.entries()) if (isCounted(key, entry)) count++;
      return count;
    },
    get: async (key) => find(key),
    set: async (key, entry) => put(key, entry),
    remove: async (key) => void entries.delete(key),
    async sweep() {
      const now = clock.now();
      for (const [key, { keepUntil }] of entries.entries()) if (keepUntil <= now) entries.delete(key);
    },
    close: async () => entries.clear(),
  };
}
