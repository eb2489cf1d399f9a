/**
 * Whether an entry is fresh, and whether it may be served at all (RFC 9111, section 4.2; RFC 5861). Pure.
 */
import type { Config } from "../config/config.ts";
import type { Entry } from "./entry.ts";
import type { Resource } from "../interface/resources.ts";
import type { Query } from "../query/query.ts";

/** The kinds of answers with lifetimes of their own: searches and images by resource, and single records. */
export type AnswerKind = Resource | "records";

/** The settings under `cache` in config/default.yaml, and its constants; times in milliseconds. */
export type CacheRules = Omit<Config["cache"], "maxBytes" | "maxDiskBytes">;

export const kindOf = (query: Query): AnswerKind => (query.kind === "record" ? "records" : query.resource);

/** The lifetime of an answer from the settings, in milliseconds. */
export function ttlMs(rules: CacheRules, query: Query, status: Entry["status"]): number {
  return (status === 200 ? rules.ttlMs : rules.negativeTtlMs)[kindOf(query)];
}

/** The age of an answer, in milliseconds (RFC 9111, section 4.2.3). */
export const ageMs = ({ bornAt }: Entry, now: number): number => Math.max(0, now - bornAt);

/**
 * Whether an entry may be served at all. The current limit of the age counts, because an entry may be from before a restart
 * with a longer one.
 */
export function isWithinBounds(entry: Entry, rules: CacheRules, now: number): boolean {
  return now < entry.keepUntil && ageMs(entry, now) <= rules.maxAgeEverMs;
}

/** @param now epoch milliseconds */
export function isFresh(entry: Entry, rules: CacheRules, now: number): boolean {
  return now < entry.freshUntil && isWithinBounds(entry, rules, now);
}
