import type { Outage } from "../../types.ts";
import type { CurrentOutage, RecentProblem } from "./types.ts";

export interface OutageList {
  readonly began: (outage: Outage) => void;
  readonly ended: (what: string) => void;
  readonly list: () => readonly CurrentOutage[];
}

/**
 * Remembers what is out of order, and since when. The circuits of the upstream are not listed: the budgets know them.
 * @param warned called when something goes out of order
 */
export function createOutageList(now: () => number, warned: (message: string) => void): OutageList {
  const current = new Map<string, CurrentOutage>();
  return {
    began({ what, cause, meanwhile }) {
      if (current.has(what)) return;
      current.set(what, { what, cause, meanwhile, since: now() });
      warned(`${what} is out of order: ${cause}.`);
    },
    ended: (what) => void current.delete(what),
    list: () => [...current.values()].filter(({ what }) => !what.startsWith(UPSTREAM)),
  };
}

/** The names of circuit outages begin with this (src/ratelimit/budgets.ts). */
const UPSTREAM = "upstream ";

/** The most kinds of problems that are remembered at once. */
const MOST_KINDS = 60;
/** A problem that has not occurred for this long is forgotten. If it occurs again, it counts as a new one. */
const FORGOTTEN_MS = 60 * 60_000;

export interface ProblemList {
  readonly add: (problem: Pick<RecentProblem, "from" | "what" | "query" | "app">) => void;
  /** Adds a warning of the log. */
  readonly warned: (message: string) => void;
  /** The latest first. */
  readonly list: () => readonly RecentProblem[];
}

/** Remembers for each kind of problem how often it occurred, since when, and the latest example. */
export function createProblemList(now: () => number): ProblemList {
  /** Ordered by the last occurrence, oldest first. */
  const kinds = new Map<string, RecentProblem>();

  function add({ from, what, query, app }: Pick<RecentProblem, "from" | "what" | "query" | "app">): void {
    const at = now();
    const kind = `${from} ${what}`;
    const known = kinds.get(kind);
    const before = known !== undefined && at - known.lastAt < FORGOTTEN_MS ? known : undefined;
    kinds.delete(kind);
    if (kinds.size >= MOST_KINDS) kinds.delete(kinds.keys().next().value ?? "");
    const count = (before?.count ?? 0) + 1;
    kinds.set(kind, { from, what, query, app, count, firstAt: before?.firstAt ?? at, lastAt: at });
  }

  return {
    add,
    warned: (what) => add({ from: "gateway", what, query: null, app: null }),
    list: () => [...kinds.values()].filter(({ lastAt }) => now() - lastAt < FORGOTTEN_MS).toReversed(),
  };
}
