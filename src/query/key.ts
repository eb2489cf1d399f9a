/**
 * The cache key of a query: readable text behind a namespace.
 */
import type { Format } from "../interface/media-types.ts";

/** Raised whenever the canonical text or the stored form changes meaning: old entries are then misses. */
const KEY_FORMAT = 1;

/**
 * @param format what was asked for: answers of two versions are two answers
 * @param text the canonical text of the query
 * @returns e.g. `property-gateway:1:json:listings?areaId=76&offset=0`
 */
export function cacheKey(format: Format, text: string): string {
  return `property-gateway:${KEY_FORMAT}:${format}:${text}`;
}
