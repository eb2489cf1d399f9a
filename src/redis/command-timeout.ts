/** The timeout of Redis commands: the one in the settings, or one that follows the measured round trips. */
const LEAST_MS = 50;
/** The timeout before the first reply. It is short, because the budget counts calls longer by twice the longest timeout. */
const FIRST_MS = 250;
const MOST_MS = 1_000;
const TIMES = 4;
const REMEMBERED = 200;
const PERCENTILE = 0.99;
/** Sorts only after this many replies, because sorting at every reply would cost more than the command. */
const EVERY = 20;

export type CommandTimeout = ReturnType<typeof createCommandTimeout>;

/** @param setMs `null`: four times the 99th percentile of the last round trips, from 50 ms to a second */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createCommandTimeout(setMs: number | null) {
  const last: number[] = [];
  let replies = 0;
  let ms = setMs ?? FIRST_MS;
  return {
    ms: (): number => ms,
    /** The longest timeout that is possible. */
    mostMs: setMs ?? MOST_MS,
    /** A command on an open connection got a reply, in time or late. */
    replied(durationMs: number): void {
      if (setMs !== null) return;
      last[replies++ % REMEMBERED] = durationMs;
      if (replies > EVERY && replies % EVERY !== 0 && durationMs < ms) return;
      const sorted = last.toSorted((a, b) => a - b);
      const percentile = sorted[Math.floor((sorted.length - 1) * PERCENTILE)] ?? 0;
      ms = Math.min(MOST_MS, Math.max(LEAST_MS, Math.ceil(TIMES * percentile)));
    },
  };
}
