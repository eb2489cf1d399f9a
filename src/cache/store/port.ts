/**
 * The port of storage: a store behind the memory of this process, shared (Redis) or durable (SQLite). Each store passes
 * test/contract/store-contract.ts.
 */
import type { Entry } from "../entry.ts";
import type { Tier, WhyNotStored } from "../../telemetry/events.ts";
import type { Purge, PurgeScope } from "./purge-marks.ts";

/**
 * Keeps entries and purges. Keys come from `cacheKey` (src/query/key.ts). A store that does not work rejects with
 * `StoreUnavailable` and with nothing else.
 */
export interface Store {
  readonly tier: Tier;
  /** The entry of a key, fresh or stale; `undefined` if there is none that is usable. */
  readonly get: (key: string) => Promise<Entry | undefined>;
  /** Keeps an entry unless it is too large or a newer one is stored; the stored one then stays. */
  readonly set: (key: string, entry: Entry) => Promise<true | WhyNotStored>;
  readonly remove: (key: string) => Promise<void>;
  /** Declares entries out of date, in every replica. */
  readonly purge: (scope: PurgeScope, hard: boolean) => Promise<Purge>;
  /** Reports events, past purges first. Call it once, before anything else. */
  readonly onEvent: (listener: (event: StoreEvent) => void) => void;
  /** The contents of the store, as far as this process knows; `undefined` if it does not know them. */
  readonly stats: () => StoreStats | undefined;
}

export interface StoreStats {
  readonly entries: number;
  readonly bytes: number;
  /** Entries removed to make room, since the start. */
  readonly evictions: number;
}

/** Something that happened in another replica, or before this process started. */
export type StoreEvent =
  /** An entry was stored: an older one under the key is out of date. */
  | { readonly kind: "stored"; readonly key: string; readonly storedAt: number }
  | { readonly kind: "purged"; readonly purges: readonly Purge[] }
  /** Events may have been lost; later ones arrive again. */
  | { readonly kind: "gap" };
