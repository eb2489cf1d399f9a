import { describe, expect, it } from "vitest";

import type { Store, StoreEvent } from "../../../../src/cache/store/port.ts";
import { entryOf, type Entry } from "../../../../src/cache/entry.ts";
import { createMemoryStore, type MemoryStore } from "../../../../src/cache/store/memory.ts";
import { StoreUnavailable } from "../../../../src/cache/store/port.ts";
import { Tiers } from "../../../../src/cache/store/tiered.ts";
import { cacheKey } from "../../../../src/query/key.ts";
import { storeIn } from "../../../support/store.ts";
import { fetchedWith, receiptAt } from "../../../support/entries.ts";

const clock = {
  now: () => 1_000_000,
  monotonic: () => 1_000_000,
  precise: () => 1_000_000,
  machine: { boot: "", up: () => 1_000_000 },
  after: () => () => undefined,
};
const KEY = cacheKey("json", "sold/4711");

function entryStoredAt(now: number, text = `stored at ${now}`, purgeEpoch = 0): Entry {
  const body = Buffer.from(text);
  return entryOf({ kind: "record", resource: "sold", serviceId: "4711", extras: [] }, fetchedWith({ body }), {
    ...receiptAt(now),
    purgeEpoch,
  });
}

/** A backend over a store of its own, whose events and breakdowns the test decides. */
function backendOf(maxBytes: number): {
  store: Store;
  behind: MemoryStore;
  tell: (event: StoreEvent) => void;
  lookups: () => number;
  breakDown: () => void;
} {
  const behind = createMemoryStore(maxBytes, clock);
  let tell: (event: StoreEvent) => void = () => undefined;
  let broken = false;
  let lookups = 0;
  const orBroken = async <T>(operation: () => Promise<T>): Promise<T> => {
    if (broken) throw new StoreUnavailable("broken by the test");
    return await operation();
  };
  const store = storeIn(behind, {
    get: (key) => {
      lookups++;
      return orBroken(async () => behind.find(key));
    },
    set: (key, entry) => orBroken(async () => behind.put(key, entry)),
    remove: (key) => orBroken(async () => behind.drop(key)),
    purge: (scope, hard) => orBroken(async () => ({ epoch: 7, scope, hard })),
    onEvent: (listener) => {
      tell = listener;
    },
  });
  return {
    store,
    behind,
    tell: (event) => tell(event),
    lookups: () => lookups,
    breakDown: () => (broken = true),
  };
}

/** @param room most bytes in each tier */
function setup(
  room: { readonly memory?: number; readonly behind?: number } = {},
): ReturnType<typeof backendOf> & { tiers: Tiers; memory: MemoryStore } {
  const memory = createMemoryStore(room.memory ?? 1_000_000, clock);
  const parts = backendOf(room.behind ?? 1_000_000);
  return { ...parts, memory, tiers: new Tiers(memory, parts.store, clock) };
}

describe("the tiers", () => {
  it("drop from memory what another replica has stored newer, and nothing that is as new", async () => {
    const { tiers, behind, tell } = setup();
    await tiers.keep(KEY, entryStoredAt(5));
    tell({ kind: "stored", key: KEY, storedAt: 5 });
    expect((await tiers.lookup(KEY))?.tier).toBe("memory");
    behind.put(KEY, entryStoredAt(6));
    tell({ kind: "stored", key: KEY, storedAt: 6 });
    expect(await tiers.lookup(KEY)).toMatchObject({ tier: "redis", entry: { storedAt: 6 } });
  });

  it.each(["stored", "gap"] as const)(
    "keep nothing in memory that was overtaken on its way here (%s)",
    async (kind) => {
      const { tiers, behind, tell } = setup();
      behind.put(KEY, entryStoredAt(5));
      const reading = tiers.lookup(KEY);
      tell(kind === "gap" ? { kind } : { kind, key: KEY, storedAt: 6 });
      expect((await reading)?.entry.storedAt).toBe(5);
      behind.put(KEY, entryStoredAt(6));
      expect((await tiers.lookup(KEY))?.entry.storedAt).toBe(6);
    },
  );

  it("keep nothing in memory that is older than what is behind", async () => {
    const { tiers, behind } = setup();
    behind.put(KEY, entryStoredAt(9));
    expect(await tiers.keep(KEY, entryStoredAt(8))).toBe("newer-stored");
    expect((await tiers.lookup(KEY))?.entry.storedAt).toBe(9);
  });

  it("trust memory after a gap in the events only when confirmed", async () => {
    const { tiers, behind, tell } = setup();
    await tiers.keep(KEY, entryStoredAt(1));
    behind.put(KEY, entryStoredAt(2));
    tell({ kind: "gap" });
    expect((await tiers.lookup(KEY))?.entry.storedAt).toBe(2);
    expect((await tiers.lookup(KEY))?.tier).toBe("memory");
  });

  it("give back to a store that lost everything what memory still has", async () => {
    const { tiers, behind, tell } = setup();
    await tiers.keep(KEY, entryStoredAt(1));
    behind.drop(KEY);
    tell({ kind: "gap" });
    expect((await tiers.lookup(KEY))?.tier).toBe("memory");
    expect(behind.find(KEY)).toBeDefined();
  });

  it("give back to a store that was away what is newer in memory, and answer with that", async () => {
    const { tiers, behind, tell } = setup();
    await tiers.keep(KEY, entryStoredAt(2));
    behind.drop(KEY);
    behind.put(KEY, entryStoredAt(1));
    tell({ kind: "gap" });
    expect(await tiers.lookup(KEY)).toMatchObject({ tier: "memory", entry: { storedAt: 2 } });
    expect(behind.find(KEY)).toMatchObject({ storedAt: 2 });
  });

  it.each(["memory", "behind"] as const)(
    "leave nothing older where a newer answer has no room (%s)",
    async (where) => {
      const small = 20_000;
      const { memory, behind, tiers } = setup(where === "memory" ? { memory: small } : { behind: small });
      await tiers.keep(KEY, entryStoredAt(1));
      await tiers.keep(KEY, entryStoredAt(2, "x".repeat(small)));
      const [full, roomy] = where === "memory" ? [memory, behind] : [behind, memory];
      expect(full.find(KEY)).toBeUndefined();
      expect(roomy.find(KEY)).toMatchObject({ storedAt: 2 });
      expect(await tiers.lookup(KEY)).toMatchObject({ entry: { storedAt: 2 } });
    },
  );

  it.each(["memory", "behind"] as const)(
    "drop what says that it was stored at a time still to come, so that new answers are kept (%s)",
    async (where) => {
      const all = setup();
      const { tiers } = all;
      const tomorrow = clock.now() + 86_400_000;
      all[where].put(KEY, entryStoredAt(tomorrow));
      expect(await tiers.lookup(KEY)).toBeUndefined();
      expect(await tiers.keep(KEY, entryStoredAt(clock.now()))).toBe(true);
      expect(await tiers.lookup(KEY)).toMatchObject({ tier: "memory" });
    },
  );

  it("drop an entry everywhere, and take no notice of a store that is out of order", async () => {
    const { tiers, behind, breakDown } = setup();
    await tiers.keep(KEY, entryStoredAt(1));
    await tiers.drop(KEY);
    expect(behind.find(KEY)).toBeUndefined();
    expect(await tiers.lookup(KEY)).toBeUndefined();
    breakDown();
    await expect(tiers.drop(KEY)).resolves.toBeUndefined();
  });
});
