/**
 * Remembers what went wrong lately in this process: errors and stale answers of each app with their causes, failed calls,
 * warnings and outages. The sentences are made of this.
 */
import type { Resource } from "../../interface/resources.ts";

/** A kind of problem, how often it occurred since `firstAt`, and the latest example. */
export interface RecentProblem {
  /** `caller`: a request without a new answer; `upstream`: a call that failed; `gateway`: a warning in the log. */
  readonly from: "caller" | "upstream" | "gateway";
  /** The code of the problem, the failure of the call, or the text of the warning. */
  readonly what: string;
  /** How the requests ended. */
  readonly ended: "stale" | "refused" | "failed" | "mistakes" | null;
  readonly app: string | null;
  readonly resource: Resource | "none" | null;
  readonly status: number | null;
  readonly query: string | null;
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
  /** Whether the API has answered the same process for this resource since. */
  readonly isAnswered: boolean;
}

const MOST_PROBLEMS = 500;
export const HOUR_MS = 60 * 60_000;
/** If a problem has not occurred for this long, its next occurrence starts a new episode, with a new `firstAt`. */
const GAP_MS = 10 * 60_000;
/** As `GAP_MS`, if the API has answered in between. */
const ANSWERED_GAP_MS = 30_000;

/** What tells a problem from another one. */
type Kind = Omit<RecentProblem, "query" | "count" | "firstAt" | "lastAt" | "isAnswered">;
const NOTHING = { ended: null, app: null, resource: null, status: null };

// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createProblems(now: () => number) {
  /** Ordered by the last occurrence, oldest first. */
  const problems = new Map<string, RecentProblem>();
  /** When the API answered a call for each resource. */
  const answeredAt = new Map<string, number>();

  const isAnswered = ({ lastAt, resource }: RecentProblem): boolean =>
    (answeredAt.get(resource ?? "") ?? 0) > lastAt;
  const isSameEpisode = (problem: RecentProblem): boolean =>
    now() - problem.lastAt < (isAnswered(problem) ? ANSWERED_GAP_MS : GAP_MS);

  /** @param query an example of a query with this problem */
  function add(given: Partial<Kind> & Pick<Kind, "from" | "what">, query: string | null = null): void {
    const at = now();
    const kind = { ...NOTHING, ...given };
    const key = keyOf(kind);
    const before = problems.get(key);
    const { count, firstAt } = before && isSameEpisode(before) ? before : { count: 0, firstAt: at };
    problems.delete(key);
    if (problems.size >= MOST_PROBLEMS) problems.delete(problems.keys().next().value ?? "");
    problems.set(key, { ...kind, query, count: count + 1, firstAt, lastAt: at, isAnswered: false });
  }
  /** The API has answered a call for this resource. */
  const answered = (resource: Resource) => void answeredAt.set(resource, now());
  /** The problems of the last hour, the latest first, and when the API answered last. */
  const read = () => ({
    problems: [...problems.values()]
      .filter(({ lastAt }) => now() - lastAt < HOUR_MS)
      .map((problem) => ({ ...problem, isAnswered: isAnswered(problem) }))
      .toReversed(),
    answeredAt: Object.fromEntries(answeredAt),
  });
  return { add, answered, read };
}

function keyOf({ from, what, ended, app, resource, status }: Kind): string {
  return [from, what, ended, app, resource, status].join(" ");
}

/** Adds up the same problems of several processes. @returns the latest first */
export function mergeProblems(problems: readonly RecentProblem[]): RecentProblem[] {
  const latestFirst = problems.toSorted((a, b) => b.lastAt - a.lastAt);
  const groups = [...Map.groupBy(latestFirst, keyOf).values()].slice(0, MOST_PROBLEMS);
  return groups.flatMap(([latest, ...earlier]) => {
    if (latest === undefined) return [];
    const count = earlier.reduce((sum, one) => sum + one.count, latest.count);
    const firstAt = Math.min(latest.firstAt, ...earlier.map((one) => one.firstAt));
    return [{ ...latest, count, firstAt, isAnswered: [latest, ...earlier].every((one) => one.isAnswered) }];
  });
}
