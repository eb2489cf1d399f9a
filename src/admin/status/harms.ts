/** Which apps got an error or a stale answer lately, since when, and why. The sentences name them. */
import { PROBLEM_CODES } from "../../errors.ts";
import type { Resource } from "../../interface/resources.ts";
import type { RequestRecord } from "../../telemetry/events.ts";
import type { Kind } from "./counters.ts";
import { type Harm, MOST_HARMS } from "./shapes.ts";

/** Without such an answer for this long, the next one begins another episode. */
const GAP_MS = 10 * 60_000;
/** The same, if the API has answered in between. */
const ANSWERED_GAP_MS = 30_000;

export interface Harms {
  readonly request: (record: RequestRecord, kind: Kind) => void;
  /** The API has answered a call for this resource. */
  readonly answered: (resource: Resource) => void;
  readonly read: () => Harm[];
}

export function createHarms(now: () => number): Harms {
  /** Ordered by the last occurrence, oldest first. */
  const harms = new Map<string, Harm>();
  const answeredAt = new Map<string, number>();

  function isSameEpisode({ lastAt, resource }: Harm, at: number): boolean {
    return at - lastAt < ((answeredAt.get(resource) ?? 0) > lastAt ? ANSWERED_GAP_MS : GAP_MS);
  }

  return {
    request({ app, resource, status, problem, detail }, kind) {
      const why = kind === "stale" ? PROBLEM_CODES.find((code) => code === detail) : problem;
      if (why === undefined || !["stale", "refused", "failed"].includes(kind)) return;
      const at = now();
      const key = `${app} ${why} ${resource} ${kind}`;
      const known = harms.get(key);
      const before = known !== undefined && isSameEpisode(known, at) ? known : { count: 0, firstAt: at };
      harms.delete(key);
      if (harms.size >= MOST_HARMS) harms.delete(harms.keys().next().value ?? "");
      const { count, firstAt } = before;
      harms.set(key, { app, problem: why, resource, status, count: count + 1, firstAt, lastAt: at });
    },
    answered: (resource) => void answeredAt.set(resource, now()),
    read: () => [...harms.values()].filter((harm) => now() - harm.lastAt < GAP_MS).toReversed(),
  };
}

/** Adds up what several processes saw of the same. */
export function mergeHarms(harms: readonly Harm[]): Harm[] {
  const same = Map.groupBy(harms, ({ app, problem, resource, status }) =>
    [app, problem, resource, status].join(" "),
  );
  return [...same.values()].flatMap((all) =>
    all.slice(0, 1).map((one) => ({
      ...one,
      count: all.reduce((sum, { count }) => sum + count, 0),
      firstAt: Math.min(...all.map(({ firstAt }) => firstAt)),
      lastAt: Math.max(...all.map(({ lastAt }) => lastAt)),
    })),
  );
}
