import type { Tier } from "../../types.ts";
import type { MemoryStore } from "./memory.ts";
import { type Backend, StoreUnavailable } from "./port.ts";
import { names, type Purges, type PurgeScope } from "./purges.ts";

/** How many stored answers a purge hits, by tier; `null`: not counted, because it would have to read them all. */
export type PurgeHits = Partial<Record<Tier, number | null>>;

/** Counts the answers that a scope names and no hard purge has named before. It counts the memory of this process only. */
export async function countHits(
  scope: PurgeScope,
  memory: MemoryStore,
  backend: Backend | undefined,
  purges: Purges,
): Promise<PurgeHits> {
  const inMemory = memory.count(
    (key, entry) => names(scope, key, entry) && purges.verdict(key, entry) !== "gone",
  );
  if (backend === undefined) return { memory: inMemory };
  return { memory: inMemory, [backend.store.tier]: await countInStore(scope, backend, purges) };
}

async function countInStore(scope: PurgeScope, { store }: Backend, purges: Purges): Promise<number | null> {
  if (scope.kind === "all") return store.stats()?.entries ?? null;
  if (scope.kind !== "key") return null;
  try {
    const entry = await store.get(scope.key);
    return entry === undefined || purges.verdict(scope.key, entry) === "gone" ? 0 : 1;
  } catch (error) {
    if (error instanceof StoreUnavailable) return null;
    throw error;
  }
}
