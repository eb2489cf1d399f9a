/**
 * What one process saw in the last hour. Replicas show each other their activities through Redis, and each one adds
 * them up. Instants are epoch milliseconds.
 */
import type { CurrentOutage } from "../../telemetry/events.ts";
import type { StatusTexts } from "../../redis/replica-status.ts";
import { sumCounts } from "./counters.ts";
import { mergeProblems } from "./recent-problems.ts";
import { type Recorder, slowestOf } from "./recorder.ts";

export type Activity = ReturnType<Recorder["seen"]> & {
  readonly process: {
    readonly id: string;
    readonly host: string;
    readonly version: string;
    readonly startedAt: number;
  };
  /** What does not work. */
  readonly outages: readonly CurrentOutage[];
};

/** The activities of some processes, added up. */
export type Together = ReturnType<typeof merge>;

/**
 * Where the numbers come from. `alone`: the only process, as there is no Redis. `all`: all replicas. `cut-off`: this replica
 * only, because Redis does not answer.
 */
export type Scope = "alone" | "all" | "cut-off";

/** Changes with the type `Activity`: a gateway of another release may write another form. */
const FORM = 2;

/**
 * @param others the texts of the other replicas; `undefined`: there are none
 * @returns a function that adds up the activities of all processes. It never rejects.
 */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createCollect(own: () => Activity, others: StatusTexts | undefined) {
  others?.show(() => JSON.stringify({ form: FORM, activity: own() }));
  return async (): Promise<Together> => {
    if (others === undefined) return merge("alone", [own()]);
    const texts = await others.look().catch(() => undefined);
    if (texts === undefined) return merge("cut-off", [own()]);
    return merge("all", [own(), ...texts.flatMap(activityIn)]);
  };
}

/** @returns nothing for a text in another form. Each text is sealed, so only a gateway can have written it. */
function activityIn(text: string): Activity[] {
  const { form, activity }: { form?: unknown; activity: Activity } = JSON.parse(text);
  return form === FORM ? [activity] : [];
}

/** Adds up activities. Pure. */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function merge(scope: Scope, all: readonly Activity[]) {
  // The same outage of several processes is shown once, with its earliest beginning.
  const latestFirst = all.flatMap(({ outages }) => outages).sort((a, b) => b.since - a.since);
  const answers = all.flatMap(({ answeredAt }) => Object.entries(answeredAt));
  return {
    scope,
    processes: all.map(({ process }) => process),
    sinceAt: Math.min(...all.map(({ sinceAt }) => sinceAt)),
    counts: sumCounts(all.map(({ counts }) => counts)),
    /** When the API answered last, by resource. */
    answeredAt: Object.fromEntries(answers.sort(([, a], [, b]) => a - b)),
    outages: [...new Map(latestFirst.map((outage) => [outage.what, outage])).values()].toReversed(),
    problems: mergeProblems(all.flatMap(({ problems }) => problems)),
    slowest: slowestOf(all.flatMap(({ slowest }) => slowest)),
  };
}
