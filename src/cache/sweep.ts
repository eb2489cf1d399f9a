import { type Clock, every } from "../process/clock.ts";
import type { Store } from "./store/port.ts";

const EVERY_MS = 60_000;

/** Removes expired entries from every tier, every minute. @returns a function that ends it */
export function sweepEveryMinute(stores: readonly Pick<Store, "sweep">[], clock: Clock): () => void {
  // If a store does not work, a later sweep removes its entries.
  return every(clock, EVERY_MS, () => void Promise.allSettled(stores.map((store) => store.sweep())));
}
