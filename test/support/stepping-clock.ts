import { systemClock, type Clock } from "../../src/process/clock.ts";

/** A clock whose time stands still until told how much has passed; what waits, waits by the system's clock. */
export interface SteppingClock extends Clock {
  readonly pass: (ms: number) => void;
}

export function createSteppingClock(): SteppingClock {
  let now = Date.now();
  return {
    now: () => now,
    monotonic: () => now,
    precise: () => now,
    after: systemClock.after,
    pass: (ms) => void (now += ms),
  };
}
