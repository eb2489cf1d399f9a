/**
 * Remembers what request targets mean, so that a target that was seen before is not parsed again.
 *
 * The key is the exact raw target, so no caller can get the meaning of another target. Only meanings are remembered,
 * never mistakes, and never a target that contains one of the gateway's own secrets.
 */
import { LRUCache } from "lru-cache";

import type { Format } from "../interface/media-types.ts";
import type { Query, StreamedQuery } from "./query.ts";
import type { Route } from "./route.ts";

export interface Meaning {
  readonly query: Query | StreamedQuery;
  readonly canonicalQuery: string;
  readonly key: string;
}

export interface KnownTarget {
  readonly route: Exclude<Route, { kind: "unknown" }>;
  readonly search: string;
  readonly meanings: Readonly<Partial<Record<Format, Meaning>>>;
}

export const NO_MEANINGS: KnownTarget["meanings"] = {};

export interface Meanings {
  readonly find: (target: string) => KnownTarget | undefined;
  readonly remember: (
    target: string,
    asked: Pick<KnownTarget, "route" | "search">,
    format: Format,
    meaning: Meaning,
  ) => void;
}

export interface MeaningsOptions {
  /** The limit for everything remembered. The least recently used targets are forgotten first. */
  readonly maxBytes: number;
  /** Replaces the gateway's own secrets in a text (credentials.ts). */
  readonly conceal: (text: string) => string;
  /** How many secrets are known. When there is a new one, everything is forgotten, because a target may contain it. */
  readonly secretsKnown: () => number;
}

export function createMeanings({ maxBytes, conceal, secretsKnown }: MeaningsOptions): Meanings {
  const targets = new LRUCache<string, KnownTarget>({
    maxSize: maxBytes * (1 - SHARED_PART),
    sizeCalculation: sizeOf,
  });
  /** By key, so that all spellings of a query share one meaning, and what others remember about it. */
  const shared = new LRUCache<string, Meaning>({
    maxSize: maxBytes * SHARED_PART,
    sizeCalculation: sizeOfMeaning,
  });
  let checkedAgainst = secretsKnown();

  function forgetIfSecretsAreNew(): void {
    const known = secretsKnown();
    if (known === checkedAgainst) return;
    targets.clear();
    shared.clear();
    checkedAgainst = known;
  }

  /** @returns the meaning that other spellings of the query have already, if there is one */
  function oneOf(meaning: Meaning): Meaning {
    // The key of a streamed query does not contain its parameters.
    if (meaning.query.kind === "streamed") return meaning;
    const known = shared.get(meaning.key);
    if (known === undefined) shared.set(meaning.key, meaning);
    return known ?? meaning;
  }

  function mayContainSecret(target: string): boolean {
    const text = decoded(target);
    return text === undefined || conceal(text) !== text || conceal(target) !== target;
  }

  return {
    find(target) {
      forgetIfSecretsAreNew();
      return targets.get(target);
    },
    remember(target, { route, search }, format, meaning) {
      forgetIfSecretsAreNew();
      const known = targets.peek(target);
      if (known === undefined && mayContainSecret(target)) return;
      targets.set(target, { route, search, meanings: { ...known?.meanings, [format]: oneOf(meaning) } });
    },
  };
}

/** The part of the memory for meanings that spellings share. Spellings of other queries have meanings of their own. */
const SHARED_PART = 1 / 8;

/** @returns the whole target percent-decoded; `undefined` if that is impossible */
function decoded(target: string): string | undefined {
  try {
    return decodeURIComponent(target.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}

/** The sizes of the objects in memory: at least what a measurement of the heap showed. */
const TARGET_BYTES = 384;
const MEANING_BYTES = 384;
const PARAMETER_BYTES = 256;
/** A character of a text; two texts contain each target. */
const CHARACTER_BYTES = 2;

function sizeOf({ meanings }: KnownTarget, target: string): number {
  const all = Object.values(meanings).map(sizeOfMeaning);
  return all.reduce((sum, bytes) => sum + bytes, TARGET_BYTES + target.length * CHARACTER_BYTES);
}

function sizeOfMeaning({ query, canonicalQuery }: Meaning): number {
  const pairs = query.extras.length + (query.kind === "search" ? query.filters.length : 0);
  return MEANING_BYTES + PARAMETER_BYTES * pairs + canonicalQuery.length * CHARACTER_BYTES;
}
