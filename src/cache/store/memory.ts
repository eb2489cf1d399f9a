import { LRUCache } from "lru-cache";

import type { WhyNotStored } from "../../telemetry/events.ts";
import type { Clock } from "../../process/clock.ts";
import { isUsable, sizeOf, type Entry } from "../entry.ts";
import type { StoreStats } from "./port.ts";

/** Entries in the memory of this process. */
export type MemoryStore = ReturnType<typeof createMemoryStore>;

const SWEEP_EVERY_MS = 60_000;

/**
 * The least recently used entries are evicted first.
 * @param maxBytes the limit for all entries; one entry may take an eighth of it
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createMemoryStore(maxBytes: number, clock: Clock) {
  let evictions = 0;
  let sweptAt = 0;
  // One very large entry must not evict all others.
  const maxEntryBytes = Math.ceil(maxBytes / 8);
  const entries = new LRUCache<string, Entry>({
    maxSize: maxBytes,
    sizeCalculation: (entry, key) => sizeOf(key, entry),
    dispose: (_entry, _key, reason) => {
      if (reason === "evict") evictions++;
    },
  });

  return {
    tier: "memory" as const,
    /** The entry of a key, if it is usable. @param now epoch milliseconds, if the caller knows them */
    find: (key: string, now = clock.now()): Entry | undefined => {
      const entry = entries.get(key);
      if (entry === undefined || isUsable(entry, now)) return entry;
      entries.delete(key);
      return undefined;
    },
    /** Keeps an entry unless it is too large or a newer one is stored; the stored one then stays. */
    put: (key: string, entry: Entry): true | WhyNotStored => {
      if ((entries.peek(key)?.storedAt ?? 0) > entry.storedAt) return "newer-stored";
      // In this case lru-cache would remove the stored entry.
      if (sizeOf(key, entry) > maxEntryBytes) return "too-large";
      entries.set(key, entry);
      return true;
    },
    drop: (key: string): void => void entries.delete(key),
    /** Counts the entries. Drops those past their `keepUntil` before that, at most once a minute. */
    stats: (): StoreStats => {
      const now = clock.now();
      if (Math.abs(now - sweptAt) >= SWEEP_EVERY_MS) {
        sweptAt = now;
        for (const [key, { keepUntil }] of entries.entries()) if (keepUntil <= now) entries.delete(key);
      }
      return { entries: entries.size, bytes: entries.calculatedSize, evictions };
    },
  };
}
