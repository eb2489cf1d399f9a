/**
 * How old the cached answers were that callers got, by hour. The counts are in the memory of this process. They begin with
 * the process, and are dropped after a month.
 */
const HOUR_MS = 3_600_000;
const MOST_HOURS = 31 * 24;

/** The upper bounds of the age groups, in seconds; the last group has none. */
const BOUNDS = [60, 300, 900, 3_600, 21_600, 86_400, 604_800] as const;
const GROUPS: readonly (number | null)[] = [...BOUNDS, null];

/** What one process counted. */
export interface AgesByHour {
  /** Epoch milliseconds. Nothing is known about the time before. */
  readonly since: number;
  /** For each hour: its number since the epoch, its answers by age group, and the greatest age in milliseconds. */
  readonly hours: readonly (readonly [number, readonly number[], number])[];
}

export interface AgesServed {
  readonly answers: number;
  readonly oldestSeconds: number;
  /** Answers up to this age that are older than the bound of the group before; `null`: no upper bound. */
  readonly groups: readonly { readonly upToSeconds: number | null; readonly answers: number }[];
}

export interface ServedAges {
  /** @param at when the request arrived, in epoch milliseconds */
  readonly count: (ageMs: number, at: number) => void;
  readonly read: () => AgesByHour;
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
    read: () => ({
      since,
      hours: [...hours].map(([number, { counts, oldestMs }]) => [
        number,
        Array.from(GROUPS, (_, group) => counts[group] ?? 0),
        oldestMs,
      ]),
    }),
  };
}

/** Adds up the counts of processes, in whole hours: each hour that overlaps the period counts. */
export function agesBetween(all: readonly AgesByHour[], from: number, to: number): AgesServed {
  const wanted = all
    .flatMap(({ hours }) => hours)
    .filter(([number]) => (number + 1) * HOUR_MS > from && number * HOUR_MS < to);
  const groups = GROUPS.map((upToSeconds, group) => ({
    upToSeconds,
    answers: wanted.reduce((sum, [, counts]) => sum + (counts[group] ?? 0), 0),
  }));
  return {
    answers: groups.reduce((sum, { answers }) => sum + answers, 0),
    oldestSeconds: Math.ceil(Math.max(0, ...wanted.map(([, , oldestMs]) => oldestMs)) / 1_000),
    groups,
  };
}

function newHour(): Hour {
  return { counts: [], oldestMs: 0 };
}
