/** How sends ended, until the shared budget has been told. */
import type { SendEnd } from "../types.ts";
import type { Resource } from "../interface/resources.ts";
import type { Grant } from "./allowance.ts";
import type { EndReport } from "./shared-budget.ts";

type Report = Omit<EndReport, "sinceArrivalMs">;

export function endReport({ id, wish }: Grant, { status, durationMs, slowDown }: SendEnd): Report {
  return {
    id,
    app: wish.app,
    resource: wish.resource,
    status: String(status),
    durationMs,
    isUnsent: false,
    isAnswered: typeof status === "number" && slowDown === undefined,
    slowDown: slowDown && { ...slowDown },
  };
}

export function unsentReport(id: string, app: string, resource: Resource): Report {
  const status = "unsent";
  return { id, app, resource, status, durationMs: 0, isUnsent: true, isAnswered: false, slowDown: undefined };
}

const MOST_AT_ONCE = 100;

export interface Ends {
  /** @param arrivedAt by the monotonic clock */
  readonly add: (report: Report, arrivedAt: number) => void;
  readonly size: number;
  /** The next to be told; `done` once they have been. */
  readonly next: (now: number) => { readonly reports: readonly EndReport[]; readonly done: () => void };
}

export function createEnds(): Ends {
  const ends: { report: Report; arrivedAt: number }[] = [];
  return {
    add: (report, arrivedAt) => void ends.push({ report, arrivedAt }),
    get size() {
      return ends.length;
    },
    next(now) {
      const batch = ends.slice(0, MOST_AT_ONCE);
      return {
        reports: batch.map(({ report, arrivedAt }) => ({ ...report, sinceArrivalMs: now - arrivedAt })),
        done: () => void ends.splice(0, batch.length),
      };
    },
  };
}
