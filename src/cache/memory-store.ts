import { LRUCache } from "lru-cache";

import type { Entry } from "../exchange.ts";
import { sizeOf } from "./entry.ts";
import { mayReplace } from "./policy.ts";
import type { Store } from "./store.ts";

export interface MemoryStore extends Store {
  /** What is held now. */
  readonly stats: { readonly entries: number; readonly bytes: number };
}

/**
 * Entries in this process' memory, the least recently used ones leaving first.
 * @param maxBytes the bound on everything held; an entry of its own may weigh an eighth of it
 */
export function createMemoryStore(maxBytes: number): MemoryStore {
  // One giant must not empty the cache of everything else.
  const maxEntryBytes = Math.ceil(maxBytes / 8);
  const entries = new LRUCache<string, Entry>({
    maxSize: maxBytes,
    sizeCalculation: (entry, key) => sizeOf(key, entry),
  });

  return {
    get stats() {
      return { entries: entries.size, bytes: entries.calculatedSize };
    },
    get: async (key) => entries.get(key),
    async set(key, entry) {
      if (!mayReplace(entries.peek(key), entry)) return "newer-stored";
      // Not left to lru-cache, which would take the entry that is there away.
      if (sizeOf(key, entry) > maxEntryBytes) return "too-large";
      entries.set(key, entry);
      return true;
    },
  };
}
