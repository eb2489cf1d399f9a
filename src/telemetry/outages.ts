/**
 * Logs outages: one warning when something stops working, and one line when it is back, however many requests are
 * affected.
 */
import type { Outage, RequestRecord } from "./events.ts";
import type { Logger } from "./log.ts";

export interface Outages {
  readonly began: (outage: Outage) => void;
  /** @param what as in `began`. Nothing happens if it worked. */
  readonly ended: (what: string) => void;
  /** Counts a request that ended while something does not work. */
  readonly request: (record: Pick<RequestRecord, "outcome" | "resource">) => void;
}

interface Current {
  readonly outage: Outage;
  /** Epoch milliseconds. */
  readonly since: number;
  refused: number;
  servedStale: number;
}

export function createOutages(log: Logger, now: () => number): Outages {
  const current = new Map<string, Current>();
  return {
    began(outage) {
      if (current.has(outage.what)) return;
      const since = now();
      current.set(outage.what, { outage, since, refused: 0, servedStale: 0 });
      const { what, cause, meanwhile } = outage;
      log.warn({ what, cause, since: new Date(since).toISOString(), meanwhile }, "Outage began");
    },
    ended(what) {
      const outage = current.get(what);
      if (outage === undefined) return;
      current.delete(what);
      const { since, refused, servedStale } = outage;
      const forMs = Math.max(0, now() - since);
      log.info({ what, since: new Date(since).toISOString(), forMs, refused, servedStale }, "Outage over");
    },
    request({ outcome, resource }) {
      if (current.size === 0) return;
      for (const one of current.values()) {
        const { resources } = one.outage;
        if (resources !== undefined && (resource === "none" || !resources.includes(resource))) continue;
        if (outcome === "refused" || outcome === "failed") one.refused++;
        else if (outcome === "stale" || outcome === "updating") one.servedStale++;
      }
    },
  };
}
