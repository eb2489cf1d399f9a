/**
 * Metrics for Prometheus. Every label's values are a closed set or come from the settings: nothing a
 * caller sends can add a series. What there is: src/telemetry/catalogue.ts.
 */
import { Registry } from "prom-client";

import type { RefreshEnd, RefreshRecord, RequestRecord, Tier, UpstreamCallRecord } from "../types.ts";
import type { Resource } from "../interface/resources.ts";
import { type BudgetMetrics, type BudgetSources, registerBudgetMetrics } from "./budget-metrics.ts";
import { TRAFFIC } from "./catalogue.ts";
import { type ConfigMetrics, registerConfigMetrics } from "./config-metrics.ts";
import { createInstruments } from "./instruments.ts";
import type { StoreOperation } from "../types.ts";
import { type Build, registerProcessMetrics } from "./process-metrics.ts";
import { registerStoreMetrics, type BreakerState, type TierStats } from "./store-metrics.ts";
import { registerTrafficMetrics } from "./traffic-metrics.ts";

export interface Metrics {
  readonly request: (record: RequestRecord) => void;
  readonly upstreamCall: (record: UpstreamCallRecord) => void;
  readonly refreshed: (record: RefreshRecord) => void;
  readonly warmed: (resource: Resource, end: RefreshEnd) => void;
  /** A store's operation, in milliseconds, done or failed. */
  readonly storeOperation: (store: Tier, operation: StoreOperation, durationMs: number) => void;
  readonly breakerState: (store: Tier, state: BreakerState) => void;
  readonly budget: BudgetMetrics;
  readonly eventLoopDelay: (delayMs: number) => void;
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
  /** How many apps the settings name. */
  readonly appsRegistered: () => number;
  readonly build: Build;
}

export function createMetrics(sources: MetricSources): Metrics {
  // A registry of its own: a module-global one would carry one gateway's counts into the next.
  const registry = new Registry();
  const instruments = createInstruments(registry);
  const traffic = registerTrafficMetrics(instruments);
  const stores = registerStoreMetrics(instruments, sources.tiers);
  const budget = registerBudgetMetrics(instruments, sources.budget);
  const { eventLoopDelay } = registerProcessMetrics(instruments, sources.build);
  instruments.sampledAlone(TRAFFIC.flights, sources.flights);
  instruments.sampledAlone(TRAFFIC.appsRegistered, sources.appsRegistered);

  return {
    request(record) {
      traffic.request(record);
      if (record.tier !== undefined) stores.hit(record.tier);
    },
    upstreamCall: traffic.upstreamCall,
    refreshed: traffic.refreshed,
    warmed: traffic.warmed,
    storeOperation: stores.operation,
    breakerState: stores.breakerState,
    budget,
    eventLoopDelay,
    config: registerConfigMetrics(instruments),
    async render() {
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}
