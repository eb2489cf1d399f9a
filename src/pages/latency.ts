/**
 * Measures how much longer blocks take than pages. If the difference is large, the first page of a search is fetched by
 * itself, and its block only when a caller wants a second page.
 */
import type { Entry } from "../types.ts";

/** The weight of a new measurement in the moving average. */
const WEIGHT = 0.2;
/** The most searches that are remembered. */
const MOST_SEARCHES = 10_000;

export interface Latency {
  readonly measuredBlock: (entry: Entry) => void;
  readonly measuredPage: (entry: Entry) => void;
  /** Whether blocks are slow and this is the first wanted page of its search. It is then fetched by itself. */
  readonly isFirstOfSlow: (search: string, page: string) => boolean;
}

/** @param maxExtraMs how much longer a block may take than a page, in milliseconds */
export function createLatency(maxExtraMs: () => number): Latency {
  let blockMs = 0;
  // Undefined until a page was measured.
  let pageMs: number | undefined;
  const firstPages = new Map<string, string>();
  const average = (before: number, { fetchMs }: Entry): number => before + (fetchMs - before) * WEIGHT;

  return {
    measuredBlock(entry) {
      blockMs = average(blockMs, entry);
    },
    measuredPage(entry) {
      pageMs = pageMs === undefined ? entry.fetchMs : average(pageMs, entry);
    },
    isFirstOfSlow(search, page) {
      // If no page was measured yet, it counts as 0, so that slow blocks cause one page to be fetched and measured.
      if (blockMs - (pageMs ?? 0) <= maxExtraMs()) return false;
      const first = firstPages.get(search);
      if (first === undefined) firstPages.set(search, page);
      if (firstPages.size > MOST_SEARCHES) firstPages.delete(firstPages.keys().next().value ?? "");
      return first === undefined || first === page;
    },
  };
}
