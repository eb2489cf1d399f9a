/**
 * Decides when an entry in this process' memory (L1) may be trusted. An entry leaves memory when another
 * replica has stored a newer one, even if the announcement arrives while the older entry is read from the store.
 */
import type { Entry } from "../../types.ts";
import type { BackendEvent } from "./port.ts";
import type { MemoryStore } from "./memory.ts";

export interface L1 {
  /**
   * The entry in memory. `isConfirmed` is false if a newer one may exist, because events were lost or the entry is
   * not newer than `since`.
   * @param since epoch milliseconds; `undefined`: any entry will do
   * @param now epoch milliseconds
   */
  readonly find: (
    key: string,
    since: number | undefined,
    now: number,
  ) => { readonly entry: Entry; readonly isConfirmed: boolean } | undefined;
  /** Call it before reading the store, and report the result of the read to the returned object. */
  readonly startRead: (key: string) => L1Read;
  readonly onEvent: (event: Exclude<BackendEvent, { kind: "purged" }>) => void;
  /** This process itself stored the entry of a key. */
  readonly confirm: (key: string) => void;
}

/** A read of the store that is in flight. */
interface L1Read {
  /** Keeps the entry in memory unless a newer one was announced meanwhile. */
  readonly found: (entry: Entry) => void;
  /** Nothing was found, or the store is out of order. */
  readonly end: () => void;
}

interface ReadInFlight {
  readers: number;
  /** When the newest entry announced since the first reader began was stored. */
  announcedAt: number;
}

export function createL1(memory: MemoryStore): L1 {
  const reads = new Map<string, ReadInFlight>();
  /** Keys in memory for which the announcement of a newer entry may have been lost. */
  let unconfirmed = new Set<string>();

  function onStored(key: string, storedAt: number): void {
    const read = reads.get(key);
    if (read !== undefined) read.announcedAt = Math.max(read.announcedAt, storedAt);
    const cached = memory.find(key);
    if (cached !== undefined && cached.storedAt < storedAt) void memory.remove(key);
  }

  function onGap(): void {
    unconfirmed = new Set(memory.keys());
    for (const read of reads.values()) read.announcedAt = Number.POSITIVE_INFINITY;
  }

  return {
    find(key, since = Number.NEGATIVE_INFINITY, now) {
      const entry = memory.find(key, now);
      return entry && { entry, isConfirmed: !unconfirmed.has(key) && entry.storedAt > since };
    },
    startRead(key) {
      const read = reads.get(key) ?? { readers: 0, announcedAt: 0 };
      reads.set(key, read);
      read.readers++;
      const end = (): void => {
        if (--read.readers === 0) reads.delete(key);
      };
      return {
        end,
        found(entry) {
          end();
          if (entry.storedAt < read.announcedAt) return;
          unconfirmed.delete(key);
          memory.put(key, entry);
        },
      };
    },
    onEvent(event) {
      if (event.kind === "stored") onStored(event.key, event.storedAt);
      else onGap();
    },
    confirm: (key) => void unconfirmed.delete(key),
  };
}
