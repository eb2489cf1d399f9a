import { describe, expect, it } from "vitest";

import { createMemoryStore } from "../../src/cache/store/memory.ts";
import { createRandom } from "../support/random.ts";
import { entryWith, keyOf } from "../support/entries.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { storeIn } from "../support/store.ts";
import { storeContract } from "./store-contract.ts";

storeContract("memory", async (clock) => ({
  ...storeIn(createMemoryStore(256 * 1024 * 1024, clock)),
  close: async () => undefined,
}));

describe("memory", () => {
  it("never holds more than its maximum, and drops the least recently used entry", () => {
    const random = createRandom(1);
    const store = createMemoryStore(1_000_000, createFakeClock());
    store.put(keyOf("hot"), entryWith("hot"));
    for (let round = 0; round < 500; round++) {
      store.put(keyOf(`sold/${round}`), entryWith(Buffer.alloc(random.between(1, 50_000))));
      store.find(keyOf("hot"));
      expect(store.stats().bytes).toBeLessThanOrEqual(1_000_000);
    }
    expect(store.find(keyOf("hot"))).toBeDefined();
    expect(store.find(keyOf("sold/0"))).toBeUndefined();
    expect(store.stats().evictions).toBeGreaterThan(300);
  });

  it("refuses an entry that is larger than its share, and keeps what it has", () => {
    const store = createMemoryStore(1_000_000, createFakeClock());
    const small = entryWith("small");
    store.put(keyOf("sold/1"), small);
    const giant = entryWith(Buffer.alloc(200_000), small.storedAt + 1);
    for (const key of ["sold/1", "sold/2"]) expect(store.put(keyOf(key), giant)).toBe("too-large");
    expect(store.find(keyOf("sold/1"))).toEqual(small);
  });
});
