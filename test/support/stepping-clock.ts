import { systemClock, type Clock } from "../../src/process/clock.ts";

/** A clock whose time changes only by `pass`. Timers run by the system's clock. */
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
    machine: systemClock.machine,
    pass: (ms) => void (now += ms),
  };
}

/** The system's clock, but `leap` moves it forward. */
export function createLeapingClock(): Clock & { readonly leap: (ms: number) => void } {
  let ahead = 0;
  return {
    now: () => systemClock.now() + ahead,
    monotonic: () => systemClock.monotonic() + ahead,
    precise: () => systemClock.precise() + ahead,
    after: systemClock.after,
    machine: systemClock.machine,
    leap: (ms) => void (ahead += ms),
  };
}
