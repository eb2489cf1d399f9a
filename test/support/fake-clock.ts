import type { Clock } from "../../src/platform/clock.ts";

/** A clock that stands still until it is told to move. */
export interface FakeClock extends Clock {
  /** Callbacks that are still to come. */
  readonly pending: number;
  /**
   * Lets time pass: calls back what falls due, each at its own instant and in order, what is armed on
   * the way included, and lets what follows from it run.
   */
  advance(ms: number): Promise<void>;
  /** Sets the time, as an operator or a time service does: nothing is called back. */
  set(epochMs: number): void;
  /**
   * Resolves once callbacks have been armed with this delay so many times in all: a test waits for the
   * code under test to be waiting.
   */
  armed(delayMs: number, times?: number): Promise<void>;
}

interface Timer {
  readonly dueAt: number;
  readonly callback: () => void;
}

/**
 * @param startAt epoch milliseconds
 * @param ties which goes first of those due at one instant: real timers promise nothing about that
 */
export function createFakeClock(
  startAt = Date.UTC(2026, 0, 15, 12),
  ties: "first-armed" | "last-armed" = "first-armed",
): FakeClock {
  let now = startAt;
  /** How far the time of day was set, all in all. */
  let setBy = 0;
  const timers = new Set<Timer>();
  const armings = createCounter();

  function nextDue(until: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of timers) {
      if (timer.dueAt > until) continue;
      // A set keeps the order of arming.
      const sooner = next === undefined || timer.dueAt < next.dueAt;
      if (sooner || (timer.dueAt === next?.dueAt && ties === "last-armed")) next = timer;
    }
    return next;
  }

  return {
    now: () => now,
    steady: () => now - setBy,
    after(delayMs, callback) {
      const timer: Timer = { dueAt: now + Math.max(0, delayMs), callback };
      timers.add(timer);
      armings.add(delayMs);
      return () => void timers.delete(timer);
    },
    get pending() {
      return timers.size;
    },
    async advance(ms) {
      const until = now + ms;
      await settled();
      for (let timer = nextDue(until); timer !== undefined; timer = nextDue(until)) {
        timers.delete(timer);
        now = Math.max(now, timer.dueAt);
        timer.callback();
        await settled();
      }
      now = Math.max(now, until);
    },
    set(epochMs) {
      setBy += epochMs - now;
      now = epochMs;
    },
    armed: (delayMs, times = 1) => armings.reached(delayMs, times),
  };
}

/** Resolves when every promise that can go on has gone on. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

interface Counter {
  add(key: number): void;
  reached(key: number, times: number): Promise<void>;
}

function createCounter(): Counter {
  const counts = new Map<number, number>();
  const awaited = new Set<{ key: number; times: number; resolve: () => void }>();
  return {
    add(key) {
      const count = (counts.get(key) ?? 0) + 1;
      counts.set(key, count);
      for (const wish of awaited) {
        if (wish.key === key && count >= wish.times) wish.resolve();
      }
    },
    reached(key, times) {
      return new Promise((resolve) => {
        if ((counts.get(key) ?? 0) >= times) resolve();
        else awaited.add({ key, times, resolve });
      });
    },
  };
}
