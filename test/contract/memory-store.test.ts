import { createMemoryStore } from "../../src/cache/store/memory.ts";
import { storeIn } from "../support/store.ts";
import { storeContract } from "./store-contract.ts";

storeContract("memory", async (clock) => ({
  ...storeIn(createMemoryStore(256 * 1024 * 1024, clock)),
  close: async () => undefined,
}));
