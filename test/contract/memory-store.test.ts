import { describe, expect, it } from "vitest";

import { createMemoryStore } from "../../src/cache/store/memory.ts";
import { createRandom } from "../support/random.ts";
import { entryWith, keyOf } from "../support/entries.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { storeContract } from "./store-contract.ts";

storeContract("memory", async (clock) => {
  const store = createMemoryStore(256 * 1024 * 1024, clock);
  return { store, close: store.close };
});

describe("memory", () => {
  it("never holds more than its maximum, and drops the least recently used entry", async () => {
    const random = createRandom(1);
    const store = createMemoryStore(1_000_000, createFakeClock());
    await store.set(keyOf("hot"), entryWith("hot"));
    for (let round = 0; round < 500; round++) {
      await store.set(keyOf(`sold/${round}`), entryWith(Buffer.alloc(random.between(1, 50_000))));
      await store.get(keyOf("hot"));
      expect(store.stats().bytes).toBeLessThanOrEqual(1_000_000);
    }
    expect(await store.get(keyOf("hot"))).toBeDefined();
    expect(await store.get(keyOf("sold/0"))).toBeUndefined();
    expect(store.stats().evictions).toBeGreaterThan(300);
  });

  it("is not emptied by one huge entry", async () => {
    const store = createMemoryStore(1_000_000, createFakeClock());
    await store.set(keyOf("small"), entryWith("small"));
    expect(await store.set(keyOf("giant"), entryWith(Buffer.alloc(200_000)))).toBe("too-large");
    expect(await store.get(keyOf("small"))).toBeDefined();
  });

  it("keeps its entry when the newer one is too large", async () => {
    const store = createMemoryStore(1_000_000, createFakeClock());
    const small = entryWith("small");
    await store.set(keyOf("sold/1"), small);
    const giant = entryWith(Buffer.alloc(200_000), small.storedAt + 1);
    expect(await store.set(keyOf("sold/1"), giant)).toBe("too-large");
    expect(await store.get(keyOf("sold/1"))).toEqual(small);
  });
});
