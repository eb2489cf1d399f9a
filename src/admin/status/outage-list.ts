import type { Outage } from "../../types.ts";
import type { CurrentOutage } from "./types.ts";

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

/** How outages of circuits are called (src/ratelimit/circuit-outages.ts). */
const UPSTREAM = "upstream ";
