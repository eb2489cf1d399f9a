/**
 * Whether blocks take so much longer than pages that somebody who looks at one page should not wait for its block.
 * Then the first page of a search is asked exactly, and the block when a second page is wanted.
 */
import type { Entry } from "../types.ts";

/** What a new measurement weighs against those before. */
const WEIGHT = 0.2;
/** More searches than this are not remembered. */
const MOST_SEARCHES = 10_000;

export interface Latency {
  readonly measuredBlock: (entry: Entry) => void;
  readonly measuredPage: (entry: Entry) => void;
  /** Whether a page is to be asked exactly, because it is the first one of its search that is wanted. */
  readonly isFirstOfSlow: (search: string, page: string) => boolean;
}

/** @param maxExtraMs what a block may take longer than a page, in milliseconds */
export function createLatency(maxExtraMs: () => number): Latency {
  let blockMs = 0;
  // Until a page was measured, nothing is known that a block could be slower than.
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
      // A page that was never measured is asked once, to be measured, when blocks take long.
      if (blockMs - (pageMs ?? 0) <= maxExtraMs()) return false;
      const first = firstPages.get(search);
      if (first === undefined) firstPages.set(search, page);
      if (firstPages.size > MOST_SEARCHES) firstPages.delete(firstPages.keys().next().value ?? "");
      return first === undefined || first === page;
    },
  };
}
