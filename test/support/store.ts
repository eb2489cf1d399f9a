import type { MemoryStore } from "../../src/cache/store/memory.ts";
import type { Store } from "../../src/cache/store/port.ts";

/** A store behind the memory of a process that is kept in memory itself. It has no events. */
export function storeIn(memory: MemoryStore, changes: Partial<Store> = {}): Store {
  return {
    tier: "redis",
    get: async (key) => memory.find(key),
    set: async (key, entry) => memory.put(key, entry),
    remove: async (key) => memory.drop(key),
    purge: async (scope, hard) => ({ epoch: 9, scope, hard }),
    onEvent: () => undefined,
    stats: memory.stats,
    ...changes,
  };
}
