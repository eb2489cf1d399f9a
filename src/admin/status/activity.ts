/**
 * What one process saw in the last hour. Replicas show each other their activities through Redis, and each one adds
 * them up. Instants are epoch milliseconds.
 */
import { type OriginName, type Resource, RESOURCES } from "../../interface/resources.ts";
import { type Clock, pause } from "../../process/clock.ts";
import type { CurrentOutage } from "../../telemetry/events.ts";
import { bySpan, sumCounts, sumOf } from "./counters.ts";
import { mergeProblems } from "./problems.ts";
import { type Health, type Recorder, slowestOf } from "./recorder.ts";

export type Activity = ReturnType<Recorder["seen"]> & {
  readonly process: {
    readonly id: string;
    readonly host: string;
    readonly version: string;
    readonly startedAt: number;
  };
  /** Waiting calls, by origin and priority. */
  readonly queue: Readonly<Record<OriginName, Readonly<Record<string, number>>>>;
  /** What does not work. */
  readonly outages: readonly CurrentOutage[];
};

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

/** Changes with the type `Activity`: a gateway of another release may write another form. */
const FORM = 1;
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
  board?.show(() => JSON.stringify({ at: clock.now(), form: FORM, activity: own() }));

  async function others(from: Board): Promise<Activity[]> {
    const isFirst = clock.monotonic() > lookedAt + LOOKED_MS;
    let texts = await from.look();
    if (isFirst) {
      await pause(clock, PEERS_MS);
      texts = await from.look();
    }
    lookedAt = clock.monotonic();
    return texts.flatMap(activityIn);
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

/** @returns nothing for a text in another form. Each text is sealed, so only a gateway can have written it. */
function activityIn(text: string): Activity[] {
  const { form, activity }: { form?: unknown; activity: Activity } = JSON.parse(text);
  return form === FORM ? [activity] : [];
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
