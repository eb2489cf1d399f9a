/**
 * How old the answers were that callers got from the cache, by hour. In the memory of this process: it begins with the
 * process, and forgets hours after a month.
 */

const HOUR_MS = 3_600_000;
const MOST_HOURS = 31 * 24;

/** The upper bounds of the age groups, in seconds; the last group has none. */
const BOUNDS = [60, 300, 900, 3_600, 21_600, 86_400, 604_800] as const;

interface AgesServed {
  /** Epoch milliseconds: nothing is known of the time before. */
  readonly since: number;
  readonly answers: number;
  readonly oldestSeconds: number;
  /** Answers at most so old, and older than the group before; `null`: any age. */
  readonly groups: readonly { readonly upToSeconds: number | null; readonly answers: number }[];
}

export interface ServedAges {
  /** @param at when the request arrived, in epoch milliseconds */
  readonly count: (ageMs: number, at: number) => void;
  /** Counts whole hours: those that begin in the period, and the one in which it begins. */
  readonly between: (from: number, to: number) => AgesServed;
}

interface Hour {
  readonly counts: number[];
  oldestMs: number;
}

/** @param startedAt epoch milliseconds */
export function createServedAges(startedAt: number): ServedAges {
  const hours = new Map<number, Hour>();
  let [current, currentNumber] = [newHour(), Number.NaN];
  let since = startedAt;

  function begin(number: number): void {
    current = hours.get(number) ?? newHour();
    currentNumber = number;
    hours.set(number, current);
    if (hours.size <= MOST_HOURS) return;
    const oldest = Math.min(...hours.keys());
    hours.delete(oldest);
    since = Math.max(since, (oldest + 1) * HOUR_MS);
  }

  return {
    count(ageMs, at) {
      const number = Math.floor(at / HOUR_MS);
      if (number !== currentNumber) begin(number);
      let group = 0;
      while (group < BOUNDS.length && ageMs > (BOUNDS[group] ?? 0) * 1_000) group++;
      current.counts[group] = (current.counts[group] ?? 0) + 1;
      if (ageMs > current.oldestMs) current.oldestMs = ageMs;
    },
    between(from, to) {
      const wanted = [...hours].filter(([number]) => (number + 1) * HOUR_MS > from && number * HOUR_MS < to);
      const ofGroup = (group: number): number =>
        wanted.reduce((sum, [, { counts }]) => sum + (counts[group] ?? 0), 0);
      const groups = [...BOUNDS, null].map((upToSeconds, group) => ({
        upToSeconds,
        answers: ofGroup(group),
      }));
      return {
        since,
        answers: groups.reduce((sum, { answers }) => sum + answers, 0),
        oldestSeconds: Math.ceil(Math.max(0, ...wanted.map(([, { oldestMs }]) => oldestMs)) / 1_000),
        groups,
      };
    },
  };
}

function newHour(): Hour {
  return { counts: [], oldestMs: 0 };
}
