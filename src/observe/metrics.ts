/**
 * Metrics for Prometheus. Every label's values are a closed set or come from the settings: nothing a
 * caller sends can add a series.
 */
import { Registry } from "prom-client";

import type { RequestRecord, Tier, UpstreamCallRecord } from "../exchange.ts";
import { type BudgetMetrics, type BudgetSources, registerBudgetMetrics } from "./budget-metrics.ts";
import { type ConfigMetrics, registerConfigMetrics } from "./config-metrics.ts";
import { sampledGauge } from "./sampled.ts";
import { registerStoreMetrics, type BreakerState, type TierStats } from "./store-metrics.ts";
import { registerTrafficMetrics } from "./traffic-metrics.ts";

export interface Metrics {
  readonly request: (record: RequestRecord) => void;
  readonly upstreamCall: (record: UpstreamCallRecord) => void;
  /** A store's operation, in milliseconds, done or failed. */
  readonly storeOperation: (store: Tier, operation: string, durationMs: number) => void;
  readonly breakerState: (store: Tier, state: BreakerState) => void;
  readonly budget: BudgetMetrics;
  readonly config: ConfigMetrics;
  /** The exposition text and its media type. */
  readonly render: () => Promise<{ contentType: string; text: string }>;
}

/** What is read at the moment of a scrape. */
export interface MetricSources {
  /** What each tier holds, as far as this process knows. */
  readonly tiers: () => readonly TierStats[];
  readonly flights: () => number;
  readonly budget: BudgetSources;
}

export function createMetrics(sources: MetricSources): Metrics {
  // A registry of its own: a module-global one would carry one gateway's counts into the next.
  const registry = new Registry();
  const traffic = registerTrafficMetrics(registry);
  const stores = registerStoreMetrics(registry, sources.tiers);
  const budget = registerBudgetMetrics(registry, sources.budget);
  sampledGauge(registry, "gateway_flights", "Upstream calls in progress or in the queue.", sources.flights);
  sampledGauge(registry, "process_resident_memory_bytes", "Resident memory.", () =>
    process.memoryUsage.rss(),
  );

  return {
    request(record) {
      traffic.request(record);
      if (record.tier !== undefined) stores.hit(record.tier);
    },
    upstreamCall: traffic.upstreamCall,
    storeOperation: stores.operation,
    breakerState: stores.breakerState,
    budget,
    config: registerConfigMetrics(registry),
    async render() {
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}
