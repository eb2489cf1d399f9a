/**
 * The tiers as one: this process' memory in front of what is shared or durable.
 *
 * A hot key never leaves the process. What another replica stored or purged reaches this one by event;
 * after a gap in the events nothing in memory is trusted until the backend has confirmed it. A backend
 * that is out of order costs nothing but itself: memory goes on.
 */
import type { Entry, Tier, WhyNotStored } from "../../types.ts";
import type { Clock } from "../../process/clock.ts";
import type { MemoryStore } from "./memory.ts";
import { createNear, type Near } from "./l1-trust.ts";
import { createPurges, type Purge, type Purges, type PurgeScope } from "./purges.ts";
import { type Backend, StoreUnavailable } from "./port.ts";

/** An entry found, and what later purges make of it. */
export interface Found {
  readonly entry: Entry;
  readonly tier: Tier;
  /** A soft purge concerns it: whatever its age, it is stale. */
  readonly isPurged: boolean;
}

export interface Tiers {
  /**
   * Never rejects: a store out of order is a miss.
   * @param since epoch milliseconds: something stored after that is wanted. Where memory has none it is looked
   * for behind: another replica's word that it has stored it may still be on its way here
   */
  readonly lookup: (key: string, since?: number) => Promise<Found | undefined>;
  /** What the purges known by now make of an entry that was found before; `undefined` where it is gone. */
  readonly judge: (key: string, found: Found) => Found | undefined;
  /** Keeps an entry in every tier; memory alone will do where the backend is out of order. */
  readonly keep: (key: string, entry: Entry) => Promise<true | WhyNotStored>;
  /** Drops an entry from every tier, as far as they can be reached; other replicas keep theirs until it has expired. */
  readonly drop: (key: string) => Promise<void>;
  /** Replaces an entry in memory by the same one with more bodies. */
  readonly keepInMemory: (key: string, replace: (current: Entry) => Entry | undefined) => void;
  /** The latest purge known; to be remembered by every fetch that begins now. */
  readonly purgeEpoch: () => number;
  /** Declares something out of date in every tier and replica. Rejects with `StoreUnavailable`. */
  readonly purge: (scope: PurgeScope, hard: boolean) => Promise<Purge>;
}

export interface TiersOptions {
  readonly memory: MemoryStore;
  /** Absent: memory only. */
  readonly backend: Backend | undefined;
  readonly clock: Clock;
}

export function createTiers({ memory, backend, clock }: TiersOptions): Tiers {
  const purges = createPurges();
  const near = createNear(memory);
  backend?.onEvent((event) => {
    if (event.kind === "purged") purges.add(event.purges);
    else near.onEvent(event);
  });

  const { lookup, judged } = createLookup({ memory, backend, clock, near, purges });

  return {
    lookup,
    judge: (key, { entry, tier }) => judged(key, entry, tier),
    keep: (key, entry) => keepEverywhere(key, entry, near, memory, backend),
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
      const purge = backend
        ? await backend.purge(scope, hard)
        : { epoch: Math.max(purges.epoch + 1, clock.now()), scope, hard };
      purges.add([purge]);
      return purge;
    },
  };
}

async function keepEverywhere(
  key: string,
  entry: Entry,
  near: Near,
  memory: MemoryStore,
  backend: Backend | undefined,
): Promise<true | WhyNotStored> {
  near.confirm(key);
  const inMemory = memory.put(key, entry);
  // What a tier has no room for has still overtaken what is there.
  if (inMemory === "too-large") await memory.remove(key);
  if (backend === undefined) return inMemory;
  const behind = await orUnavailable(backend.store.set(key, entry));
  if (behind === "too-large") await orUnavailable(backend.store.remove(key));
  if (behind === UNAVAILABLE) return inMemory === true ? true : "store-unavailable";
  // Another replica's newer answer is there: this one's must not outlive it here.
  if (behind === "newer-stored") await memory.remove(key);
  return behind;
}

interface LookupOptions extends Pick<TiersOptions, "memory" | "backend" | "clock"> {
  readonly near: Near;
  readonly purges: Purges;
}

function createLookup({ memory, backend, clock, near, purges }: LookupOptions): Pick<Tiers, "lookup"> & {
  readonly judged: (key: string, entry: Entry | undefined, tier: Tier) => Found | undefined;
} {
  function judged(key: string, entry: Entry | undefined, tier: Tier): Found | undefined {
    if (entry === undefined) return undefined;
    const verdict = purges.verdict(key, entry);
    return verdict === "gone" ? undefined : { entry, tier, isPurged: verdict === "stale" };
  }

  function findNear(key: string, since?: number): ReturnType<Near["find"]> {
    const held = near.find(key, since);
    if (held === undefined || !isFromTheFuture(held.entry, clock.now())) return held;
    void memory.remove(key);
    return undefined;
  }

  async function lookupBehind(
    key: string,
    { store }: Backend,
    held: Entry | undefined,
  ): Promise<Found | undefined> {
    const read = near.startRead(key);
    const far = await getBehind(key, store, clock.now());
    const isBack = far !== UNAVAILABLE;
    if (held !== undefined && isBack && (far === undefined || far.storedAt < held.storedAt)) {
      // It lost the entry, as after a restart without its data, or was away when it was stored: it gets it back.
      read.end();
      near.confirm(key);
      void orUnavailable(store.set(key, held));
      return judged(key, held, "memory");
    }
    const isFar = isBack && far !== undefined;
    if (isFar) read.found(far);
    else read.end();
    return isFar ? judged(key, far, store.tier) : judged(key, held, "memory");
  }

  return {
    judged,
    async lookup(key, since) {
      const held = findNear(key, since);
      if (backend === undefined || held?.isConfirmed) return judged(key, held?.entry, "memory");
      return await lookupBehind(key, backend, held?.entry);
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

/** By how much the clocks of replicas may differ, or be corrected. */
const CLOCKS_DIFFER_MS = 60_000;

/**
 * What says that it was stored at a time still to come was stored before the time of day was set back: nobody can
 * tell how old it is, and it would pass for newer than whatever is fetched.
 */
function isFromTheFuture({ storedAt }: Entry, now: number): boolean {
  return storedAt > now + CLOCKS_DIFFER_MS;
}

async function getBehind(
  key: string,
  store: Backend["store"],
  now: number,
): Promise<Entry | undefined | typeof UNAVAILABLE> {
  const far = await orUnavailable(store.get(key));
  if (far === UNAVAILABLE || far === undefined || !isFromTheFuture(far, now)) return far;
  await orUnavailable(store.remove(key));
  return undefined;
}
