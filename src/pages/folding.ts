/**
 * How large the blocks of a search are. A search whose blocks make trouble is asked for smaller ones for a while,
 * and in the end page by page; so is a whole resource where that happens to many searches.
 */
import type { Clock } from "../process/clock.ts";
import type { Observer } from "../types.ts";
import type { FoldedResource } from "./block-index.ts";
import { sizesFrom } from "./blocks.ts";

/** Why a search is stopped of which a wrong page was cut. */
export const WRONG = "a page was not the upstream's";
/** How long what was learned from trouble counts. */
const FOR_MS = 600_000;
/** A wrong page is noticed seldom. */
const WRONG_FOR_MS = 86_400_000;
/** When so many searches are asked page by page at one time, the resource is. */
const MANY_SEARCHES = 5;
/** More searches than this are not remembered. */
const MOST_SEARCHES = 10_000;

export interface Folding {
  /** The size of a search's blocks; `undefined`: it is asked page by page. */
  readonly sizeOf: (search: string, resource: FoldedResource) => number | undefined;
  /** A block of this size failed where its page did not: smaller ones from now on. */
  readonly blockFailed: (search: string, resource: FoldedResource, size: number, why: string) => void;
  /** No page can be cut from the search's blocks, or a wrong one was: page by page from now on. */
  readonly stop: (search: string, resource: FoldedResource, why: string) => void;
}

export interface FoldingOptions {
  /** The size that is tried first (`pages.block`). */
  readonly largest: () => number;
  readonly clock: Pick<Clock, "monotonic">;
  readonly observer: Pick<Observer, "warn" | "error">;
}

interface Trouble {
  readonly resource: FoldedResource;
  /** Larger blocks are not asked for; 0: none are. */
  readonly largest: number;
  readonly until: number;
}

export function createFolding({ largest, clock, observer }: FoldingOptions): Folding {
  const troubles = new Map<string, Trouble>();
  const stoppedUntil = new Map<FoldedResource, number>();

  function remember(search: string, trouble: Trouble): void {
    // Deleted first, so that the oldest comes first.
    troubles.delete(search);
    troubles.set(search, trouble);
    for (const [known, { until }] of troubles) {
      if (until > clock.monotonic() && troubles.size <= MOST_SEARCHES) break;
      troubles.delete(known);
    }
  }

  function stopResourceIfMany(resource: FoldedResource, why: string, forMs: number): void {
    const now = clock.monotonic();
    const stopped = [...troubles.values()].filter(
      (trouble) => trouble.resource === resource && trouble.largest === 0 && trouble.until > now,
    );
    if (stopped.length < MANY_SEARCHES || now < (stoppedUntil.get(resource) ?? 0)) return;
    stoppedUntil.set(resource, now + forMs);
    observer.error(
      "Many searches cannot be answered from blocks. The gateway asks for all pages of the resource one by one.",
      {
        resource,
        searches: stopped.length,
        why,
        forSeconds: forMs / 1000,
      },
    );
  }

  function troubled(search: string, resource: FoldedResource, size: number, why: string): void {
    const known = troubles.get(search);
    // Many callers may come across the same trouble at one time.
    const isKnown = known !== undefined && known.until > clock.monotonic() && known.largest <= size;
    if (isKnown && why !== WRONG) return;
    const forMs = why === WRONG ? WRONG_FOR_MS : FOR_MS;
    remember(search, { resource, largest: size, until: clock.monotonic() + forMs });
    observer.warn("A search uses smaller blocks, or single pages, for some time.", {
      search,
      block: size,
      why,
      forSeconds: forMs / 1000,
    });
    if (size === 0) stopResourceIfMany(resource, why, forMs);
  }

  return {
    sizeOf(search, resource) {
      const now = clock.monotonic();
      if (now < (stoppedUntil.get(resource) ?? 0)) return undefined;
      const trouble = troubles.get(search);
      if (trouble === undefined || trouble.until <= now) return largest();
      return sizesFrom(largest()).find((size) => size <= trouble.largest);
    },
    blockFailed(search, resource, size, why) {
      troubled(search, resource, sizesFrom(largest()).find((smaller) => smaller < size) ?? 0, why);
    },
    stop: (search, resource, why) => troubled(search, resource, 0, why),
  };
}
