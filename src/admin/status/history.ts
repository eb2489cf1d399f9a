import type { RequestRecord } from "../../types.ts";
import type { RecentRequest } from "./types.ts";

/** The most requests that are remembered, of all queries together. */
const MOST_REMEMBERED = 2_000;
/** The most requests that are shown of one query. */
const MOST_SHOWN = 50;

export interface History {
  /** Remembers a request that was not a hit. */
  readonly add: (record: RequestRecord, at: number) => void;
  /** The requests for a query, newest first. */
  readonly of: (query: string) => readonly RecentRequest[];
}

/** Remembers the latest requests of this process that were not hits. */
export function createHistory(): History {
  const ring: { readonly record: RequestRecord; readonly at: number }[] = [];
  let next = 0;
  return {
    add(record, at) {
      ring[next] = { record, at };
      next = (next + 1) % MOST_REMEMBERED;
    },
    of(query) {
      const newestFirst = [...ring.slice(next), ...ring.slice(0, next)].toReversed();
      return newestFirst
        .filter(({ record }) => record.query === query)
        .slice(0, MOST_SHOWN)
        .map(({ record, at }) => {
          const { app, outcome, status, durationMs } = record;
          return { at, app, outcome, status, durationMs, why: whyNoHit(record) };
        });
    },
  };
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
