/**
 * Purges: what was declared out of date, and which entries that concerns.
 *
 * A purge touches no entry. It is a mark with a number, its epoch; an entry remembers the epoch that
 * was current when its fetch began, and every later mark that names the entry applies to it. So a
 * purge costs the same whether it concerns one entry or a million, reaches every tier and replica as
 * one small message, and an answer fetched before it but stored after it is purged as well. No clock
 * is compared.
 */

import { resourceOfKey } from "../../query/key.ts";

/** What a purge names: one question, a resource's answers, whatever is about a thing, or everything. */
export type PurgeScope =
  | { readonly kind: "key"; readonly key: string }
  | { readonly kind: "resource"; readonly resource: string }
  | { readonly kind: "tag"; readonly tag: string }
  | { readonly kind: "all" };

export interface Purge {
  /** Greater than that of every purge before it. */
  readonly epoch: number;
  readonly scope: PurgeScope;
  /** Hard: as if it had never been stored. Soft: stale, and refreshed when asked for again. */
  readonly hard: boolean;
}

/** What becomes of an entry under the purges known. */
type Purged = "kept" | "stale" | "gone";

/** What of an entry a purge can name. */
interface Purgeable {
  readonly purgeEpoch: number;
  readonly tags: readonly string[];
}

export interface Purges {
  /** The epoch of the latest purge known; 0 where none is. */
  readonly epoch: number;
  /** Takes note of purges, in any order, as often as they come. */
  add(purges: readonly Purge[]): void;
  /** What becomes of an entry. */
  verdict(key: string, entry: Purgeable): Purged;
}

/** More marks than this are folded into one on everything, which is never wrong, only less sparing. */
const MOST_PURGES = 1000;

export function createPurges(): Purges {
  let epoch = 0;
  let marks: Purge[] = [];

  return {
    get epoch() {
      return epoch;
    },
    add(purges) {
      for (const purge of purges) {
        if (marks.some((mark) => mark.epoch === purge.epoch)) continue;
        marks = withoutCovered(marks, purge);
        epoch = Math.max(epoch, purge.epoch);
      }
      if (marks.length > MOST_PURGES) marks = [folded(marks)];
    },
    verdict(key, entry) {
      // The usual case: nothing was purged since it was fetched.
      if (entry.purgeEpoch >= epoch) return "kept";
      let verdict: Purged = "kept";
      for (const { epoch: markedAt, scope, hard } of marks) {
        if (markedAt <= entry.purgeEpoch || !names(scope, key, entry)) continue;
        if (hard) return "gone";
        verdict = "stale";
      }
      return verdict;
    },
  };
}

/** A later purge of the same scope, as hard, says all the earlier one did; so does one of everything. */
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
