/**
 * Remembers the parsed queries of request targets, so that a known target is not parsed again.
 *
 * The key is the exact raw target, so no caller can get the query of another target. Targets with mistakes are not
 * remembered.
 */
import { LRUCache } from "lru-cache";

import type { Format } from "../interface/media-types.ts";
import type { AnyQuery, ParsedQuery } from "./query.ts";
import type { KnownRoute } from "./route.ts";

export interface KnownTarget {
  readonly route: KnownRoute;
  readonly parsed: Readonly<Partial<Record<Format, ParsedQuery<AnyQuery>>>>;
}

export type KnownTargets = ReturnType<typeof createKnownTargets>;

/** Enough for about 15,000 targets with their parsed queries. */
const LEAST_BYTES = 16 * 1024 * 1024;

/** @returns the limit for a gateway whose answers may take so much memory: more answers have more targets */
export const knownTargetsBytes = (bytes: number): number => Math.max(LEAST_BYTES, Math.floor(bytes / 16));

/** @param maxBytes the limit for all targets and queries together. The least recently used targets are forgotten first. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createKnownTargets(maxBytes: number) {
  const sharedBytes = Math.ceil(maxBytes / 8);
  const maxSize = maxBytes - sharedBytes;
  const targets = new LRUCache<string, KnownTarget>({ maxSize, sizeCalculation: sizeOf });
  /** By cache key. All spellings of a query share one object, because other modules keep data for this object. */
  const shared = new LRUCache<string, ParsedQuery<AnyQuery>>({
    maxSize: sharedBytes,
    sizeCalculation: sizeOfQuery,
  });

  function sharedObjectOf(parsed: ParsedQuery<AnyQuery>): ParsedQuery<AnyQuery> {
    // The key of a streamed query does not contain its parameters.
    if (parsed.query.kind === "streamed") return parsed;
    const known = shared.get(parsed.key) ?? parsed;
    if (known === parsed) shared.set(parsed.key, parsed);
    return known;
  }

  return {
    find: (target: string): KnownTarget | undefined => targets.get(target),
    remember(target: string, route: KnownRoute, format: Format, parsed: ParsedQuery<AnyQuery>): void {
      const queries = { ...targets.peek(target)?.parsed, [format]: sharedObjectOf(parsed) };
      targets.set(target, { route, parsed: queries });
    },
  };
}

/** The sizes of the objects in memory: at least the sizes that were measured in the heap. */
const TARGET_BYTES = 384;
const QUERY_BYTES = 384;
const PARAMETER_BYTES = 256;
/** The bytes for one character. Each target and each canonical query is part of two texts. */
const CHARACTER_BYTES = 2;

function sizeOf({ parsed }: KnownTarget, target: string): number {
  const all = Object.values(parsed).map(sizeOfQuery);
  return all.reduce((sum, bytes) => sum + bytes, TARGET_BYTES + target.length * CHARACTER_BYTES);
}

function sizeOfQuery({ query, canonicalQuery }: ParsedQuery<AnyQuery>): number {
  const pairs = query.extras.length + (query.kind === "search" ? query.filters.length : 0);
  return QUERY_BYTES + PARAMETER_BYTES * pairs + canonicalQuery.length * CHARACTER_BYTES;
}
