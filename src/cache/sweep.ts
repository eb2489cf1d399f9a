import type { Clock } from "../process/clock.ts";
import type { Store } from "./store/port.ts";

export interface Sweep {
  readonly start: () => void;
  readonly stop: () => void;
}

const EVERY_MS = 60_000;

/** Removes expired entries from every tier, every minute. */
export function createSweep(stores: readonly Pick<Store, "sweep">[], clock: Clock): Sweep {
  let cancel = (): void => undefined;
  let isStopped = false;

  async function sweepAll(): Promise<void> {
    // A store that is out of order is swept later.
    await Promise.allSettled(stores.map((store) => store.sweep()));
    if (!isStopped) start();
  }
  function start(): void {
    cancel = clock.after(EVERY_MS, () => void sweepAll());
  }

  return {
    start,
    stop() {
      isStopped = true;
      cancel();
    },
  };
}
