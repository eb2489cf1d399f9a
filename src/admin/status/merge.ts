/** Adds up the activities of several processes. Pure. */
import { type OriginName, ORIGINS, type Outcome, OUTCOMES } from "../../types.ts";
import { slowestOf, sumApps, sumCalls, sumCounts } from "./hour.ts";
import { sumOf } from "./top.ts";
import type { Activity, CurrentOutage, RecentProblem, Series } from "./types.ts";
import { combineHealth } from "./upstream-health.ts";
import { type Resource, RESOURCES } from "../../interface/resources.ts";

const MOST_LISTED = 30;
const MOST_PROBLEMS = 60;

/** @param all the first one is the activity of this process */
export function merge(all: readonly [Activity, ...Activity[]]): Activity {
  const [own] = all;
  return {
    processes: all.flatMap(({ processes }) => processes),
    sinceAt: Math.min(...all.map(({ sinceAt }) => sinceAt)),
    perSecond: sumCounts(all.map(({ perSecond }) => perSecond)),
    series: sumSeries(
      own.series,
      all.map(({ series }) => series),
    ),
    outcomes: sumCounts(all.map(({ outcomes }) => outcomes)),
    saved: sumCounts(all.map(({ saved }) => saved)),
    apps: sumApps(all.flatMap(({ apps }) => apps)),
    asked: sumOf(
      all.map(({ asked }) => asked),
      MOST_LISTED,
    ),
    slowest: slowestOf(all.flatMap(({ slowest }) => slowest)),
    upstream: upstreamOf(all),
    outages: outagesOf(all.flatMap(({ outages }) => outages)),
    problems: problemsOf(all.flatMap(({ problems }) => problems)),
    queue: queueOf(all),
    callsPerSecond: { api: rateOf("api", all), images: rateOf("images", all) },
  };
}

/** Adds series step by step. The steps are those of this process; another process may be a few steps ahead or behind. */
function sumSeries(own: Series, all: readonly Series[]): Series {
  const same = all.filter(({ stepMs }) => stepMs === own.stepMs);
  const length = Math.max(0, ...same.flatMap(({ counts }) => Object.values(counts).map((of) => of.length)));
  const sums = OUTCOMES.flatMap((outcome): [Outcome, number[]][] => {
    const present = same.filter(({ counts }) => counts[outcome] !== undefined);
    if (present.length === 0) return [];
    const values = Array.from({ length }, (_, index) => {
      const step = own.lastStep - (length - 1 - index);
      return present.reduce((sum, one) => sum + countAt(one, outcome, step), 0);
    });
    return [[outcome, values]];
  });
  return { ...own, counts: Object.fromEntries(sums) };
}

function countAt({ lastStep, counts }: Series, outcome: Outcome, step: number): number {
  const values = counts[outcome] ?? [];
  return values[values.length - 1 - (lastStep - step)] ?? 0;
}

function upstreamOf(all: readonly Activity[]): Activity["upstream"] {
  const known = RESOURCES.flatMap((resource): [Resource, NonNullable<Activity["upstream"][Resource]>][] => {
    const of = all.flatMap(({ upstream }) => upstream[resource] ?? []);
    return of.length === 0 ? [] : [[resource, { ...sumCalls(of), ...combineHealth(of) }]];
  });
  return Object.fromEntries(known);
}

/** @returns each outage once, with its earliest beginning */
function outagesOf(outages: readonly CurrentOutage[]): readonly CurrentOutage[] {
  const earliestFirst = outages.toSorted((a, b) => a.since - b.since);
  const kinds = new Map(earliestFirst.toReversed().map((outage) => [outage.what, outage]));
  return [...kinds.values()];
}

/** @returns each kind of problem once, the latest first */
function problemsOf(problems: readonly RecentProblem[]): readonly RecentProblem[] {
  const kinds = Map.groupBy(problems, ({ from, what }) => `${from} ${what}`);
  return [...kinds.values()]
    .flatMap((of) => {
      const [latest] = of.toSorted((a, b) => b.lastAt - a.lastAt);
      if (latest === undefined) return [];
      const count = of.reduce((sum, one) => sum + one.count, 0);
      return [{ ...latest, count, firstAt: Math.min(...of.map(({ firstAt }) => firstAt)) }];
    })
    .sort((a, b) => b.lastAt - a.lastAt)
    .slice(0, MOST_PROBLEMS);
}

function rateOf(origin: OriginName, all: readonly [Activity, ...Activity[]]): readonly number[] {
  const rates = all.map(({ callsPerSecond }) => callsPerSecond[origin]);
  return all[0].callsPerSecond[origin].map((_, at) => rates.reduce((sum, rate) => sum + (rate[at] ?? 0), 0));
}

function queueOf(all: readonly Activity[]): Activity["queue"] {
  const sumAt = (origin: OriginName): Record<string, number> =>
    sumCounts(all.map(({ queue }) => queue[origin] ?? {}));
  return Object.fromEntries(ORIGINS.map((origin) => [origin, sumAt(origin)]));
}
