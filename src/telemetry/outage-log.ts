/**
 * Logs outages: one warning when something stops working, and one line when it is back, however many requests are
 * affected.
 */
import type { CurrentOutage, Outage, RequestRecord } from "./events.ts";
import type { Logger } from "./log.ts";

/** @param warn receives a sentence about each outage that begins */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createOutages(log: Logger, now: () => number, warn: (text: string) => void) {
  /** The outages that have not ended. */
  const active = new Map<string, Outage & { readonly since: number; refused: number; servedStale: number }>();
  return {
    outOfOrder: (outage: Outage): void => {
      const { what, cause, meanwhile } = outage;
      if (active.has(what)) return;
      const since = now();
      active.set(what, { ...outage, since, refused: 0, servedStale: 0 });
      log.warn({ what, cause, since: new Date(since).toISOString(), meanwhile }, "Outage began");
      warn(`${what} does not work: ${cause}.`);
    },
    backInOrder: (what: string): void => {
      const outage = active.get(what);
      if (outage === undefined) return;
      const { since, refused, servedStale } = outage;
      active.delete(what);
      const forMs = Math.max(0, now() - since);
      log.info({ what, since: new Date(since).toISOString(), forMs, refused, servedStale }, "Outage over");
    },
    request: ({ outcome, resource, status }: RequestRecord): void => {
      for (const outage of active.values()) {
        if (outage.resources?.every((one) => one !== resource)) continue;
        // Other errors are mistakes of the caller.
        if (status === 429 || status >= 500) outage.refused++;
        else if (outcome === "stale" || outcome === "updating") outage.servedStale++;
      }
    },
    /** The outages that have not ended, except for those of resources: the circuits of the budgets show them. */
    current: (): CurrentOutage[] =>
      [...active.values()]
        .filter(({ resources = [] }) => resources.length === 0)
        .map(({ what, cause, meanwhile, since }) => ({ what, cause, meanwhile, since })),
  };
}
