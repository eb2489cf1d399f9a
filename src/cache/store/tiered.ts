/**
 * All tiers as one: the memory of this process (L1) in front of a shared or durable store.
 *
 * A popular entry is served from memory alone. Events tell this process what other replicas store and purge.
 * After a gap in the events, each entry in memory is confirmed by the store before it is served again. While
 * the store is out of order, memory is used alone.
 */
import type { Entry, Tier, WhyNotStored } from "../../types.ts";
import type { Clock } from "../../process/clock.ts";
import type { MemoryStore } from "./memory.ts";
import { createL1, type L1 } from "./l1-trust.ts";
import { createPurges, names, type Purge, type Purges, type PurgeScope } from "./purges.ts";
import { type Backend, StoreUnavailable } from "./port.ts";

/** A cached entry, and whether it was purged. */
export interface Found {
  readonly entry: Entry;
  readonly tier: Tier;
  /** A soft purge applies to it: it is stale at any age. */
  readonly isPurged: boolean;
}

export interface Tiers {
  /**
   * Never rejects: a store that is out of order is a miss.
   * @param since epoch milliseconds. If memory has nothing newer, the store is read: another replica may have
   *   stored a newer entry whose announcement has not arrived yet
   */
  readonly lookup: (key: string, since?: number) => Promise<Found | undefined>;
  /** The entry in memory, if it is known without waiting that no newer one exists. */
  readonly peek: (key: string, now: number) => Found | undefined;
  /** Applies the purges known now to an entry that was found before; `undefined` if it is gone. */
  readonly judge: (key: string, found: Found) => Found | undefined;
  /**
   * Stores an entry in every tier; memory is enough while the store is out of order.
   * @param onMemory called as soon as the entry is in memory
   */
  readonly keep: (key: string, entry: Entry, onMemory?: () => void) => Promise<true | WhyNotStored>;
  /** Removes an entry from memory and the store. Other replicas keep it in their memory until it expires. */
  readonly drop: (key: string) => Promise<void>;
  /** Replaces an entry in memory by the same one with other bodies. */
  readonly keepInMemory: (key: string, replace: (current: Entry) => Entry | undefined) => void;
  /** The epoch of the latest known purge. Every fetch remembers it when it begins. */
  readonly purgeEpoch: () => number;
  /** Declares entries out of date in every tier and replica. Rejects with `StoreUnavailable`. */
  readonly purge: (scope: PurgeScope, hard: boolean) => Promise<Purge & { readonly hits: PurgeHits }>;
}

export interface TiersOptions {
  readonly memory: MemoryStore;
  /** Absent: memory only. */
  readonly backend: Backend | undefined;
  readonly clock: Clock;
}

export function createTiers({ memory, backend, clock }: TiersOptions): Tiers {
  const purges = createPurges();
  const l1 = createL1(memory);
  backend?.onEvent((event) => {
    if (event.kind === "purged") purges.add(event.purges);
    else l1.onEvent(event);
  });

  const { lookup, peek, judged } = createLookup({ memory, backend, clock, l1, purges });

  return {
    lookup,
    peek,
    judge: (key, { entry, tier }) => judged(key, entry, tier),
    keep: (key, entry, onMemory) => keepEverywhere(key, entry, l1, memory, backend, onMemory),
    async drop(key) {
      await memory.remove(key);
      if (backend !== undefined) await orUnavailable(backend.store.remove(key));
    },
    keepInMemory(key, replace) {
      const current = memory.find(key);
      const next = current && replace(current);
      if (next !== undefined) memory.put(key, next);
    },
    purgeEpoch: () => purges.epoch,
    async purge(scope, hard) {
      const inMemory = countInMemory(scope, memory, purges);
      if (backend === undefined) {
        const purge = { epoch: Math.max(purges.epoch + 1, clock.now()), scope, hard };
        purges.add([purge]);
        return { ...purge, hits: { memory: inMemory } };
      }
      const ofKey = scope.kind === "key" ? await countKey(scope.key, backend, purges) : null;
      const purge = await backend.purge(scope, hard);
      purges.add([purge]);
      const inStore = scope.kind === "key" ? ofKey : await countInStore(scope, backend);
      return { ...purge, hits: { memory: inMemory, [backend.store.tier]: inStore } };
    },
  };
}

async function keepEverywhere(
  key: string,
  entry: Entry,
  l1: L1,
  memory: MemoryStore,
  backend: Backend | undefined,
  onMemory: (() => void) | undefined,
): Promise<true | WhyNotStored> {
  l1.confirm(key);
  const inMemory = memory.put(key, entry);
  if (inMemory === true) onMemory?.();
  // The entry is too large to be stored, but the older one is out of date all the same.
  if (inMemory === "too-large") await memory.remove(key);
  if (backend === undefined) return inMemory;
  const inStore = await orUnavailable(backend.store.set(key, entry));
  if (inStore === "too-large") await orUnavailable(backend.store.remove(key));
  if (inStore === UNAVAILABLE) return inMemory === true ? true : "store-unavailable";
  // Another replica has stored a newer entry.
  if (inStore === "newer-stored") await memory.remove(key);
  return inStore;
}

interface LookupOptions extends Pick<TiersOptions, "memory" | "backend" | "clock"> {
  readonly l1: L1;
  readonly purges: Purges;
}

function createLookup({ memory, backend, clock, l1, purges }: LookupOptions): Pick<
  Tiers,
  "lookup" | "peek"
> & {
  readonly judged: (key: string, entry: Entry | undefined, tier: Tier) => Found | undefined;
} {
  function judged(key: string, entry: Entry | undefined, tier: Tier): Found | undefined {
    if (entry === undefined) return undefined;
    const verdict = purges.verdict(key, entry);
    return verdict === "gone" ? undefined : { entry, tier, isPurged: verdict === "stale" };
  }

  function findInMemory(key: string, since: number | undefined, now: number): ReturnType<L1["find"]> {
    const cached = l1.find(key, since, now);
    if (cached === undefined || !isFromTheFuture(cached.entry, now)) return cached;
    void memory.remove(key);
    return undefined;
  }

  /** @param cached the entry in memory, which is not confirmed */
  async function lookupInStore(
    key: string,
    { store }: Backend,
    cached: Entry | undefined,
  ): Promise<Found | undefined> {
    const read = l1.startRead(key);
    const stored = await getFrom(store, key, clock.now());
    if (stored !== UNAVAILABLE && cached !== undefined && !(stored && stored.storedAt >= cached.storedAt)) {
      // The store has lost the entry, or was out of order when it was stored. Store it again.
      read.end();
      l1.confirm(key);
      void orUnavailable(store.set(key, cached));
      return judged(key, cached, "memory");
    }
    if (stored === UNAVAILABLE || stored === undefined) {
      read.end();
      return judged(key, cached, "memory");
    }
    read.found(stored);
    return judged(key, stored, store.tier);
  }

  return {
    judged,
    peek(key, now) {
      const cached = findInMemory(key, undefined, now);
      const isEnough = backend === undefined || cached?.isConfirmed === true;
      return isEnough ? judged(key, cached?.entry, "memory") : undefined;
    },
    async lookup(key, since) {
      const cached = findInMemory(key, since, clock.now());
      if (backend === undefined || cached?.isConfirmed) return judged(key, cached?.entry, "memory");
      return await lookupInStore(key, backend, cached?.entry);
    },
  };
}

const UNAVAILABLE = Symbol("unavailable");

async function orUnavailable<T>(operation: Promise<T>): Promise<T | typeof UNAVAILABLE> {
  try {
    return await operation;
  } catch (error) {
    if (error instanceof StoreUnavailable) return UNAVAILABLE;
    throw error;
  }
}

/** The clocks of replicas may differ by this much, or be corrected by it. */
const CLOCKS_DIFFER_MS = 60_000;

/**
 * Whether the clock was set back after an entry was stored. Its age is then unknown, and it would count as newer than
 * every answer that is fetched.
 */
function isFromTheFuture({ storedAt }: Entry, now: number): boolean {
  return storedAt > now + CLOCKS_DIFFER_MS;
}

async function getFrom(
  store: Backend["store"],
  key: string,
  now: number,
): Promise<Entry | undefined | typeof UNAVAILABLE> {
  const stored = await orUnavailable(store.get(key));
  if (stored === UNAVAILABLE || stored === undefined || !isFromTheFuture(stored, now)) return stored;
  await orUnavailable(store.remove(key));
  return undefined;
}

/** How many stored answers a purge hits, by tier; `null`: not counted, because it would take too long. */
export type PurgeHits = Partial<Record<Tier, number | null>>;

/** Counts the answers that a scope names, in the memory of this process. Hard-purged ones do not count. */
function countInMemory(scope: PurgeScope, memory: MemoryStore, purges: Purges): number {
  return memory.count((key, entry) => names(scope, key, entry) && purges.verdict(key, entry) !== "gone");
}

/** Counts the answer of a key in the store, before it is purged. A hard-purged one does not count. */
async function countKey(key: string, { store }: Backend, purges: Purges): Promise<number | null> {
  const entry = await orUnavailable(store.get(key));
  if (entry === UNAVAILABLE) return null;
  return entry === undefined || purges.verdict(key, entry) === "gone" ? 0 : 1;
}

/** Counts the other answers that a scope names in the store. A purge removes none of them, so this is done after it. */
async function countInStore(
  scope: Exclude<PurgeScope, { kind: "key" }>,
  backend: Backend,
): Promise<number | null> {
  // The tags are in the answers, and all of them would have to be read.
  if (scope.kind === "tag") return null;
  const count = await orUnavailable(backend.count(scope.kind === "all" ? undefined : scope.resource));
  return count === UNAVAILABLE ? null : (count ?? null);
}
