/**
 * Metrics for Prometheus, each declared and counted here.
 *
 * The values of each label are a closed set or come from the settings. Callers can add at most 20 values: the names of
 * unlisted apps.
 */
import { Problem, PROBLEM_CODES } from "../errors.ts";
import type { Resource } from "../interface/resources.ts";
import {
  type CircuitState,
  PAGE_CHECKS,
  type PageCheck,
  type RefreshEnd,
  type RefreshRecord,
  type RequestRecord,
  type StoreOperation,
  type Tier,
  type UpstreamCallRecord,
} from "./events.ts";
import { type BudgetMetrics, type BudgetSources, declareBudget } from "./budget-metrics.ts";
import { type Catalogue, createInstruments, type Instruments, type Read } from "./instruments.ts";
import * as label from "./labels.ts";
import { RELOAD_RESULTS, type ReloadResult, type Saving, SAVINGS } from "./labels.ts";
import { type Build, declareProcessMetrics } from "./process-metrics.ts";

/** Read at every scrape. */
export interface MetricSources {
  /** The contents of each tier, as far as this process knows them. */
  readonly tiers: () => readonly TierStats[];
  readonly flights: () => number;
  /** The expected share of answers from the cache that are out of date; `null`: not known yet. */
  readonly outOfDate: () => number | null;
  /** Whether each call is in the ledger of a store before it is sent; empty if the settings keep nothing. */
  readonly ledgers: () => readonly { readonly store: Tier; readonly isDurable: boolean }[];
  readonly budget: BudgetSources;
  /** The number of apps in the settings. */
  readonly appsRegistered: () => number;
}

/** The contents of a tier, and how many entries it has evicted since the start. */
interface TierStats {
  readonly tier: Tier;
  readonly entries: number;
  readonly bytes: number;
  readonly evictions: number;
}

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
  /** One operation of a store, successful or not. */
  readonly storeOperation: (store: Tier, operation: StoreOperation, durationMs: number) => void;
  readonly breakerState: (store: Tier, state: CircuitState) => void;
  readonly budget: BudgetMetrics;
  readonly eventLoopDelay: (delayMs: number) => void;
  readonly config: {
    readonly reloaded: (result: ReloadResult) => void;
    /** The current settings were applied. @param at epoch milliseconds */
    readonly inForce: (at: number) => void;
  };
  /** Sets the sources of the metrics that are read at every scrape. */
  readonly sample: (sources: MetricSources) => void;
  readonly catalogue: Catalogue;
  /** @returns the exposition text and its media type */
  readonly render: () => Promise<{ contentType: string; text: string }>;
}

export function createMetrics(build: Build): Metrics {
  const instruments = createInstruments();
  let known: MetricSources | undefined;
  const read = <T>(pick: (sources: MetricSources) => readonly T[]): readonly T[] =>
    known === undefined ? [] : pick(known);
  const traffic = declareTraffic(instruments, read);
  const upstream = declareUpstream(instruments, read);
  const budget = declareBudget(instruments, (pick) => read(({ budget: sources }) => pick(sources)));
  const stores = declareStores(instruments, read);
  const freshness = declareFreshness(instruments, read);
  const config = declareSettings(instruments);
  const { eventLoopDelay } = declareProcessMetrics(instruments, build);
  return {
    request(record, app) {
      traffic.request(record, app);
      upstream.saved(savingOf(record));
      if (record.tier !== undefined) stores.hit(record.tier);
    },
    ...upstream.counted,
    ...freshness,
    appTokenRefused: traffic.appTokenRefused,
    storeOperation: stores.operation,
    breakerState: stores.breakerState,
    budget,
    eventLoopDelay,
    config,
    sample: (sources) => void (known = sources),
    catalogue: instruments.catalogue,
    render: async () => ({
      contentType: instruments.registry.contentType,
      text: await instruments.registry.metrics(),
    }),
  };
}

/** Why a request needed no call of its own; `undefined`: it needed one, or got no answer. */
export function savingOf({ saved, outcome, problem }: RequestRecord): Saving | undefined {
  if (saved !== undefined) return saved;
  if (problem === "invalid-query") return "refused";
  return outcome === "hit" || outcome === "collapsed" ? outcome : undefined;
}

function declareTraffic({ begin, counter, histogram, sampled }: Instruments, read: Read<MetricSources>) {
  begin("Traffic");
  const { APP: app, ADMITTED_RESOURCE: resource, OUTCOME: outcome, STATUS: status } = label;
  const requests = counter("gateway_requests_total", "Requests of callers.", {
    app,
    resource,
    outcome,
    status,
  });
  const seconds = histogram(
    "gateway_request_duration_seconds",
    "Time from a request's arrival to the end of its response.",
    { resource, outcome },
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  );
  const problems = counter("gateway_problems_total", "Requests of callers that got a problem.", {
    problem: label.PROBLEM,
    status,
  });
  // Exported as 0 from the start, so that Prometheus sees their first occurrence as an increase.
  for (const problem of PROBLEM_CODES) {
    const { status: code } = new Problem(problem);
    if (code >= 500) problems.inc({ problem, status: code }, 0);
  }
  sampled("gauge", "gateway_apps_registered", "Number of apps in the settings.", {}, () =>
    read((sources) => [[{}, sources.appsRegistered()]]),
  );
  const refused = counter(
    "gateway_app_tokens_refused_total",
    "Requests that named an app without its token.",
    { app },
  );
  sampled("gauge", "gateway_flights", "Upstream calls in progress or in the queue.", {}, () =>
    read((sources) => [[{}, sources.flights()]]),
  );
  return {
    request: (record: RequestRecord, appLabel: string): void => {
      const { resource: asked, outcome: how, status: code, problem, durationMs } = record;
      requests.inc({ app: appLabel, resource: asked, outcome: how, status: code });
      seconds.observe({ resource: asked, outcome: how }, durationMs / 1000);
      const named = PROBLEM_CODES.find((one) => one === problem);
      if (named !== undefined) problems.inc({ problem: named, status: code });
    },
    appTokenRefused: (id: string): void => refused.inc({ app: id }),
  };
}

/** The values of the gauges that show a circuit or a breaker. */
const CIRCUIT_STATES: Readonly<Record<CircuitState, number>> = { closed: 0, "half-open": 1, open: 2 };

function declareUpstream({ begin, counter, histogram, sampled }: Instruments, read: Read<MetricSources>) {
  begin("The upstream");
  const { RESOURCE: resource } = label;
  const requests = counter("gateway_upstream_requests_total", "Calls to the upstream.", {
    resource,
    cause: label.CAUSE,
    status: label.CALL_STATUS,
  });
  const seconds = histogram(
    "gateway_upstream_request_duration_seconds",
    "Time from sending a call to the end of its answer.",
    { resource },
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8],
  );
  const credentialsRefused = counter(
    "gateway_upstream_credentials_refused_total",
    "Calls that the upstream answered with 401 or 403.",
    {},
  );
  const saved = counter(
    "gateway_upstream_calls_saved_total",
    "Requests of callers that needed no call to the API of their own, by reason.",
    { cause: label.SAVING },
  );
  // Reasons that did not occur yet are exported as 0, so that Prometheus sees their first occurrence as an increase.
  for (const cause of SAVINGS) saved.inc({ cause }, 0);
  const checks = counter(
    "gateway_pages_checked_total",
    "Pages cut from a block that were compared with the API's own page.",
    { resource, result: label.PAGE_CHECK },
  );
  for (const result of PAGE_CHECKS)
    for (const checked of ["listings", "sold"]) checks.inc({ resource: checked, result }, 0);
  sampled(
    "gauge",
    "gateway_circuit_state",
    "State of a circuit: 0 closed (calls are sent), 1 half-open (one call tests it), 2 open (no calls are sent).",
    { circuit: label.CIRCUIT },
    () =>
      read(({ budget }) =>
        budget.circuits().map(({ circuit, state }) => [{ circuit }, CIRCUIT_STATES[state]]),
      ),
  );
  return {
    saved: (why: Saving | undefined): void => {
      if (why !== undefined) saved.inc({ cause: why });
    },
    counted: {
      upstreamCall: ({ resource: asked, cause, status, durationMs }: UpstreamCallRecord): void => {
        requests.inc({ resource: asked, cause, status });
        seconds.observe({ resource: asked }, durationMs / 1000);
        if (status === 401 || status === 403) credentialsRefused.inc();
      },
      pageChecked: (checked: Resource, result: PageCheck): void => checks.inc({ resource: checked, result }),
    },
  };
}

function declareStores(
  { begin, counter, gauge, histogram, sampled }: Instruments,
  read: Read<MetricSources>,
) {
  begin("The stores");
  const { TIER: tier, STORE: store } = label;
  const hits = counter("gateway_cache_hits_total", "Requests answered from the cache.", { tier });
  const ofTiers = (pick: (stats: TierStats) => number) => () =>
    read(({ tiers }) => tiers().map((stats) => [{ tier: stats.tier }, pick(stats)] as const));
  sampled(
    "gauge",
    "gateway_cache_entries",
    "Cached answers.",
    { tier },
    ofTiers(({ entries }) => entries),
  );
  sampled(
    "gauge",
    "gateway_cache_bytes",
    "Bytes of cached answers.",
    { tier },
    ofTiers(({ bytes }) => bytes),
  );
  sampled(
    "counter",
    "gateway_cache_evictions_total",
    "Answers evicted to make room.",
    { tier },
    ofTiers(({ evictions }) => evictions),
  );
  const seconds = histogram(
    "gateway_store_operation_duration_seconds",
    "Time of one operation of a store, successful or not.",
    { store, operation: label.OPERATION },
    [0.00001, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1],
  );
  sampled(
    "gauge",
    "gateway_ledger_durable",
    "Whether each call is in the ledger before it is sent: 1 yes, 0 no (only in memory). Absent if the settings have no store for the ledger.",
    { store },
    () => read(({ ledgers }) => ledgers().map((one) => [{ store: one.store }, one.isDurable ? 1 : 0])),
  );
  const breaker = gauge(
    "gateway_store_breaker_state",
    "State of a store's breaker: 0 closed (in use), 1 half-open (being tested), 2 open (out of order).",
    { store },
  );
  return {
    hit: (from: Tier): void => hits.inc({ tier: from }),
    operation: (of: Tier, operation: StoreOperation, durationMs: number): void =>
      seconds.observe({ store: of, operation }, durationMs / 1000),
    breakerState: (of: Tier, state: CircuitState): void => breaker.set({ store: of }, CIRCUIT_STATES[state]),
  };
}

function declareFreshness({ begin, counter, sampled }: Instruments, read: Read<MetricSources>) {
  begin("Freshness");
  const refreshes = counter("gateway_refreshes_total", "Fetches of answers that were already cached.", {
    resource: label.RESOURCE,
    change: label.CHANGE,
  });
  const warmFetches = counter("gateway_warm_fetches_total", "Fetches of answers on the warm list.", {
    resource: label.RESOURCE,
    result: label.REFRESH_END,
  });
  sampled(
    "gauge",
    "gateway_out_of_date_expected_ratio",
    "Expected share of answers from the cache that are out of date, from 0 to 1. Absent until answers were fetched again.",
    {},
    () =>
      read(({ outOfDate }) => {
        const share = outOfDate();
        return share === null ? [] : [[{}, share]];
      }),
  );
  return {
    refreshed: ({ resource, change }: RefreshRecord): void => refreshes.inc({ resource, change }),
    warmed: (resource: Resource, result: RefreshEnd): void => warmFetches.inc({ resource, result }),
  };
}

function declareSettings({ begin, counter, gauge }: Instruments) {
  begin("The settings");
  const reloads = counter("gateway_config_reloads_total", "Reloads of the settings.", {
    result: label.RELOAD_RESULT,
  });
  const successful = gauge(
    "gateway_config_last_reload_successful",
    "Whether the last reload of the settings was applied: 1 yes, 0 no (the previous settings stay in force).",
    {},
  );
  const succeededAt = gauge(
    "gateway_config_last_reload_success_timestamp_seconds",
    "When the current settings were applied, in epoch seconds.",
    {},
  );
  for (const result of RELOAD_RESULTS) reloads.inc({ result }, 0);
  return {
    reloaded: (result: ReloadResult): void => {
      reloads.inc({ result });
      successful.set(result === "applied" ? 1 : 0);
    },
    inForce: (at: number): void => {
      successful.set(1);
      succeededAt.set(at / 1000);
    },
  };
}
