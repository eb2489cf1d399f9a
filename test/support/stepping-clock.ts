import { systemClock } from "../../src/process/clock.ts";

export type SteppingClock = ReturnType<typeof createSteppingClock>;

/** A clock whose time changes only by `pass`. Timers run by the system's clock. */
export function createSteppingClock() {
  let now = Date.now();
  return {
    ...systemClock,
    now: () => now,
    monotonic: () => now,
    precise: () => now,
    pass: (ms: number) => void (now += ms),
  };
}

/** The system's clock, but `leap` moves it forward. */
export function createLeapingClock() {
  let ahead = 0;
  return {
    ...systemClock,
    now: () => systemClock.now() + ahead,
    monotonic: () => systemClock.monotonic() + ahead,
    precise: () => systemClock.precise() + ahead,
    leap: (ms: number) => void (ahead += ms),
  };
}
