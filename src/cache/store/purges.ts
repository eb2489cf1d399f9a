/**
 * Purges: which entries were declared out of date.
 *
 * A purge touches no entry. It is a mark with a number, its epoch. An entry remembers the epoch that was
 * current when its fetch began. Every later mark whose scope includes the entry applies to it. So a purge costs the
 * same for one entry or a million, it reaches every tier and replica as one small message, and an answer
 * that was fetched before it but stored after it is purged too. No clocks are compared.
 */

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

/** The parts of an entry that decide whether a purge applies. */
type Purgeable = Pick<Entry, "purgeEpoch" | "tags">;

/** More marks than this are folded into one purge of everything. That is safe: it only purges more. */
const MOST_PURGES = 1000;

export class Purges {
  /** The epoch of the latest known purge; 0 if there is none. */
  epoch = 0;
  #marks: Purge[] = [];

  /** Adds purges, in any order and any number of times. */
  add(purges: readonly Purge[]): void {
    for (const purge of purges) {
      if (this.#marks.some((mark) => mark.epoch === purge.epoch)) continue;
      this.#marks = withoutCovered(this.#marks, purge);
      this.epoch = Math.max(this.epoch, purge.epoch);
    }
    if (this.#marks.length > MOST_PURGES) this.#marks = [folded(this.#marks)];
  }

  /** The effect of the known purges on an entry. */
  verdict(key: string, entry: Purgeable): "kept" | "stale" | "gone" {
    // The usual case: nothing was purged after its fetch began.
    if (entry.purgeEpoch >= this.epoch) return "kept";
    let verdict: "kept" | "stale" = "kept";
    for (const { epoch: markedAt, scope, hard } of this.#marks) {
      if (markedAt <= entry.purgeEpoch || !names(scope, key, entry)) continue;
      if (hard) return "gone";
      verdict = "stale";
    }
    return verdict;
  }
}

/** A later purge of the same scope, or of everything, replaces an earlier one that is not harder. */
function withoutCovered(marks: readonly Purge[], purge: Purge): Purge[] {
  const scope = JSON.stringify(purge.scope);
  const covers = (mark: Purge): boolean =>
    mark.epoch < purge.epoch &&
    (purge.hard || !mark.hard) &&
    (purge.scope.kind === "all" || JSON.stringify(mark.scope) === scope);
  return [...marks.filter((mark) => !covers(mark)), purge];
}

function folded(marks: readonly Purge[]): Purge {
  return {
    epoch: Math.max(...marks.map((mark) => mark.epoch)),
    scope: { kind: "all" },
    hard: marks.some((mark) => mark.hard),
  };
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
