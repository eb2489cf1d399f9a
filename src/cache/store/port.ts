/**
 * The port of every place where entries are kept. Each implementation passes test/contract/store-contract.ts.
 */
import type { Entry, Tier, WhyNotStored } from "../../types.ts";

/**
 * Where entries are kept. Keys come from `cacheKey` (src/query/key.ts). A store that is out of order
 * rejects with `StoreUnavailable` and with nothing else.
 */
export interface Store {
  readonly tier: Tier;
  /** The entry of a key, fresh or stale; `undefined` where there is none, or it is past its `keepUntil`. */
  readonly get: (key: string) => Promise<Entry | undefined>;
  /** Keeps an entry, unless it is too large or a newer one is there: then what is there stays. */
  readonly set: (key: string, entry: Entry) => Promise<true | WhyNotStored>;
  /** Drops an entry. */
  readonly remove: (key: string) => Promise<void>;
  /** Drops what is past its `keepUntil`, whether or not it is ever asked for again. */
  readonly sweep: () => Promise<void>;
  /** What is held now, as far as this process knows; `undefined` where it cannot tell. */
  readonly stats: () => StoreStats | undefined;
  readonly close: () => Promise<void>;
}

export interface StoreStats {
  readonly entries: number;
  readonly bytes: number;
  /** Entries that left because room was needed, since the start. */
  readonly evictions: number;
}

/** The largest body any store takes, uncoded. */
export const MAX_BODY_BYTES = 16 * 1024 * 1024;

/** To the caller of the gateway this is at most a miss. */
export { StoreUnavailable } from "../../store-unavailable.ts";
