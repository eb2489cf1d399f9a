import { describe, expect, it } from "vitest";

import type { StoreEvent } from "../../../../src/cache/store/port.ts";
import { StoreUnavailable } from "../../../../src/errors.ts";
import type { Entry } from "../../../../src/cache/entry.ts";
import { createMemoryStore } from "../../../../src/cache/store/memory.ts";
import { Tiers } from "../../../../src/cache/store/tiered.ts";
import { cacheKey } from "../../../../src/query/key.ts";
import { storeIn } from "../../../support/store.ts";
import { entryWith } from "../../../support/entries.ts";
import { createFakeClock } from "../../../support/fake-clock.ts";

const clock = createFakeClock(1_000_000);
const KEY = cacheKey("json", "sold/4711");

const entryStoredAt = (now: number, text = `stored at ${now}`): Entry => entryWith(text, now);

/** @param room most bytes in each tier */
function setup(room: { readonly memory?: number; readonly behind?: number } = {}) {
  const memory = createMemoryStore(room.memory ?? 1_000_000, clock);
  const behind = createMemoryStore(room.behind ?? 1_000_000, clock);
  let tell: (event: StoreEvent) => void = () => undefined;
  const store = storeIn(behind, { onEvent: (listener) => void (tell = listener) });
  const tiers = new Tiers(memory, store, clock);
  return { tiers, memory, behind, tell };
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

  it("drop an entry, and take no notice of a store that is out of order", async () => {
    const memory = createMemoryStore(1_000_000, clock);
    const remove = () => Promise.reject(new StoreUnavailable("broken by the test"));
    const tiers = new Tiers(memory, storeIn(createMemoryStore(1_000_000, clock), { remove }), clock);
    await tiers.keep(KEY, entryStoredAt(1));
    await expect(tiers.drop(KEY)).resolves.toBeUndefined();
    expect(memory.find(KEY)).toBeUndefined();
  });
});
