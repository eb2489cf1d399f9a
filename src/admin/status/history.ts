import type { RequestRecord } from "../../types.ts";
import type { RecentRequest } from "./types.ts";
import { whyNoHit } from "./why-no-hit.ts";

/** Requests of all queries that are remembered. */
const MOST_REMEMBERED = 2_000;
/** Requests that are shown of one query. */
const MOST_SHOWN = 50;

export interface History {
  /** Remembers a request that was no hit. */
  readonly add: (record: RequestRecord, at: number) => void;
  /** The requests for a query, newest first. */
  readonly of: (query: string) => readonly RecentRequest[];
}

/** Remembers the latest requests of this process that were no hits. */
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
