/**
 * What one process saw in the last hour, as a schema. Replicas show each other their activities through Redis, and each adds
 * up those of all. An activity is checked and bounded before it is used: a program that can write to Redis must not be able
 * to stop a gateway. Instants are epoch milliseconds.
 */
import { z } from "zod";

import { ORIGINS, type Resource, RESOURCES } from "../../interface/resources.ts";
import { type Clock, pause } from "../../process/clock.ts";
import { bySpan, sumCounts, sumOf } from "./counters.ts";
import { count, instant, mergeProblems, MOST_PROBLEMS, name, PROBLEM } from "./problems.ts";

const MOST_SLOW = 10;

const counts = z.record(name, count);
const series = z.record(z.string().regex(/^\d{1,9}$/), counts);

/** How the latest calls for a resource ended. `failingSince`: the first failure after the latest answer. */
const HEALTH = z.object({
  lastAnswerAt: instant.nullable(),
  lastFailureAt: instant.nullable(),
  lastFailure: name.nullable(),
  failingSince: instant.nullable(),
});
/** A request that waited for the upstream. */
const SLOW = z.object({ query: name, app: name, durationMs: count, at: instant });

const ACTIVITY = z.object({
  process: z.object({ id: name, host: name, version: name, startedAt: instant }),
  /** How far back the counts go: an hour, or less after a start. */
  sinceAt: instant,
  counts: z.record(name, counts),
  /** By period of the chart. */
  series: z.object({ "15m": series, "1h": series, "24h": series }),
  health: z.partialRecord(z.enum(RESOURCES), HEALTH),
  /** Waiting calls, by origin and priority. */
  queue: z.record(z.enum(ORIGINS), counts),
  /** What does not work. */
  outages: z.array(z.object({ what: name, cause: name, meanwhile: name, since: instant })).max(MOST_PROBLEMS),
  problems: z.array(PROBLEM).max(MOST_PROBLEMS),
  slowest: z.array(SLOW).max(MOST_SLOW),
});

export type Activity = z.infer<typeof ACTIVITY>;
export type Health = z.infer<typeof HEALTH>;
export type SlowRequest = z.infer<typeof SLOW>;

/** The activities of all processes, added up. */
export type Together = Omit<Activity, "process"> & { readonly processes: readonly Activity["process"][] };

/**
 * Where the numbers come from. `alone`: the only process, as there is no Redis. `all`: all replicas. `cut-off`: this replica
 * only, because Redis does not answer.
 */
export type Scope = "alone" | "all" | "cut-off";

/** Each replica publishes a text here, which the others read (src/redis/replica-status.ts). */
export interface Board {
  readonly show: (write: () => string) => void;
  readonly look: () => Promise<readonly string[]>;
}

/** The most processes whose activities are read, and the longest text of one. */
const MOST_PROCESSES = 100;
const MOST_BYTES = 1024 * 1024;
/** The other processes publish their activities within this time. */
const PEERS_MS = 200;
/** For this long after a look, the next look finds the texts of the other processes on the board. */
const LOOKED_MS = 3_000;

/**
 * @param board `undefined`: there are no other replicas
 * @returns a function that adds up the activities of all processes. It never rejects.
 */
export function createCollect(
  own: () => Activity,
  board: Board | undefined,
  clock: Clock,
): () => Promise<Together & { readonly scope: Scope }> {
  let lookedAt = Number.NEGATIVE_INFINITY;
  // The board takes a text that does not change for the text of a dead process. The instant changes it.
  board?.show(() => JSON.stringify({ at: clock.now(), activity: own() }));

  async function others(from: Board): Promise<Activity[]> {
    const isFirst = clock.monotonic() > lookedAt + LOOKED_MS;
    let texts = await from.look();
    if (isFirst) {
      await pause(clock, PEERS_MS);
      texts = await from.look();
    }
    lookedAt = clock.monotonic();
    return texts.slice(0, MOST_PROCESSES).flatMap(activityIn);
  }

  return async () => {
    if (board === undefined) return { ...merge([own()]), scope: "alone" };
    try {
      return { ...merge([own(), ...(await others(board))]), scope: "all" };
    } catch {
      return { ...merge([own()]), scope: "cut-off" };
    }
  };
}

/** @returns nothing for a text in another form, such as that of another release */
function activityIn(text: string): Activity[] {
  if (text.length > MOST_BYTES) return [];
  try {
    return [z.object({ activity: ACTIVITY }).parse(JSON.parse(text)).activity];
  } catch {
    return [];
  }
}

/** Adds up activities. Pure. */
export function merge(all: readonly Activity[]): Together {
  // The same outage of several processes is shown once, with its earliest beginning.
  const latestFirst = all.flatMap(({ outages }) => outages).sort((a, b) => b.since - a.since);
  return {
    processes: all.map(({ process }) => process),
    sinceAt: Math.min(...all.map(({ sinceAt }) => sinceAt)),
    counts: sumCounts(all.map((one) => one.counts)),
    series: bySpan((span) => sumCounts(all.map((one) => one.series[span]))),
    health: Object.fromEntries(RESOURCES.flatMap((resource) => healthOf(resource, all))),
    queue: {
      api: sumOf(all.map(({ queue }) => queue.api)),
      images: sumOf(all.map(({ queue }) => queue.images)),
    },
    outages: [...new Map(latestFirst.map((outage) => [outage.what, outage])).values()].toReversed(),
    problems: mergeProblems(all.flatMap(({ problems }) => problems)),
    slowest: slowestOf(all.flatMap(({ slowest }) => slowest)),
  };
}

/** A resource is failing if no process has got an answer since the latest failure in any process. */
function healthOf(resource: Resource, all: readonly Activity[]): [Resource, Health][] {
  const states = all.flatMap(({ health }) => health[resource] ?? []);
  if (states.length === 0) return [];
  const lastAnswerAt = Math.max(0, ...states.map((state) => state.lastAnswerAt ?? 0));
  const [latest] = states.toSorted((a, b) => (b.lastFailureAt ?? 0) - (a.lastFailureAt ?? 0));
  const { lastFailureAt = null, lastFailure = null } = latest ?? {};
  const since = states.flatMap(({ failingSince }) =>
    failingSince !== null && failingSince >= lastAnswerAt ? [failingSince] : [],
  );
  const isFailing = lastFailureAt !== null && lastFailureAt > lastAnswerAt;
  const failingSince = isFailing ? Math.min(lastFailureAt, ...since) : null;
  return [[resource, { lastAnswerAt: lastAnswerAt || null, lastFailureAt, lastFailure, failingSince }]];
}

/** @returns the slowest requests, each query once */
export function slowestOf(requests: readonly SlowRequest[]): SlowRequest[] {
  const slowestLast = requests.toSorted((a, b) => a.durationMs - b.durationMs);
  const byQuery = new Map(slowestLast.map((request) => [request.query, request]));
  return [...byQuery.values()].toReversed().slice(0, MOST_SLOW);
}
