/**
 * Counts what happens in this process. A count has a group and a name, such as `requests` and `cached`, or `app web` and
 * `refused`. Two groups, `requests` and `calls`, also have a series for each period that the status page shows.
 */

/** How a request ended for its caller. */
export const KINDS = ["cached", "stale", "fetched", "refused", "failed", "mistakes", "gone"] as const;
export type Kind = (typeof KINDS)[number];

/** Numbers by group and name. */
export type Counts = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** Counts over time. Names that did not occur are left out. */
export interface Series {
  readonly stepMs: number;
  /** The number of the last complete step since the epoch. */
  readonly lastStep: number;
  readonly counts: Record<string, number[]>;
}

export interface Counters {
  readonly add: (group: string, name: string, by?: number) => void;
  /** Called every second. */
  readonly tick: (now: number) => void;
  /** The counts of the last hour. */
  readonly hour: () => { readonly sinceAt: number; readonly counts: Counts };
  /** One for each of `SPANS`. */
  readonly series: () => Series[];
}

/** The periods of the chart, with the length of a step. Each has `MOST_STEPS` steps. */
export const SPANS = { "15m": 5_000, "1h": 20_000, "24h": 480_000 } as const;
export const MOST_STEPS = 180;

/** The hour consists of slots. The oldest one is dropped as a whole. */
const SLOT_MS = 5 * 60_000;
const SLOTS = 12;
/** The most names of a group in a slot. If there are more, the less frequent half is dropped. */
const MOST_NAMES = 400;
/** The most groups in a slot. Counts of further groups are dropped. */
const MOST_GROUPS = 2_000;

type Group = Map<string, number>;

export function createCounters(startedAt: number): Counters {
  let slot = { beganAt: startedAt, groups: new Map<string, Group>() };
  let slots = [slot];
  const rings = Object.values(SPANS).map((stepMs) => ({
    stepMs,
    step: Math.floor(startedAt / stepMs),
    current: new Map() as Group,
    /** The counts of each complete step, the newest last. */
    past: [] as Group[],
  }));

  function groupOf(name: string): Group | undefined {
    const known = slot.groups.get(name);
    if (known !== undefined || slot.groups.size >= MOST_GROUPS) return known;
    const group: Group = new Map();
    slot.groups.set(name, group);
    return group;
  }

  return {
    add(groupName, name, by = 1) {
      const group = groupOf(groupName);
      if (group !== undefined) {
        increase(group, name, by);
        if (group.size > MOST_NAMES) dropRare(group);
      }
      if (groupName === "requests" || groupName === "calls")
        for (const { current } of rings) increase(current, name, by);
    },
    tick(now) {
      for (const ring of rings) {
        const step = Math.floor(now / ring.stepMs);
        // The process was suspended, or its clock was set: the series starts again.
        if (step < ring.step || step > ring.step + MOST_STEPS)
          Object.assign(ring, { step, past: [], current: new Map() });
        for (; ring.step < step; ring.step++) {
          ring.past = [...ring.past, ring.current].slice(-MOST_STEPS);
          ring.current = new Map();
        }
      }
      const age = now - slot.beganAt;
      if (age >= 0 && age < SLOT_MS) return;
      slot = { beganAt: now, groups: new Map() };
      slots = [slot, ...slots].slice(0, SLOTS);
    },
    hour: () => ({
      sinceAt: slots.at(-1)?.beganAt ?? startedAt,
      counts: sumCounts(
        slots.map(({ groups }) =>
          Object.fromEntries([...groups].map(([name, group]) => [name, Object.fromEntries(group)])),
        ),
      ),
    }),
    series: () =>
      rings.map(({ stepMs, step, past }) => {
        const names = [...new Set(past.flatMap((counts) => [...counts.keys()]))];
        const counts = names.map((name) => [name, past.map((of) => of.get(name) ?? 0)]);
        return { stepMs, lastStep: step - 1, counts: Object.fromEntries(counts) };
      }),
  };
}

function increase(group: Group, name: string, by: number): void {
  group.set(name, (group.get(name) ?? 0) + by);
}

function dropRare(group: Group): void {
  const ranked = [...group].sort(([, a], [, b]) => b - a);
  for (const [name] of ranked.slice(MOST_NAMES / 2)) group.delete(name);
}

export function sumCounts(all: readonly Counts[]): Counts {
  const sums: Record<string, Record<string, number>> = {};
  for (const [name, group] of all.flatMap((counts) => Object.entries(counts)))
    sums[name] = sumOf([sums[name] ?? {}, group]);
  return sums;
}

/** @returns the sum of each number by name */
export function sumOf(all: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const [name, number] of all.flatMap((counts) => Object.entries(counts)))
    sums[name] = (sums[name] ?? 0) + number;
  return sums;
}

/** Adds series step by step. The steps are those of the first one; others may be a few steps ahead or behind. */
export function sumSeries([own, ...others]: readonly [Series, ...Series[]]): Series {
  const all = [own, ...others.filter(({ stepMs }) => stepMs === own.stepMs)];
  const names = [...new Set(all.flatMap(({ counts }) => Object.keys(counts)))];
  const length = Math.max(0, ...all.flatMap(({ counts }) => Object.values(counts).map((of) => of.length)));
  const sums = names.map((name) => [
    name,
    Array.from({ length }, (_, index) => {
      const step = own.lastStep - (length - 1 - index);
      return all.reduce((sum, one) => sum + countAt(one, name, step), 0);
    }),
  ]);
  return { ...own, counts: Object.fromEntries(sums) };
}

function countAt({ lastStep, counts }: Series, name: string, step: number): number {
  const values = counts[name] ?? [];
  return values[values.length - 1 - (lastStep - step)] ?? 0;
}
