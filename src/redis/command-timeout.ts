/** The timeout of Redis commands: the one in the settings, or one that follows the measured round trips. */
const LEAST_MS = 50;
/** The longest timeout, and the timeout before the first reply. */
const MOST_MS = 1_000;
const TIMES = 4;
const REMEMBERED = 200;
const PERCENTILE = 0.99;
/** Sorts only after this many replies, because sorting at every reply would cost more than the command. */
const EVERY = 20;

export interface CommandTimeout {
  readonly ms: () => number;
  /** The longest timeout that is possible. */
  readonly mostMs: number;
  /** A command on an open connection got a reply, in time or late. */
  readonly replied: (durationMs: number) => void;
}

/** @param setMs `null`: four times the 99th percentile of the last round trips, from 50 ms to a second */
export function createCommandTimeout(setMs: number | null): CommandTimeout {
  if (setMs !== null) return { ms: () => setMs, mostMs: setMs, replied: () => undefined };
  const last: number[] = [];
  let replies = 0;
  let ms = MOST_MS;
  return {
    ms: () => ms,
    mostMs: MOST_MS,
    replied(durationMs) {
      last[replies++ % REMEMBERED] = durationMs;
      if (replies > EVERY && replies % EVERY !== 0 && durationMs < ms) return;
      const sorted = last.toSorted((a, b) => a - b);
      const percentile = sorted[Math.floor((sorted.length - 1) * PERCENTILE)] ?? 0;
      ms = Math.min(MOST_MS, Math.max(LEAST_MS, Math.ceil(TIMES * percentile)));
    },
  };
}
