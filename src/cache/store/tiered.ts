/**
 * All tiers as one: the memory of this process in front of a shared or durable store.
 *
 * A popular entry is served from memory alone. Events tell this process what other replicas store and purge.
 * After a gap in the events, each entry in memory is confirmed by one read of the store before it is served again. While
 * the store does not work, memory is used alone.
 */
import { StoreUnavailable } from "../../errors.ts";
import type { Bodies, Entry } from "../entry.ts";
import type { Tier, WhyNotStored } from "../../telemetry/events.ts";
import type { Clock } from "../../process/clock.ts";
import type { MemoryStore } from "./memory.ts";
import { type Purge, Purges, type PurgeScope } from "./purge-marks.ts";
import type { Store, StoreEvent } from "./port.ts";

/** A cached entry, and whether it was purged. */
export interface Found {
  readonly entry: Entry;
  readonly tier: Tier;
  /** A soft purge applies to it: it is stale at any age. */
  readonly isPurged: boolean;
}

export class Tiers {
  readonly #memory: MemoryStore;
  readonly #store: Store | undefined;
  readonly #clock: Clock;
  readonly #purges = new Purges();
  /**
   * The entries in memory that are the newest ones: those that this process stored or read from the store since the last gap in
   * the events. A newer one would have been announced, and the announcement would have dropped them.
   */
  #confirmed = new WeakSet<Entry>();
  /** Grows with each event. An entry is confirmed as the newest only if no event came while it was read from the store. */
  #events = 0;

  /** @param store absent: memory only */
  constructor(memory: MemoryStore, store: Store | undefined, clock: Clock) {
    this.#memory = memory;
    this.#store = store;
    this.#clock = clock;
    store?.onEvent((event) => this.#heard(event));
  }

  /**
   * Never rejects: a store that does not work is a miss.
   * @param since epoch milliseconds. If memory has nothing newer, the store is read: another replica may have
   *   stored a newer entry whose announcement has not arrived yet
   */
  async lookup(key: string, since = Number.NEGATIVE_INFINITY): Promise<Found | undefined> {
    const cached = this.#memory.find(key);
    const isEnough = cached !== undefined && this.#confirmed.has(cached) && cached.storedAt > since;
    if (this.#store === undefined || isEnough) return this.judge(key, cached, "memory");
    const before = this.#events;
    const stored = await this.#store.get(key).catch(ifUnavailable);
    if (stored === "store-unavailable") return this.judge(key, cached, "memory");
    if (cached !== undefined && (stored === undefined || stored.storedAt < cached.storedAt)) {
      // The store has lost the entry, or did not work when the entry was stored. Store it again.
      this.#confirmed.add(cached);
      const found = this.judge(key, cached, "memory");
      if (found?.isPurged === false) void this.#store.set(key, cached).catch(ifUnavailable);
      return found;
    }
    if (stored !== undefined && this.#events === before) {
      this.#confirmed.add(stored);
      this.#memory.put(key, stored);
    }
    return this.judge(key, stored, this.#store.tier);
  }

  /** The entry in memory, if it is known without waiting that no newer one exists. */
  peek(key: string, now: number): Found | undefined {
    const cached = this.#memory.find(key, now);
    const isNewest = cached !== undefined && (this.#store === undefined || this.#confirmed.has(cached));
    return isNewest ? this.judge(key, cached, "memory") : undefined;
  }

  /** An entry that a lookup did not return because of a hard purge. Never serve it; use only what was learned about it. */
  purgedHard(key: string): Entry | undefined {
    // A lookup has put it into memory, if it was only in the store.
    const entry = this.#memory.find(key);
    return entry && this.#purges.verdict(key, entry) === "gone" ? entry : undefined;
  }

  /**
   * Stores an entry in every tier; memory is enough while the store does not work.
   * @param onMemory called as soon as the entry is in memory
   */
  async keep(key: string, entry: Entry, onMemory?: () => void): Promise<true | WhyNotStored> {
    this.#confirmed.add(entry);
    const inMemory = this.#memory.put(key, entry);
    if (inMemory === true) onMemory?.();
    // The entry is too large to be stored, but the older one is out of date all the same.
    if (inMemory === "too-large") this.#memory.drop(key);
    if (this.#store === undefined) return inMemory;
    const inStore = await this.#store.set(key, entry).catch(ifUnavailable);
    if (inStore === "too-large") await this.#store.remove(key).catch(ifUnavailable);
    if (inStore === "store-unavailable") return inMemory === true ? true : inStore;
    // Another replica has stored a newer entry.
    if (inStore === "newer-stored") this.#memory.drop(key);
    return inStore;
  }

  /** Removes an entry from memory and the store. Other replicas keep it in their memory until it expires. */
  async drop(key: string): Promise<void> {
    this.#memory.drop(key);
    await this.#store?.remove(key).catch(ifUnavailable);
  }

  /** Replaces the bodies of an entry in memory, if memory still has this version of it. */
  readonly keepInMemory = (key: string, entry: Entry, next: (bodies: Bodies) => Bodies): void => {
    const current = this.#memory.find(key);
    if (current?.storedAt !== entry.storedAt || current.etag !== entry.etag) return;
    const changed = { ...current, bodies: next(current.bodies) };
    if (this.#confirmed.has(current)) this.#confirmed.add(changed);
    this.#memory.put(key, changed);
  };

  /** The epoch of the latest known purge. Every fetch remembers it when it begins. */
  purgeEpoch(): number {
    return this.#purges.epoch;
  }

  /** Declares entries out of date in every tier and replica. Rejects with `StoreUnavailable`. */
  readonly purge = async (scope: PurgeScope, hard: boolean): Promise<Purge> => {
    const epoch = Math.max(this.#purges.epoch + 1, this.#clock.now());
    const purge = this.#store === undefined ? { epoch, scope, hard } : await this.#store.purge(scope, hard);
    this.#purges.add([purge]);
    return purge;
  };

  #heard(event: StoreEvent): void {
    this.#events++;
    if (event.kind === "gap") this.#confirmed = new WeakSet();
    else if (event.kind === "purged") this.#purges.add(event.purges);
    else if ((this.#memory.find(event.key)?.storedAt ?? Infinity) < event.storedAt)
      this.#memory.drop(event.key);
  }

  /** Applies the purges known now to an entry that was found in a tier; `undefined` if it is gone. */
  judge(key: string, entry: Entry | undefined, tier: Tier): Found | undefined {
    const verdict = entry && this.#purges.verdict(key, entry);
    return entry === undefined || verdict === "gone"
      ? undefined
      : { entry, tier, isPurged: verdict === "stale" };
  }
}

/** @throws the error itself if the store works */
function ifUnavailable(error: unknown): "store-unavailable" {
  if (error instanceof StoreUnavailable) return "store-unavailable";
  throw error;
}
