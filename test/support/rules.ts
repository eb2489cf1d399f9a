import type { CacheRules, AnswerKind } from "../../src/cache/freshness.ts";

/** One value for each kind of answer. */
export function each(ms: number): Readonly<Record<AnswerKind, number>> {
  return { listings: ms, sold: ms, areas: ms, records: ms, images: ms };
}

/** Rules of the cache with round numbers; an expired answer is not given while it is refreshed. */
export function rulesWith(changes: Partial<CacheRules> = {}): CacheRules {
  return {
    ttlMs: each(300_000),
    lifetimes: "fixed",
    negativeTtlMs: each(60_000),
    staleWhileRevalidateMs: each(0),
    staleIfErrorMs: each(3_600_000),
    maxWaitForFreshMs: 1_000,
    maxAgeEverMs: 1_000_000,
    retentionMs: 3_600_000,
    honourUpstream: true,
    minRefreshIntervalMs: 10_000,
    ...changes,
  };
}
