/**
 * All tiers as one: the memory of this process in front of a shared or durable store.
 *
 * A popular entry is served from memory alone. Events tell this process what other replicas store and purge.
 * After a gap in the events, each entry in memory is confirmed by one read of the store before it is served again. While
 * the store does not work, memory is used alone.
 */
import type { Bodies, Entry } from "../entry.ts";
import type { Tier, WhyNotStored } from "../../telemetry/events.ts";
import type { Clock } from "../../process/clock.ts";
import type { MemoryStore } from "./memory.ts";
import { createPurges, type Purge, type PurgeScope, type Purges } from "./purges.ts";
import { type Store, StoreUnavailable } from "./port.ts";

/** A cached entry, and whether it was purged. */
export interface Found {
  readonly entry: Entry;
  readonly tier: Tier;
  /** A soft purge applies to it: it is stale at any age. */
  readonly isPurged: boolean;
}

export interface Tiers {
  /**
   * Never rejects: a store that does not work is a miss.
   * @param since epoch milliseconds. If memory has nothing newer, the store is read: another replica may have
   *   stored a newer entry whose announcement has not arrived yet
   */
  readonly lookup: (key: string, since?: number) => Promise<Found | undefined>;
  /** The entry in memory, if it is known without waiting that no newer one exists. */
  readonly peek: (key: string, now: number) => Found | undefined;
  /** Applies the purges known now to an entry that was found before; `undefined` if it is gone. */
  readonly judge: (key: string, found: Found) => Found | undefined;
  /**
   * Stores an entry in every tier; memory is enough while the store does not work.
   * @param onMemory called as soon as the entry is in memory
   */
  readonly keep: (key: string, entry: Entry, onMemory?: () => void) => Promise<true | WhyNotStored>;
  /** Removes an entry from memory and the store. Other replicas keep it in their memory until it expires. */
  readonly drop: (key: string) => Promise<void>;
  /** Replaces the bodies of an entry in memory, if memory still has this version of it. */
  readonly keepInMemory: (key: string, entry: Entry, next: (bodies: Bodies) => Bodies) => void;
  /** An entry that a lookup did not return because of a hard purge. Never serve it; use only what was learned about it. */
  readonly purgedHard: (key: string) => Entry | undefined;
  /** The epoch of the latest known purge. Every fetch remembers it when it begins. */
  readonly purgeEpoch: () => number;
  /** Declares entries out of date in every tier and replica. Rejects with `StoreUnavailable`. */
  readonly purge: (scope: PurgeScope, hard: boolean) => Promise<Purge>;
}

export interface TiersOptions {
  readonly memory: MemoryStore;
  /** Absent: memory only. */
  readonly store: Store | undefined;
  readonly clock: Clock;
}

export function createTiers({ memory, store, clock }: TiersOptions): Tiers {
  const purges = createPurges();
  const trust = createTrust(memory, purges, store);

  return {
    lookup: createLookup({ memory, store, clock }, trust, purges),
    peek(key, now) {
      const cached = findInMemory(memory, key, now);
      const isNewest = cached !== undefined && (store === undefined || trust.isConfirmed(cached));
      return isNewest ? judged(purges, key, cached, "memory") : undefined;
    },
    judge: (key, { entry, tier }) => judged(purges, key, entry, tier),
    purgedHard(key) {
      // A lookup has put it into memory, if it was only in the store.
      const entry = memory.find(key);
      return entry && purges.verdict(key, entry) === "gone" ? entry : undefined;
    },
    async keep(key, entry, onMemory) {
      trust.confirm(entry);
      const inMemory = memory.put(key, entry);
      if (inMemory === true) onMemory?.();
      // The entry is too large to be stored, but the older one is out of date all the same.
      if (inMemory === "too-large") memory.drop(key);
      if (store === undefined) return inMemory;
      const inStore = await orUnavailable(store.set(key, entry));
      if (inStore === "too-large") await orUnavailable(store.remove(key));
      if (inStore === UNAVAILABLE) return inMemory === true ? true : "store-unavailable";
      // Another replica has stored a newer entry.
      if (inStore === "newer-stored") memory.drop(key);
      return inStore;
    },
    async drop(key) {
      memory.drop(key);
      await (store && orUnavailable(store.remove(key)));
    },
    keepInMemory(key, { storedAt, etag }, next) {
      const current = memory.find(key);
      if (current?.storedAt !== storedAt || current.etag !== etag) return;
      const changed = { ...current, bodies: next(current.bodies) };
      if (trust.isConfirmed(current)) trust.confirm(changed);
      memory.put(key, changed);
    },
    purgeEpoch: () => purges.epoch,
    async purge(scope, hard) {
      const epoch = Math.max(purges.epoch + 1, clock.now());
      const purge = store === undefined ? { epoch, scope, hard } : await store.purge(scope, hard);
      purges.add([purge]);
      return purge;
    },
  };
}

/**
 * Which entries in memory are the newest ones: those that this process stored or read from the store since the last gap in the
 * events. A newer one would have been announced, and the announcement would have dropped them.
 */
function createTrust(memory: MemoryStore, purges: Purges, store: Store | undefined) {
  let confirmed = new WeakSet<Entry>();
  let events = 0;
  store?.onEvent((event) => {
    events++;
    if (event.kind === "gap") confirmed = new WeakSet();
    else if (event.kind === "purged") purges.add(event.purges);
    else {
      const cached = memory.find(event.key);
      if (cached !== undefined && cached.storedAt < event.storedAt) memory.drop(event.key);
    }
  });
  return {
    isConfirmed: (entry: Entry): boolean => confirmed.has(entry),
    confirm: (entry: Entry): unknown => confirmed.add(entry),
    /** Grows with each event. An entry is confirmed as the newest only if no event came while it was read from the store. */
    events: (): number => events,
  };
}

function createLookup(
  { memory, store, clock }: TiersOptions,
  trust: ReturnType<typeof createTrust>,
  purges: Purges,
): Tiers["lookup"] {
  return async function lookup(key, since = Number.NEGATIVE_INFINITY) {
    const cached = findInMemory(memory, key, clock.now());
    const isEnough = cached !== undefined && trust.isConfirmed(cached) && cached.storedAt > since;
    if (store === undefined || isEnough) return judged(purges, key, cached, "memory");
    const before = trust.events();
    const stored = await getFrom(store, key, clock.now());
    if (stored === UNAVAILABLE) return judged(purges, key, cached, "memory");
    if (cached !== undefined && (stored === undefined || stored.storedAt < cached.storedAt)) {
      // The store has lost the entry, or did not work when the entry was stored. Store it again.
      trust.confirm(cached);
      const found = judged(purges, key, cached, "memory");
      if (found?.isPurged === false) void orUnavailable(store.set(key, cached));
      return found;
    }
    if (stored !== undefined && trust.events() === before) {
      trust.confirm(stored);
      memory.put(key, stored);
    }
    return judged(purges, key, stored, store.tier);
  };
}

function judged(purges: Purges, key: string, entry: Entry | undefined, tier: Tier): Found | undefined {
  if (entry === undefined) return undefined;
  const verdict = purges.verdict(key, entry);
  return verdict === "gone" ? undefined : { entry, tier, isPurged: verdict === "stale" };
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

function findInMemory(memory: MemoryStore, key: string, now: number): Entry | undefined {
  const cached = memory.find(key, now);
  if (cached === undefined || !isFromTheFuture(cached, now)) return cached;
  memory.drop(key);
  return undefined;
}

async function getFrom(
  store: Store,
  key: string,
  now: number,
): Promise<Entry | undefined | typeof UNAVAILABLE> {
  const stored = await orUnavailable(store.get(key));
  if (stored === UNAVAILABLE || stored === undefined || !isFromTheFuture(stored, now)) return stored;
  await orUnavailable(store.remove(key));
  return undefined;
}
