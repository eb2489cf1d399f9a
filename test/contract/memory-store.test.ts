import { describe, expect, it } from "vitest";

import { createMemoryStore } from "../../src/cache/memory-store.ts";
import { entryWith, storeContract } from "./store-contract.ts";

const MAX_BYTES = 256 * 1024;

storeContract(
  "the store in memory",
  async () => ({ store: createMemoryStore(MAX_BYTES), close: async () => undefined }),
  { totalBytes: MAX_BYTES, refusedBytes: MAX_BYTES / 8 },
);

describe("the store in memory: its own account", () => {
  it("names the entries it holds and the bytes they weigh, codings included", async () => {
    const store = createMemoryStore(MAX_BYTES);
    expect(store.stats).toEqual({ entries: 0, bytes: 0 });
    const entry = entryWith({ body: Buffer.alloc(1_000) });
    await store.set("one", entry);
    const { bytes } = store.stats;
    expect(bytes).toBeGreaterThan(1_000);
    await store.set("two", entry);
    expect(store.stats.entries).toBe(2);
    await store.set("one", { ...entry, encoded: { gzip: Buffer.alloc(500) } });
    expect(store.stats).toEqual({ entries: 2, bytes: 2 * bytes + 500 });
  });

  it("never goes over the bound", async () => {
    const store = createMemoryStore(MAX_BYTES);
    for (let index = 0; index < 2_000; index++) {
      await store.set(`key${index}`, entryWith({ body: Buffer.alloc((index * 37) % 20_000) }));
      expect(store.stats.bytes).toBeLessThanOrEqual(MAX_BYTES);
    }
  });

  it("lets go first of what was not asked for", async () => {
    const store = createMemoryStore(MAX_BYTES);
    const body = Buffer.alloc(20_000);
    await store.set("asked for", entryWith({ body }));
    for (let index = 0; index < 100; index++) {
      await store.set(`key${index}`, entryWith({ body }));
      expect(await store.get("asked for")).toBeDefined();
    }
    expect(await store.get("key0")).toBeUndefined();
  });
});
