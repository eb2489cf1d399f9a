/**
 * Logs outages: one warning when something stops working, and one line when it is back, however many requests are
 * affected.
 */
import type { CurrentOutage, Observer, Outage, RequestRecord } from "./events.ts";
import type { Logger } from "./log.ts";

export interface Outages extends Pick<Observer, "request" | "outOfOrder" | "backInOrder"> {
  /** The outages that have not ended, except for those of the upstream, which the budgets know. */
  readonly current: () => CurrentOutage[];
}

interface Known {
  readonly outage: Outage;
  /** Epoch milliseconds. */
  readonly since: number;
  endedAt: number | undefined;
  refused: number;
  servedStale: number;
}

/** An outage that returns within this time is the same outage. On a full disk, a short write may succeed in between. */
const SAME_MS = 60_000;
/** The names of circuit outages begin with this (src/ratelimit/circuits/outages.ts). */
const UPSTREAM = "upstream ";

/** @param onBegin called for each outage that began */
export function createOutages(log: Logger, now: () => number, onBegin: (outage: Outage) => void): Outages {
  const known = new Map<string, Known>();
  const current = (): Known[] => [...known.values()].filter(({ endedAt }) => endedAt === undefined);
  return {
    outOfOrder(outage) {
      const { what, cause, meanwhile } = outage;
      const before = known.get(what);
      if (before !== undefined && before.endedAt === undefined) return;
      const since = before && now() - (before.endedAt ?? 0) < SAME_MS ? before.since : now();
      known.set(what, { outage, since, endedAt: undefined, refused: 0, servedStale: 0 });
      log.warn({ what, cause, since: new Date(since).toISOString(), meanwhile }, "Outage began");
      onBegin(outage);
    },
    backInOrder(what) {
      const ended = known.get(what);
      if (ended === undefined || ended.endedAt !== undefined) return;
      ended.endedAt = now();
      const { since, refused, servedStale } = ended;
      const forMs = Math.max(0, ended.endedAt - since);
      log.info({ what, since: new Date(since).toISOString(), forMs, refused, servedStale }, "Outage over");
    },
    request({ outcome, resource }: Pick<RequestRecord, "outcome" | "resource">) {
      if (known.size === 0) return;
      for (const one of current()) {
        const { resources } = one.outage;
        if (resources !== undefined && (resource === "none" || !resources.includes(resource))) continue;
        if (outcome === "refused" || outcome === "failed") one.refused++;
        else if (outcome === "stale" || outcome === "updating") one.servedStale++;
      }
    },
    current: () =>
      current()
        .map(({ outage: { what, cause, meanwhile }, since }) => ({ what, cause, meanwhile, since }))
        .filter(({ what }) => !what.startsWith(UPSTREAM)),
  };
}
