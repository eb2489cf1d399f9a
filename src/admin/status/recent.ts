/** Remembers the latest requests that were not hits, in this process. */
import type { RequestRecord } from "../../telemetry/events.ts";
import { MOST_SLOW, type SlowRequest } from "./shapes.ts";

/** A request that was not a hit. */
interface RecentRequest extends Pick<RequestRecord, "app" | "outcome" | "status" | "durationMs"> {
  readonly at: number;
  /** Why it was not a hit, as a sentence. */
  readonly why: string;
}

const HOUR_MS = 60 * 60_000;
/** The most requests that are remembered, of all queries together. */
const MOST_REQUESTS = 2_000;
/** The most requests that are shown of one query. */
const MOST_SHOWN = 50;

export interface Recent {
  readonly request: (record: RequestRecord) => void;
  /** The requests of the last hour that waited longest for the upstream. */
  readonly slowest: () => SlowRequest[];
  /** The latest requests for a query, newest first. */
  readonly historyOf: (query: string) => readonly RecentRequest[];
}

export function createRecent(now: () => number): Recent {
  const requests: { readonly record: RequestRecord; readonly at: number }[] = [];
  return {
    request(record) {
      requests.push({ record, at: now() });
      if (requests.length > MOST_REQUESTS) requests.shift();
    },
    slowest() {
      const fetched = requests.filter(({ record, at }) => record.outcome === "miss" && now() - at < HOUR_MS);
      return slowestOf(
        fetched.flatMap(({ record: { query, app, durationMs }, at }) =>
          query === undefined ? [] : [{ query, app, durationMs, at }],
        ),
      );
    },
    historyOf(query) {
      const asked = requests.filter(({ record }) => record.query === query).slice(-MOST_SHOWN);
      return asked.toReversed().map(({ record, at }) => {
        const { app, outcome, status, durationMs } = record;
        return { at, app, outcome, status, durationMs, why: whyNoHit(record) };
      });
    },
  };
}

/** @returns the slowest requests, each query once */
export function slowestOf(requests: readonly SlowRequest[]): SlowRequest[] {
  const slowestLast = requests.toSorted((a, b) => a.durationMs - b.durationMs);
  const byQuery = new Map(slowestLast.map((request) => [request.query, request]));
  return [...byQuery.values()].sort((a, b) => b.durationMs - a.durationMs).slice(0, MOST_SLOW);
}

const FORWARDED = {
  miss: "Nothing usable was cached.",
  stale: "The cached answer had expired, or was purged.",
  request: "The caller asked for a newer answer (Cache-Control).",
} as const;

/** @returns why a request was not a hit, as a sentence for an operator */
function whyNoHit({ outcome, forwarded, detail, problem }: RequestRecord): string {
  const why = forwarded === undefined ? "" : FORWARDED[forwarded];
  const because = detail === undefined ? "." : ` (${detail}).`;
  switch (outcome) {
    case "hit":
      return "It was a hit.";
    case "miss":
      if (problem !== undefined) return `The API was asked, and answered with a refusal (${problem}).`;
      return detail === undefined ? why : `${why} The new answer was not stored (${detail}).`;
    case "collapsed":
      return `${why} It joined the call of another request.`;
    case "updating":
      return `The cached answer had expired. It was served, and refreshed in the background${because}`;
    case "stale":
      return `The cached answer had expired. It was served because no newer one was available${because}`;
    case "bypass":
      return "It was passed through: the caller sent no-store, or answers at this path are not cached.";
    case "refused":
    case "failed":
      return `There was no answer: ${problem ?? outcome}.`;
    case "abandoned":
      return "The caller hung up before the answer was ready.";
  }
}
