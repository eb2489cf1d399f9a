import type { Clock } from "../../src/platform/clock.ts";

/** A clock that only moves when told. */
export interface FakeClock extends Clock {
  /** Moves on, calling back what falls due, in order, and lets what follows from it happen. */
  readonly advance: (ms: number) => Promise<void>;
  /** Sets the clock to another time, as an operator might, without anything falling due. */
  readonly setTo: (instant: number) => void;
}

export function createFakeClock(startAt = 1_000_000): FakeClock {
  let now = startAt;
  let timers: { readonly at: number; readonly callback: () => void }[] = [];

  return {
    now: () => now,
    after(delayMs, callback) {
      const timer = { at: now + delayMs, callback };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    setTo: (instant) => {
      now = instant;
    },
    async advance(ms) {
      const end = now + ms;
      await settled();
      for (;;) {
        const [next] = timers.filter(({ at }) => at <= end).toSorted((a, b) => a.at - b.at);
        if (next === undefined) break;
        timers = timers.filter((other) => other !== next);
        now = Math.max(now, next.at);
        next.callback();
        await settled();
      }
      now = end;
    },
  };
}

/** Lets everything run that does not wait for time or the outside. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => void setImmediate(resolve));
}
