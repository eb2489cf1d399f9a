/**
 * Metrics for Prometheus. Every label's values are a closed set or come from the settings: nothing a
 * caller sends can add a series. What there is: src/telemetry/catalogue.ts.
 */
import { Registry } from "prom-client";

import type { RefreshEnd, RefreshRecord, RequestRecord, Tier, UpstreamCallRecord } from "../types.ts";
import type { Resource } from "../interface/resources.ts";
import {
  type BudgetMetrics,
  type BudgetSources,
  registerBudgetMetrics,
  sampleBudget,
} from "./budget-metrics.ts";
import { TRAFFIC } from "./catalogue.ts";
import { type ConfigMetrics, registerConfigMetrics } from "./config-metrics.ts";
import { createInstruments } from "./instruments.ts";
import type { StoreOperation } from "../types.ts";
import { type Build, registerProcessMetrics } from "./process-metrics.ts";
import { type BreakerState, registerStoreMetrics, sampleStores, type TierStats } from "./store-metrics.ts";
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
  /** From now on a scrape reads these sources too. Called once, when they exist. */
  readonly sample: (sources: MetricSources) => void;
  /** The exposition text and its media type. */
  readonly render: () => Promise<{ contentType: string; text: string }>;
}

/** Read at the moment of a scrape. */
export interface MetricSources {
  /** The contents of each tier, as far as this process knows. */
  readonly tiers: () => readonly TierStats[];
  readonly flights: () => number;
  readonly budget: BudgetSources;
  /** How many apps the settings name. */
  readonly appsRegistered: () => number;
}

export function createMetrics(build: Build): Metrics {
  // A registry of its own: a module-global one would carry one gateway's counts into the next.
  const registry = new Registry();
  const instruments = createInstruments(registry);
  const traffic = registerTrafficMetrics(instruments);
  const stores = registerStoreMetrics(instruments);
  const budget = registerBudgetMetrics(instruments);
  const { eventLoopDelay } = registerProcessMetrics(instruments, build);

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
    sample(sources) {
      sampleStores(instruments, sources.tiers);
      sampleBudget(instruments, sources.budget);
      instruments.sampledAlone(TRAFFIC.flights, sources.flights);
      instruments.sampledAlone(TRAFFIC.appsRegistered, sources.appsRegistered);
    },
    async render() {
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}
