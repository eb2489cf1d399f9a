import type { Tier } from "../types.ts";
import { type Metric, STORES } from "./catalogue.ts";
import type { Instruments } from "./instruments.ts";
import type { StoreOperation } from "../types.ts";

/** What a tier holds, and what it dropped since the start because room was needed. */
export interface TierStats {
  readonly tier: Tier;
  readonly entries: number;
  readonly bytes: number;
  readonly evictions: number;
}

/** A store's breaker, and the values of its gauge. */
const BREAKER_STATES = { closed: 0, "half-open": 1, open: 2 } as const;
export type BreakerState = keyof typeof BREAKER_STATES;

interface StoreMetrics {
  readonly hit: (tier: Tier) => void;
  readonly operation: (store: Tier, operation: StoreOperation, durationMs: number) => void;
  readonly breakerState: (store: Tier, state: BreakerState) => void;
}

/** Hits, operations and breaker states of the stores. */
export function registerStoreMetrics({ counter, gauge, histogram }: Instruments): StoreMetrics {
  const hits = counter(STORES.hits);
  const seconds = histogram(STORES.operationSeconds);
  const breaker = gauge(STORES.breakerState);
  return {
    hit: (tier) => hits.inc({ tier }),
    operation: (store, operation, durationMs) => seconds.observe({ store, operation }, durationMs / 1000),
    breakerState: (store, state) => breaker.set({ store }, BREAKER_STATES[state]),
  };
}

/** What each tier holds at the moment of a scrape. */
export function sampleStores({ sampled }: Instruments, tiers: () => readonly TierStats[]): void {
  const byTier = (metric: Metric<"gauge" | "counter", "tier">, pick: (stats: TierStats) => number): void =>
    sampled(metric, () => tiers().map((stats) => [{ tier: stats.tier }, pick(stats)]));
  byTier(STORES.entries, ({ entries }) => entries);
  byTier(STORES.bytes, ({ bytes }) => bytes);
  byTier(STORES.evictions, ({ evictions }) => evictions);
}
