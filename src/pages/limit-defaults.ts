/**
 * Learns how the upstream treats `limit=0` and a missing limit. The interface does not say. So the gateway learns it for
 * each resource from answers that were fetched page by page, and learns it again from time to time.
 */
import type { Clock } from "../process/clock.ts";
import { indexBlock } from "./block-index.ts";
import type { PagedQuery } from "./search.ts";

/** The number of different questions whose answers must agree. */
const SAMPLES = 3;
/** How long the result is trusted before it is learned again. */
const TRUSTED_FOR_MS = 3_600_000;

interface Learned {
  readonly limit: number;
  /** The questions whose answers agreed. */
  readonly keys: ReadonlySet<string>;
  readonly confirmedAt: number;
}

const GIVEN_UP: Learned = { limit: Number.NaN, keys: new Set(), confirmedAt: 0 };

export class LimitDefaults {
  readonly #now: () => number;
  readonly #learned = new Map<string, Learned>();

  constructor({ monotonic }: Pick<Clock, "monotonic">) {
    this.#now = monotonic;
  }

  /** The limit that the upstream applies to a query; `undefined`: unknown. */
  limitOf(query: PagedQuery): number | undefined {
    if (!isImplied(query)) return query.limit;
    const known = this.#learned.get(nameOf(query));
    if (known === undefined || known.keys.size < SAMPLES) return undefined;
    return this.#now() - known.confirmedAt < TRUSTED_FOR_MS ? known.limit : undefined;
  }

  /** The upstream repeats a limit that it is given. So its answers do not show which limit applies without one. */
  readonly giveUp = (query: PagedQuery): undefined => void this.#learned.set(nameOf(query), GIVEN_UP);

  /** Learns from an answer that was just fetched for exactly this query. */
  learn(query: PagedQuery, key: string, body: Buffer): void {
    const name = nameOf(query);
    const known = this.#learned.get(name);
    const limit = appliedLimit(body, query);
    if (known === GIVEN_UP || limit === "no evidence") return;
    if (limit === undefined) return void this.#learned.delete(name);
    const keys = new Set(known?.limit === limit ? known.keys : []);
    if (keys.size < SAMPLES) keys.add(key);
    this.#learned.set(name, { limit, keys, confirmedAt: this.#now() });
  }
}

/** Whether a query leaves the limit to the upstream. The gateway can learn from an answer to such a query. */
export function isImplied({ limit }: PagedQuery): boolean {
  return limit === undefined || limit === 0;
}

function nameOf({ resource, limit }: PagedQuery): string {
  return limit === undefined ? `${resource} without a limit` : `${resource}?limit=0`;
}

/**
 * @returns the limit that the upstream applied to an answer; `undefined` if the answer does not show one. An answer with
 *   all remaining records of its search is no evidence, because no limit was reached.
 */
function appliedLimit(body: Buffer, query: PagedQuery): number | "no evidence" | undefined {
  const index = indexBlock(body, { ...query, limit: undefined });
  // If the upstream echoes the limit, the gateway cannot know what it echoes for a query without one.
  if (typeof index === "string" || index.echoesLimit) return undefined;
  return index.totalCount > query.offset + index.limit ? index.limit : "no evidence";
}
