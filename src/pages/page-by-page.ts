/**
 * The searches whose pages are fetched one by one for a while, because no page could be cut from their blocks. If that happens
 * to many searches, it applies to the whole resource.
 */
import { LRUCache } from "lru-cache";

import type { Clock } from "../process/clock.ts";
import type { Observer } from "../telemetry/events.ts";
import type { PagedResource } from "./block-index.ts";

/** The reason if a wrong page was cut. */
export const WRONG = "a cut page differed from the upstream's page";
const FOR_MS = 600_000;
/** After a wrong page it is longer, because wrong pages are rarely noticed. */
const WRONG_FOR_MS = 86_400_000;
/** If this many searches are fetched page by page at the same time, all searches of the resource are. */
const MANY_SEARCHES = 5;
/** The most searches that are remembered. */
const MOST_SEARCHES = 10_000;

export class PageByPage {
  readonly #now: () => number;
  readonly #observer: Pick<Observer, "warn" | "error">;
  readonly #searches = new LRUCache<string, { readonly resource: PagedResource; readonly until: number }>({
    max: MOST_SEARCHES,
  });
  readonly #resourcesUntil = new Map<PagedResource, number>();

  constructor({ monotonic }: Pick<Clock, "monotonic">, observer: Pick<Observer, "warn" | "error">) {
    this.#now = monotonic;
    this.#observer = observer;
  }

  /** Whether the pages of a search are fetched one by one. */
  has(search: string, resource: PagedResource): boolean {
    // Then no resource is, either.
    if (this.#searches.size === 0) return false;
    const now = this.#now();
    return now < Math.max(this.#resourcesUntil.get(resource) ?? 0, this.#searches.peek(search)?.until ?? 0);
  }

  add(search: string, resource: PagedResource, why: string): void {
    const now = this.#now();
    // Many callers may report the same failure at the same time.
    if (now < (this.#searches.get(search)?.until ?? 0) && why !== WRONG) return;
    const forMs = why === WRONG ? WRONG_FOR_MS : FOR_MS;
    const forSeconds = forMs / 1000;
    this.#searches.set(search, { resource, until: now + forMs });
    this.#observer.warn("The pages of a search are fetched one by one for some time.", {
      search,
      why,
      forSeconds,
    });
    const others = [...this.#searches.values()].filter((one) => one.resource === resource && one.until > now);
    if (others.length < MANY_SEARCHES || now < (this.#resourcesUntil.get(resource) ?? 0)) return;
    this.#resourcesUntil.set(resource, now + forMs);
    this.#observer.error(
      "Many searches cannot be answered from blocks. The gateway fetches all pages of this resource one by one.",
      { resource, searches: others.length, why, forSeconds },
    );
  }
}
