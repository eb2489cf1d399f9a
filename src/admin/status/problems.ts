/**
 * Remembers what went wrong lately in this process: errors and stale answers of each app with their causes, failed calls,
 * warnings and outages. The sentences are made from this.
 */
import type { Outage } from "../../telemetry/events.ts";
import { type CurrentOutage, MOST_PROBLEMS, type RecentProblem } from "./shapes.ts";

const HOUR_MS = 60 * 60_000;
/** If a problem has not occurred for this long, its next occurrence starts a new episode, with a new `firstAt`. */
const GAP_MS = 10 * 60_000;
/** As `GAP_MS`, if the API has answered in between. */
const ANSWERED_GAP_MS = 30_000;
/** An outage that returns within this time is the same outage. On a full disk, a short write may succeed in between. */
const SAME_OUTAGE_MS = 60_000;
/** The names of circuit outages begin with this. The budgets know them (src/ratelimit/circuits/outages.ts). */
const UPSTREAM = "upstream ";

type Kind = Omit<RecentProblem, "query" | "count" | "firstAt" | "lastAt">;

export interface Problems {
  /** @param query an example of a query with this problem */
  readonly add: (kind: Partial<Kind> & Pick<Kind, "from" | "what">, query?: string) => void;
  /** The API has answered a call for this resource. */
  readonly answered: (resource: string) => void;
  readonly outageBegan: (outage: Outage) => void;
  readonly outageEnded: (what: string) => void;
  readonly read: () => { readonly problems: RecentProblem[]; readonly outages: CurrentOutage[] };
}

export function createProblems(now: () => number): Problems {
  /** Ordered by the last occurrence, oldest first. */
  const problems = new Map<string, RecentProblem>();
  const answeredAt = new Map<string, number>();
  const outages = new Map<string, CurrentOutage & { endedAt: number | undefined }>();

  function isSameEpisode({ lastAt, resource }: RecentProblem): boolean {
    return now() - lastAt < ((answeredAt.get(resource ?? "") ?? 0) > lastAt ? ANSWERED_GAP_MS : GAP_MS);
  }

  function add(given: Partial<Kind> & Pick<Kind, "from" | "what">, query: string | null = null): void {
    const { from, what, ended = null, app = null, resource = null, status = null } = given;
    const kind = { from, what, ended, app, resource, status };
    const at = now();
    const key = keyOf(kind);
    const known = problems.get(key);
    const { count, firstAt } =
      known !== undefined && isSameEpisode(known) ? known : { count: 0, firstAt: at };
    problems.delete(key);
    if (problems.size >= MOST_PROBLEMS) problems.delete(problems.keys().next().value ?? "");
    problems.set(key, { ...kind, query, count: count + 1, firstAt, lastAt: at });
  }

  return {
    add,
    answered: (resource) => void answeredAt.set(resource, now()),
    outageBegan({ what, cause, meanwhile }) {
      const known = outages.get(what);
      if (known !== undefined && known.endedAt === undefined) return;
      const isSame = now() - (known?.endedAt ?? 0) < SAME_OUTAGE_MS;
      const since = isSame ? (known?.since ?? now()) : now();
      outages.set(what, { what, cause, meanwhile, since, endedAt: undefined });
      add({ from: "gateway", what: `${what} does not work: ${cause}.` });
    },
    outageEnded(what) {
      const known = outages.get(what);
      if (known !== undefined) known.endedAt = now();
    },
    read: () => ({
      problems: [...problems.values()].filter(({ lastAt }) => now() - lastAt < HOUR_MS).toReversed(),
      outages: [...outages.values()]
        .filter(({ what, endedAt }) => endedAt === undefined && !what.startsWith(UPSTREAM))
        .map(({ what, cause, meanwhile, since }) => ({ what, cause, meanwhile, since })),
    }),
  };
}

function keyOf({ from, what, ended, app, resource, status }: Kind): string {
  return [from, what, ended, app, resource, status].join(" ");
}

/** Adds up the same problems of several processes. @returns the latest first */
export function mergeProblems(problems: readonly RecentProblem[]): RecentProblem[] {
  return [...Map.groupBy(problems, keyOf).values()]
    .flatMap((same) =>
      same
        .toSorted((a, b) => b.lastAt - a.lastAt)
        .slice(0, 1)
        .map((latest) => ({
          ...latest,
          count: same.reduce((sum, { count }) => sum + count, 0),
          firstAt: Math.min(...same.map(({ firstAt }) => firstAt)),
        })),
    )
    .sort((a, b) => b.lastAt - a.lastAt)
    .slice(0, MOST_PROBLEMS);
}

/** Errors or stale answers that an app got for one reason, from `firstAt` on. */
export interface Harm extends Pick<RecentProblem, "what" | "count" | "firstAt" | "lastAt"> {
  readonly app: string;
  readonly resource: string;
  /** 200: stale answers. */
  readonly status: number;
}

/** @returns the harm of the last ten minutes, without the mistakes of the apps themselves */
export function harmsIn(problems: readonly RecentProblem[], at: number): Harm[] {
  return problems.flatMap(({ ended, app, resource, status, what, count, firstAt, lastAt }) =>
    app === null || resource === null || status === null || ended === "mistakes" || at - lastAt >= GAP_MS
      ? []
      : [{ app, resource, status, what, count, firstAt, lastAt }],
  );
}
