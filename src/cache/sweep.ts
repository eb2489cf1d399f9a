import { type Clock, every } from "../process/clock.ts";
import type { Store } from "./store/port.ts";

export interface Sweep {
  readonly start: () => void;
  readonly stop: () => void;
}

const EVERY_MS = 60_000;

/** Removes expired entries from every tier, every minute. */
export function createSweep(stores: readonly Pick<Store, "sweep">[], clock: Clock): Sweep {
  let stop = (): void => undefined;
  return {
    start() {
      // If a store does not work, a later sweep removes its entries.
      stop = every(clock, EVERY_MS, () => void Promise.allSettled(stores.map((store) => store.sweep())));
    },
    stop: () => stop(),
  };
}
