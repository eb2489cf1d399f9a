/** A clock that moves only when the test says so. */
export type FakeClock = ReturnType<typeof createFakeClock>;

interface Timer {
  readonly dueAt: number;
  readonly callback: () => void;
}

/** How long the machine has been up when a test begins. */
const UP_AT_START_MS = 3_600_000;

/** @param startAt epoch milliseconds */
export function createFakeClock(
  startAt = Date.UTC(2026, 0, 15, 12),
  /** Waits until the code that a callback resumes has run, before the next callback. */
  letRun = settled,
) {
  let now = startAt;
  /** By how much the time of day was set in total. */
  let setBy = 0;
  /** The next one is the last element. */
  const timers: Timer[] = [];
  const armings = createCounter();

  function arm(timer: Timer): void {
    let index = timers.length;
    while (index > 0 && timer.dueAt >= (timers[index - 1]?.dueAt ?? 0)) index--;
    timers.splice(index, 0, timer);
  }

  function cancel(timer: Timer): void {
    const index = timers.lastIndexOf(timer);
    if (index >= 0) timers.splice(index, 1);
  }

  return {
    now: () => Math.floor(now),
    monotonic: () => Math.floor(now - setBy),
    precise: () => now - setBy,
    after: (delayMs: number, callback: () => void) => {
      // As with a real timer, the time has come for whoever looks at the clock in the callback.
      const timer: Timer = { dueAt: now + Math.max(0, Math.ceil(delayMs)), callback };
      arm(timer);
      armings.add(delayMs);
      return () => cancel(timer);
    },
    /** Callbacks that are still to come. */
    get pending() {
      return timers.length;
    },
    /**
     * Lets time pass. Each callback that falls due is called at its own instant, in order, also those that are armed
     * meanwhile. The code that it resumes runs before the next one.
     */
    async advance(ms: number) {
      const until = now + ms;
      await letRun();
      for (let timer = timers.at(-1); timer !== undefined && timer.dueAt <= until; timer = timers.at(-1)) {
        timers.pop();
        now = Math.max(now, timer.dueAt);
        timer.callback();
        await letRun();
      }
      now = Math.max(now, until);
    },
    /** Sets the time, as an operator or a time service does: nothing is called back. */
    set(epochMs: number) {
      setBy += epochMs - now;
      now = epochMs;
    },
    machine: {
      boot: "the one start of the machine",
      up: () => Math.floor(now - setBy) - startAt + UP_AT_START_MS,
    },
    /**
     * Resolves once callbacks have been armed with this delay so many times in all: a test waits for the
     * code under test to be waiting.
     */
    armed: (delayMs: number, times = 1) => armings.reached(delayMs, times),
  };
}

/** Resolves when every promise chain that can continue has continued. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * Resolves when every promise chain that waits only for other promises has continued. Use it instead of `settled` where
 * nothing from outside the process is awaited, because it is much faster.
 */
export function promisesSettled(): Promise<void> {
  // Node empties the queue of promises before it turns to the next tick.
  return new Promise((resolve) => process.nextTick(resolve));
}

export type Counter = ReturnType<typeof createCounter>;

/** Counts by key. A test can wait until a key has a count. */
export function createCounter() {
  const counts = new Map<number, number>();
  let changed = Promise.withResolvers<void>();
  return {
    add: (key: number): void => {
      counts.set(key, (counts.get(key) ?? 0) + 1);
      changed.resolve();
      changed = Promise.withResolvers();
    },
    reached: async (key: number, times: number): Promise<void> => {
      while ((counts.get(key) ?? 0) < times) await changed.promise;
    },
  };
}
