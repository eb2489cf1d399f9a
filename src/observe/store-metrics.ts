import { Counter, Gauge, Histogram, type Registry } from "prom-client";

import type { Tier } from "../exchange.ts";
import { sampledByLabel } from "./sampled.ts";

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

const STORE_SECONDS = [
  0.00001, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
];

interface StoreMetrics {
  readonly hit: (tier: Tier) => void;
  readonly operation: (store: Tier, operation: string, durationMs: number) => void;
  readonly breakerState: (store: Tier, state: BreakerState) => void;
}

/** What the stores hold, and how they do. */
export function registerStoreMetrics(registry: Registry, tiers: () => readonly TierStats[]): StoreMetrics {
  const registers = [registry];
  const hits = new Counter({
    name: "gateway_cache_hits_total",
    help: "Requests answered from the cache, by the tier the answer was found in.",
    labelNames: ["tier"],
    registers,
  });
  const seconds = new Histogram({
    name: "gateway_store_operation_duration_seconds",
    help: "Time of one operation of a store, done or failed.",
    labelNames: ["store", "operation"],
    buckets: STORE_SECONDS,
    registers,
  });
  const breaker = new Gauge({
    name: "gateway_store_breaker_state",
    help: "Whether a store is used: 0 closed (in use), 1 half-open (being tried), 2 open (out of order).",
    labelNames: ["store"],
    registers,
  });
  const byTier = (pick: (stats: TierStats) => number) => () =>
    tiers().map((stats) => [{ tier: stats.tier }, pick(stats)] as const);
  const label = ["tier"];
  const sampled = [
    {
      type: "gauge",
      name: "gateway_cache_entries",
      help: "Answers held, by tier.",
      read: byTier((s) => s.entries),
    },
    {
      type: "gauge",
      name: "gateway_cache_bytes",
      help: "Bytes held, by tier.",
      read: byTier((s) => s.bytes),
    },
    {
      type: "counter",
      name: "gateway_cache_evictions_total",
      help: "Answers dropped because room was needed, by tier.",
      read: byTier((s) => s.evictions),
    },
  ] as const;
  for (const metric of sampled) sampledByLabel(registry, { ...metric, label });
  return {
    hit: (tier) => hits.inc({ tier }),
    operation: (store, operation, durationMs) => seconds.observe({ store, operation }, durationMs / 1000),
    breakerState: (store, state) => breaker.set({ store }, BREAKER_STATES[state]),
  };
}
