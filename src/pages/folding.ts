/**
 * Decides how large the blocks of a search are. If blocks of a search fail, smaller ones are tried for a while, and
 * finally its pages are fetched one by one. If that happens to many searches, it applies to the whole resource.
 */
import type { Clock } from "../process/clock.ts";
import type { Observer } from "../types.ts";
import { type FoldedResource, sizesFrom } from "./block-index.ts";

/** The reason if a wrong page was cut. The search is then fetched page by page. */
export const WRONG = "a cut page differed from the upstream's page";
/** How long a failure counts. */
const FOR_MS = 600_000;
/** How long a wrong page counts. It counts longer, because wrong pages are rarely noticed. */
const WRONG_FOR_MS = 86_400_000;
/** If this many searches are fetched page by page at the same time, all searches of the resource are. */
const MANY_SEARCHES = 5;
/** The most searches that are remembered. */
const MOST_SEARCHES = 10_000;

export interface Folding {
  /** The size of a search's blocks; `undefined`: fetch it page by page. */
  readonly sizeOf: (search: string, resource: FoldedResource) => number | undefined;
  /** A block of this size failed, but its page did not. Smaller blocks are used from now on. */
  readonly blockFailed: (search: string, resource: FoldedResource, size: number, why: string) => void;
  /** No page can be cut from the search's blocks, or a wrong one was cut. The search is fetched page by page from now on. */
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
  /** The largest block size that is still used; 0: none. */
  readonly largest: number;
  readonly until: number;
}

export function createFolding({ largest, clock, observer }: FoldingOptions): Folding {
  const troubles = new Map<string, Trouble>();
  const stoppedUntil = new Map<FoldedResource, number>();

  function remember(search: string, trouble: Trouble): void {
    // Delete first, so that the map stays in order of age.
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
      "Many searches cannot be answered from blocks. The gateway fetches all pages of this resource one by one.",
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
    // Many callers may report the same failure at the same time.
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
      const trouble = troubles.size === 0 ? undefined : troubles.get(search);
      if (trouble === undefined || trouble.until <= now) return largest();
      return sizesFrom(largest()).find((size) => size <= trouble.largest);
    },
    blockFailed(search, resource, size, why) {
      troubled(search, resource, sizesFrom(largest()).find((smaller) => smaller < size) ?? 0, why);
    },
    stop: (search, resource, why) => troubled(search, resource, 0, why),
  };
}
