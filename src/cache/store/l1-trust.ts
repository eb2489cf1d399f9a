/**
 * This process' memory, as far as it can be trusted: what another replica has overtaken leaves it, also
 * when the news arrives while the older entry is still on its way here.
 */
import type { Entry } from "../../types.ts";
import type { BackendEvent } from "./port.ts";
import type { MemoryStore } from "./memory.ts";

export interface Near {
  /**
   * What memory holds, and whether that will do: it may have been overtaken unheard, or not be newer than wanted.
   * @param since epoch milliseconds; absent: whatever was stored when
   */
  readonly find: (
    key: string,
    since?: number,
  ) => { readonly entry: Entry; readonly isConfirmed: boolean } | undefined;
  /** To be called before asking behind; the result takes what came back, or that nothing did. */
  readonly startRead: (key: string) => Read;
  readonly onEvent: (event: Exclude<BackendEvent, { kind: "purged" }>) => void;
  /** The entry of a key was stored by this process itself. */
  readonly confirm: (key: string) => void;
}

/** A question on its way to the store behind. */
interface Read {
  /** Keeps what came back in memory, unless something newer was heard of meanwhile. */
  readonly found: (entry: Entry) => void;
  /** Nothing was found, or nothing could be asked. */
  readonly end: () => void;
}

interface ReadUnderWay {
  readers: number;
  /** Newest entry heard of since the first of the readers asked. */
  overtakenBy: number;
}

export function createNear(memory: MemoryStore): Near {
  const reads = new Map<string, ReadUnderWay>();
  /** Keys in memory that may have been overtaken unheard. */
  let unconfirmed = new Set<string>();

  function onStored(key: string, storedAt: number): void {
    const read = reads.get(key);
    if (read !== undefined) read.overtakenBy = Math.max(read.overtakenBy, storedAt);
    const held = memory.find(key);
    if (held !== undefined && held.storedAt < storedAt) void memory.remove(key);
  }

  function onGap(): void {
    unconfirmed = new Set(memory.keys());
    for (const read of reads.values()) read.overtakenBy = Number.POSITIVE_INFINITY;
  }

  return {
    find(key, since = Number.NEGATIVE_INFINITY) {
      const entry = memory.find(key);
      return entry && { entry, isConfirmed: !unconfirmed.has(key) && entry.storedAt > since };
    },
    startRead(key) {
      const read = reads.get(key) ?? { readers: 0, overtakenBy: 0 };
      reads.set(key, read);
      read.readers++;
      const end = (): void => {
        if (--read.readers === 0) reads.delete(key);
      };
      return {
        end,
        found(entry) {
          end();
          if (entry.storedAt < read.overtakenBy) return;
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
