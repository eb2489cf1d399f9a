/**
 * Purges: which entries were declared out of date.
 *
 * A purge touches no entry. It is a mark with a number, its epoch. An entry remembers the epoch that was
 * current when its fetch began. Every later mark whose scope includes the entry applies to it. So a purge costs the
 * same for one entry or a million, it reaches every tier and replica as one small message, and an answer
 * that was fetched before it but stored after it is purged too. No clocks are compared. The stores keep the marks.
 */

import { attempt } from "../../process/attempt.ts";
import { resourceOfKey } from "../../query/key.ts";
import type { Entry } from "../entry.ts";

/** The entries of a purge: one key, all answers of a resource, all answers with a tag, or everything. */
export type PurgeScope =
  | { readonly kind: "key"; readonly key: string }
  | { readonly kind: "resource"; readonly resource: string }
  | { readonly kind: "tag"; readonly tag: string }
  | { readonly kind: "all" };

export interface Purge {
  /** Greater than the epoch of every earlier purge. */
  readonly epoch: number;
  readonly scope: PurgeScope;
  /** Hard: as if never stored. Soft: stale, and refreshed at the next request. */
  readonly hard: boolean;
}

/** The admin port accepts no longer scopes. */
const MOST_CHARACTERS = 20_000;

/** @returns a list with the purge that a store has kept as JSON; an empty list if the text is not a purge of this gateway */
export function purgesIn(epoch: number, text: string): Purge[] {
  if (text.length > MOST_CHARACTERS) return [];
  const { scope, hard = false }: Partial<Purge> = attempt(() => JSON.parse(text)) ?? {};
  return scope?.kind === undefined ? [] : [{ epoch, scope, hard }];
}

/** The parts of an entry that decide whether a purge applies. */
type Purgeable = Pick<Entry, "purgeEpoch" | "tags">;

/**
 * Redis keeps 1,000 purges. A replica that reads all of them adds one purge of everything, which stands for the earlier ones.
 */
const MOST_PURGES = 1_001;
/** If there are more marks, one purge of everything replaces so many of the oldest. That is safe: it only purges more. */
const FOLDED = 500;

export class Purges {
  /** The epoch of the latest known purge; 0 if there is none. */
  epoch = 0;
  /** The latest purge of each scope, hard and soft apart. */
  #marks = new Map<string, Purge>();

  /** Adds purges, in any order and any number of times. */
  add(purges: readonly Purge[]): void {
    for (const purge of purges) {
      const of = JSON.stringify([purge.scope, purge.hard]);
      if (purge.epoch > (this.#marks.get(of)?.epoch ?? 0)) this.#marks.set(of, purge);
      this.epoch = Math.max(this.epoch, purge.epoch);
    }
    if (this.#marks.size <= MOST_PURGES) return;
    const marks = [...this.#marks.values()].toSorted((one, other) => one.epoch - other.epoch);
    this.#marks = new Map();
    this.add(marks.map((mark, nth) => (nth < FOLDED ? { ...mark, scope: { kind: "all" } } : mark)));
  }

  /** The effect of the known purges on an entry. */
  verdict(key: string, entry: Purgeable): "kept" | "stale" | "gone" {
    // The usual case: nothing was purged after its fetch began.
    if (entry.purgeEpoch >= this.epoch) return "kept";
    let verdict: "kept" | "stale" = "kept";
    for (const { epoch: markedAt, scope, hard } of this.#marks.values()) {
      if (markedAt <= entry.purgeEpoch || !names(scope, key, entry)) continue;
      if (hard) return "gone";
      verdict = "stale";
    }
    return verdict;
  }
}

/** Whether a scope includes an entry. */
function names(scope: PurgeScope, key: string, entry: Purgeable): boolean {
  switch (scope.kind) {
    case "all":
      return true;
    case "key":
      return scope.key === key;
    case "resource":
      return resourceOfKey(key) === scope.resource;
    case "tag":
      return entry.tags.includes(scope.tag);
  }
}
