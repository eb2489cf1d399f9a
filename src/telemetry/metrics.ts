/**
 * Metrics for Prometheus: how each metric is counted. catalogue.ts declares the names, labels and help texts.
 *
 * The values of each label are a closed set or come from the settings. A caller can add only the bounded number of app names
 * that `metrics.unlistedApps` permits.
 */
import { Registry } from "prom-client";

import { Problem, PROBLEM_CODES } from "../errors.ts";
import type { Resource } from "../interface/resources.ts";
import {
  type Cause,
  type CircuitState,
  PAGE_CHECKS,
  type PageCheck,
  type Priority,
  type RefreshEnd,
  type RefreshRecord,
  type RefusalReason,
  type RequestRecord,
  type StoreOperation,
  type Tier,
  type UpstreamCallRecord,
} from "../types.ts";
import { BUDGET, FRESHNESS, type Metric, SETTINGS, STORES, TRAFFIC, UPSTREAM } from "./catalogue.ts";
import { createInstruments, type Instruments } from "./instruments.ts";
import { RELOAD_RESULTS, type ReloadResult, type Saving } from "./labels.ts";
import { type Build, registerProcessMetrics } from "./process-metrics.ts";
import { registerRequestMetrics } from "./request-metrics.ts";

export interface Metrics {
  /** @param app the value of the label `app`, which names some apps only */
  readonly request: (record: RequestRecord, app: string) => void;
  readonly upstreamCall: (record: UpstreamCallRecord) => void;
  readonly refreshed: (record: RefreshRecord) => void;
  readonly warmed: (resource: Resource, end: RefreshEnd) => void;
  /** A request named an app without its token. */
  readonly appTokenRefused: (app: string) => void;
  /** A page that was cut from a block was compared with the upstream's page. */
  readonly pageChecked: (resource: Resource, result: PageCheck) => void;
  /** An answer of the upstream was compared with what would have been computed from a broader search. */
  /** One operation of a store, successful or not. */
  readonly storeOperation: (store: Tier, operation: StoreOperation, durationMs: number) => void;
  readonly breakerState: (store: Tier, state: CircuitState) => void;
  readonly budget: BudgetMetrics;
  readonly eventLoopDelay: (delayMs: number) => void;
  readonly config: ConfigMetrics;
  /** How many requests needed no upstream call of their own so far, by reason. */
  readonly saved: () => Readonly<Record<Saving, number>>;
  /** Adds the metrics that are read at every scrape. Called once, when their sources exist. */
  readonly sample: (sources: MetricSources) => void;
  /** @returns the exposition text and its media type */
  readonly render: () => Promise<{ contentType: string; text: string }>;
}

/** Read at every scrape. */
export interface MetricSources {
  /** The contents of each tier, as far as this process knows them. */
  readonly tiers: () => readonly TierStats[];
  readonly flights: () => number;
  /** Whether each call is in the ledger of a store before it is sent; empty if the settings keep nothing. */
  readonly ledgers: () => readonly { readonly store: Tier; readonly isDurable: boolean }[];
  readonly budget: BudgetSources;
  /** The number of apps in the settings. */
  readonly appsRegistered: () => number;
}

export function createMetrics(build: Build): Metrics {
  // The library's global registry would mix the counts of several gateways in one process.
  const registry = new Registry();
  const instruments = createInstruments(registry);
  const traffic = registerTrafficMetrics(instruments);
  const stores = registerStoreMetrics(instruments);
  const budget = registerBudgetMetrics(instruments);
  const { eventLoopDelay } = registerProcessMetrics(instruments, build);

  const requests = registerRequestMetrics(instruments);

  return {
    request(record, app) {
      requests.count(record, app);
      if (record.problem !== undefined) traffic.problem(record);
    },
    upstreamCall: traffic.upstreamCall,
    refreshed: traffic.refreshed,
    warmed: traffic.warmed,
    pageChecked: traffic.pageChecked,
    appTokenRefused: traffic.appTokenRefused,
    storeOperation: stores.operation,
    breakerState: stores.breakerState,
    saved: requests.saved,
    budget,
    eventLoopDelay,
    config: registerConfigMetrics(instruments),
    sample(sources) {
      sampleStores(instruments, sources);
      sampleBudget(instruments, sources.budget);
      instruments.sampledAlone(TRAFFIC.flights, sources.flights);
      instruments.sampledAlone(TRAFFIC.appsRegistered, sources.appsRegistered);
    },
    async render() {
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}

type TrafficMetrics = Pick<
  Metrics,
  "upstreamCall" | "refreshed" | "warmed" | "pageChecked" | "appTokenRefused"
> & { readonly problem: (record: Pick<RequestRecord, "problem" | "status">) => void };

/** Problems, requests to the upstream, checks and refreshes. */
function registerTrafficMetrics({ counter, histogram }: Instruments): TrafficMetrics {
  const problems = counter(TRAFFIC.problems);
  const tokensRefused = counter(TRAFFIC.appTokensRefused);
  const upstreamRequests = counter(UPSTREAM.requests);
  const upstreamSeconds = histogram(UPSTREAM.requestSeconds);
  const pagesChecked = counter(UPSTREAM.pagesChecked);
  // These are exported as 0 from the start, so that Prometheus sees their first occurrence as an increase.
  for (const problem of PROBLEM_CODES) {
    const { status } = new Problem(problem);
    if (status >= 500) problems.inc({ problem, status }, 0);
  }
  for (const result of PAGE_CHECKS)
    for (const resource of ["listings", "sold"]) pagesChecked.inc({ resource, result }, 0);
  const credentialsRefused = counter(UPSTREAM.credentialsRefused);
  const refreshes = counter(FRESHNESS.refreshes);
  const warmFetches = counter(FRESHNESS.warmFetches);
  return {
    problem({ problem: code, status }) {
      const problem = PROBLEM_CODES.find((known) => known === code);
      if (problem !== undefined) problems.inc({ problem, status });
    },
    upstreamCall({ resource, cause, status, durationMs }) {
      upstreamRequests.inc({ resource, cause, status });
      upstreamSeconds.observe({ resource }, durationMs / 1000);
      if (status === 401 || status === 403) credentialsRefused.inc();
    },
    appTokenRefused: (app) => tokensRefused.inc({ app }),
    pageChecked: (resource, result) => pagesChecked.inc({ resource, result }),
    warmed: (resource, result) => warmFetches.inc({ resource, result }),
    refreshed: ({ resource, change }) => refreshes.inc({ resource, change }),
  };
}

/** The values of the gauges that show a circuit. */
const CIRCUIT_STATES: Readonly<Record<CircuitState, number>> = { closed: 0, "half-open": 1, open: 2 };

/** The state of the budgets, read at every scrape. */
export interface BudgetSources {
  /** `window` is the name of the window. Windows of the budget for images begin with `images/`. */
  readonly windows: () => readonly {
    readonly window: string;
    readonly limit: number;
    readonly remaining: number;
  }[];
  /** The limit and the rest of each listed app's share of a window, and of its daily limit (`per-day`). */
  readonly apps: () => readonly {
    readonly app: string;
    readonly window: string;
    readonly limit: number;
    readonly remaining: number;
  }[];
  readonly queue: () => readonly { readonly priority: Priority; readonly length: number }[];
  readonly circuits: () => readonly { readonly circuit: string; readonly state: CircuitState }[];
}

interface BudgetMetrics {
  readonly spent: (app: string, cause: Cause, waitedMs: number) => void;
  /** @param isEnforced false if the budget is only observed, and the request was sent all the same */
  readonly refused: (app: string, reason: RefusalReason, isEnforced: boolean) => void;
}

function sampleBudget({ sampled }: Instruments, sources: BudgetSources): void {
  sampled(BUDGET.limit, () => sources.windows().map(({ window, limit }) => [{ window }, limit]));
  sampled(BUDGET.remaining, () => sources.windows().map(({ window, remaining }) => [{ window }, remaining]));
  sampled(BUDGET.appLimit, () => sources.apps().map(({ app, window, limit }) => [{ app, window }, limit]));
  sampled(BUDGET.appRemaining, () =>
    sources.apps().map(({ app, window, remaining }) => [{ app, window }, remaining]),
  );
  sampled(BUDGET.queueLength, () => sources.queue().map(({ priority, length }) => [{ priority }, length]));
  sampled(UPSTREAM.circuitState, () =>
    sources.circuits().map(({ circuit, state }) => [{ circuit }, CIRCUIT_STATES[state]]),
  );
}

function registerBudgetMetrics({ counter, histogram }: Instruments): BudgetMetrics {
  const spent = counter(BUDGET.spent);
  const refused = counter(BUDGET.refused);
  const wouldBeRefused = counter(BUDGET.wouldBeRefused);
  const waited = histogram(BUDGET.waitSeconds);
  return {
    spent(app, cause, waitedMs) {
      spent.inc({ app, cause });
      waited.observe(waitedMs / 1000);
    },
    refused: (app, reason, isEnforced) => (isEnforced ? refused : wouldBeRefused).inc({ app, reason }),
  };
}

/** The contents of a tier, and how many entries it has evicted since the start. */
interface TierStats {
  readonly tier: Tier;
  readonly entries: number;
  readonly bytes: number;
  readonly evictions: number;
}

interface StoreMetrics {
  readonly operation: (store: Tier, operation: StoreOperation, durationMs: number) => void;
  readonly breakerState: (store: Tier, state: CircuitState) => void;
}

function registerStoreMetrics({ gauge, histogram }: Instruments): StoreMetrics {
  const seconds = histogram(STORES.operationSeconds);
  const breaker = gauge(STORES.breakerState);
  return {
    operation: (store, operation, durationMs) => seconds.observe({ store, operation }, durationMs / 1000),
    breakerState: (store, state) => breaker.set({ store }, CIRCUIT_STATES[state]),
  };
}

function sampleStores(
  { sampled }: Instruments,
  { tiers, ledgers }: Pick<MetricSources, "tiers" | "ledgers">,
): void {
  const byTier = (metric: Metric<"gauge" | "counter", "tier">, pick: (stats: TierStats) => number): void =>
    sampled(metric, () => tiers().map((stats) => [{ tier: stats.tier }, pick(stats)]));
  byTier(STORES.entries, ({ entries }) => entries);
  byTier(STORES.bytes, ({ bytes }) => bytes);
  byTier(STORES.evictions, ({ evictions }) => evictions);
  sampled(STORES.ledgerDurable, () =>
    ledgers().map(({ store, isDurable }) => [{ store }, isDurable ? 1 : 0]),
  );
}

interface ConfigMetrics {
  readonly reloaded: (result: ReloadResult) => void;
  /** The current settings were applied. @param at epoch milliseconds */
  readonly inForce: (at: number) => void;
}

function registerConfigMetrics({ counter, gauge }: Instruments): ConfigMetrics {
  const reloads = counter(SETTINGS.reloads);
  const successful = gauge(SETTINGS.lastReloadSuccessful);
  const succeededAt = gauge(SETTINGS.lastReloadSuccess);
  for (const result of RELOAD_RESULTS) reloads.inc({ result }, 0);
  return {
    reloaded(result) {
      reloads.inc({ result });
      successful.set(result === "applied" ? 1 : 0);
    },
    inForce(at) {
      successful.set(1);
      succeededAt.set(at / 1000);
    },
  };
}
