/**
 * Counts what happens in this process, in steps of time. A count has a group and a name, such as `requests` and `cached`, or
 * `app web` and `refused`. The chart shows the names of two groups, `requests` and `calls`. For it, each step of a period is a
 * group, too: `15m 353657160`, with the number of the step since the epoch.
 */

/** How a request ended for its caller. */
export const KINDS = ["cached", "stale", "fetched", "refused", "failed", "mistakes", "gone"] as const;
export type RequestKind = (typeof KINDS)[number];

/** Numbers by group and name. */
export type Counts = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** The periods of the chart, with the length of a step. */
export const SPANS = { "15m": 5_000, "1h": 20_000, "24h": 480_000 } as const;
export type Span = keyof typeof SPANS;
/** The most complete steps of a period. */
export const MOST_STEPS = 180;

/** The counts of the last hour are kept in steps of this length. The oldest one is dropped as a whole. */
const HOUR_STEP_MS = 5 * 60_000;
const HOUR_STEPS = 12;
/** The most names of a group in a step. If there are more, the less frequent half is dropped. */
const MOST_NAMES = 400;
/** The most names of a group that are shown. */
const MOST_SHOWN = 30;

type Group = Map<string, number>;

/** @param now epoch milliseconds */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createCounters(now: () => number) {
  const startedAt = now();
  const lastHour = createSteps(HOUR_STEP_MS, HOUR_STEPS, () => new Map<string, Group>());
  const periods = Object.entries(SPANS).map(([span, stepMs]) => ({
    span,
    steps: createSteps(stepMs, MOST_STEPS + 1, (): Group => new Map()),
  }));

  /** @param at now, in epoch milliseconds */
  function add(at: number, name: string, count: string, by = 1): void {
    const groups = lastHour.at(at);
    const group: Group = groups.get(name) ?? new Map();
    groups.set(name, group);
    increase(group, count, by);
    if (group.size > MOST_NAMES) for (const [rare] of ranked(group).slice(MOST_NAMES / 2)) group.delete(rare);
    if (name !== "requests" && name !== "calls") return;
    for (const { steps } of periods) increase(steps.at(at), count, by);
  }

  /** The counts of the last hour and how far back they go, and those of the periods. */
  function read() {
    const oldest = Math.floor(now() / HOUR_STEP_MS) - HOUR_STEPS + 1;
    const hours = lastHour.read(now()).map(([, groups]) => countsIn([...groups]));
    const steps = periods.flatMap(({ span, steps }) =>
      steps.read(now()).map(([step, group]) => [`${span} ${step}`, group] as const),
    );
    return {
      sinceAt: Math.max(startedAt, oldest * HOUR_STEP_MS),
      counts: sumCounts([...hours, countsIn(steps)]),
    };
  }

  return { add, read };
}

/** Keeps what `create` returns for each of the latest steps of time. */
function createSteps<Step>(stepMs: number, most: number, create: () => Step) {
  /** By the number of the step since the epoch. */
  const kept = new Map<number, Step>();
  let latest: { readonly number: number; readonly step: Step } | undefined;
  function at(now: number): Step {
    const number = Math.floor(now / stepMs);
    if (number === latest?.number) return latest.step;
    // There are later steps if the clock was set back.
    for (const one of kept.keys()) if (one > number || one <= number - most) kept.delete(one);
    const step = kept.get(number) ?? create();
    kept.set(number, step);
    latest = { number, step };
    return step;
  }
  function read(now: number) {
    at(now);
    return [...kept];
  }
  return { at, read };
}

function countsIn(groups: readonly (readonly [string, Iterable<readonly [string, number]>])[]): Counts {
  return Object.fromEntries(groups.map(([name, group]) => [name, Object.fromEntries(group)]));
}

function increase(group: Group, name: string, by: number): void {
  group.set(name, (group.get(name) ?? 0) + by);
}

const ranked = (group: Group) => [...group].sort(([, a], [, b]) => b - a);

/** @returns the sum of each count. Each group has only its most frequent names, the most frequent first. */
export function sumCounts(all: readonly Counts[]): Counts {
  const sums = new Map<string, Group>();
  for (const [group, counts] of all.flatMap((one) => Object.entries(one))) {
    const sum = sums.get(group) ?? new Map<string, number>();
    for (const [name, number] of Object.entries(counts)) increase(sum, name, number);
    sums.set(group, sum);
  }
  return countsIn([...sums].map(([group, sum]) => [group, ranked(sum).slice(0, MOST_SHOWN)]));
}
