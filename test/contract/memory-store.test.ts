import { expect, it } from "vitest";

import { createMemoryStore } from "../../src/cache/store/memory.ts";
import { entryWith, keyOf } from "../support/entries.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { storeIn } from "../support/store.ts";
import { storeContract } from "./store-contract.ts";

storeContract("memory", async (clock) => ({
  ...storeIn(createMemoryStore(256 * 1024 * 1024, clock)),
  close: async () => undefined,
}));

it("memory refuses an entry that is larger than its share, and keeps what it has", () => {
  const store = createMemoryStore(1_000_000, createFakeClock());
  const small = entryWith("small");
  store.put(keyOf("sold/1"), small);
  const giant = entryWith(Buffer.alloc(200_000), small.storedAt + 1);
  for (const key of ["sold/1", "sold/2"]) expect(store.put(keyOf(key), giant)).toBe("too-large");
  expect(store.find(keyOf("sold/1"))).toEqual(small);
});
