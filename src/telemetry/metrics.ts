/**
 * Metrics for Prometheus, each declared and counted here.
 *
 * The values of each label are a closed set or come from the settings. The exception is the label of apps: callers can add
 * the ids of unlisted apps, up to `metrics.apps` ids in all.
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
import { type Catalogue, Instruments } from "./instruments.ts";
import * as label from "./labels.ts";
import { RELOAD_RESULTS, type ReloadResult, type Saving, SAVINGS } from "./labels.ts";
import type { Build } from "./build.ts";

/** Read at every scrape. */
export interface MetricSources {
  /** The contents of each tier, as far as this process knows them. */
  readonly tiers: () => readonly TierStats[];
  readonly flights: () => number;
  /** The expected share of answers from the cache that are out of date; `null`: not known yet. */
  readonly outOfDate: () => number | null;
  /** Whether each call is in the ledger of a store before it is sent; empty if the settings keep nothing. */
  readonly ledgers: () => readonly { readonly store: Tier; readonly isDurable: boolean }[];
  /** The eviction policy of Redis; `undefined`: there is no Redis, or it does not report the policy. */
  readonly evictionPolicy: () => { readonly isSafe: boolean } | undefined;
  readonly budget: BudgetSources;
  /** The number of apps in the settings. */
  readonly appsRegistered: () => number;
  /** The label values of the apps with `priority: background`. */
  readonly backgroundApps: () => readonly string[];
  /** How many files with secrets or certificates cannot be used. */
  readonly filesRefused: () => number;
  /** When the certificates of the two ports end, in epoch milliseconds. */
  readonly certificates: () => readonly { readonly server: "callers" | "admin"; readonly endsAt: number }[];
}

/** The contents of a tier, and how many entries it has evicted since the start. */
interface TierStats {
  readonly tier: Tier;
  readonly entries: number;
  readonly bytes: number;
  readonly evictions: number;
}

type Declare = Instruments<MetricSources>;

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
  let known: MetricSources | undefined;
  const instruments = new Instruments<MetricSources>(() => known);
  const { registry, catalogue } = instruments;
  const [traffic, upstream] = [declareTraffic(instruments), declareUpstream(instruments)];
  const budget = declareBudget(instruments);
  const stores = declareStores(instruments);
  return {
    ...traffic,
    ...upstream,
    budget,
    ...stores,
    ...declareFreshness(instruments),
    config: declareSettings(instruments),
    ...declareProcess(instruments, build),
    request(record, app) {
      for (const part of [traffic, upstream, stores]) part.request(record, app);
    },
    sample: (sources) => void (known = sources),
    catalogue,
    render: async () => ({ contentType: registry.contentType, text: await registry.metrics() }),
  };
}

/** Why a request needed no call; `undefined`: it needed a call, got no answer, or asked for a page of the gateway. */
export function savingOf({ saved, outcome, problem, resource }: RequestRecord): Saving | undefined {
  if (saved !== undefined) return saved;
  if (problem === "invalid-query") return "refused";
  if (resource === "none") return undefined;
  return outcome === "hit" || outcome === "collapsed" ? outcome : undefined;
}

function declareTraffic(add: Declare) {
  add.begin("Traffic");
  const { APP, ADMITTED_RESOURCE, OUTCOME, STATUS } = label;
  const requests = add.counter(
    "gateway_requests_total",
    [APP, ADMITTED_RESOURCE, OUTCOME, STATUS],
    "Requests of callers.",
  );
  const seconds = add.histogram(
    "gateway_request_duration_seconds",
    [ADMITTED_RESOURCE, OUTCOME],
    "Time from a request's arrival to the end of its response.",
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  );
  const problems = add.counter(
    "gateway_problems_total",
    [label.PROBLEM, STATUS],
    "Requests of callers that got a problem.",
  );
  // Exported as 0 from the start, so that Prometheus sees their first occurrence as an increase.
  for (const problem of PROBLEM_CODES) {
    const { status } = new Problem(problem);
    if (status >= 500) problems.inc({ problem, status }, 0);
  }
  add.sampled("gateway_apps_registered", [], "Number of apps in the settings.", (sources) =>
    sources.appsRegistered(),
  );
  add.sampled(
    "gateway_app_background",
    [label.LISTED_APP],
    "Always 1, for each listed app with `priority: background`.",
    ({ backgroundApps }) => backgroundApps().map((app) => [{ app }, 1]),
  );
  const refused = add.counter(
    "gateway_app_tokens_refused_total",
    [APP],
    "Requests that named an app without its token.",
  );
  add.sampled("gateway_flights", [], "Upstream calls in progress or in the queue.", ({ flights }) =>
    flights(),
  );
  return {
    request({ resource, outcome, status, problem, durationMs }: RequestRecord, app: string): void {
      requests.inc({ app, resource, outcome, status });
      seconds.observe({ resource, outcome }, durationMs / 1000);
      const named = PROBLEM_CODES.find((one) => one === problem);
      if (named !== undefined) problems.inc({ problem: named, status });
    },
    appTokenRefused: (app: string): void => refused.inc({ app }),
  };
}

/** The values of the gauges that show a circuit or a breaker. */
const CIRCUIT_STATES: Readonly<Record<CircuitState, number>> = { closed: 0, "half-open": 1, open: 2 };

function declareUpstream(add: Declare) {
  add.begin("The upstream");
  const { RESOURCE, CAUSE, CALL_STATUS, PAGE_CHECK } = label;
  const requests = add.counter(
    "gateway_upstream_requests_total",
    [RESOURCE, CAUSE, CALL_STATUS],
    "Calls to the upstream.",
  );
  const seconds = add.histogram(
    "gateway_upstream_request_duration_seconds",
    [RESOURCE],
    "Time from sending a call to the end of its answer.",
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8],
  );
  const credentialsRefused = add.counter(
    "gateway_upstream_credentials_refused_total",
    [],
    "Calls that the upstream answered with 401 or 403.",
  );
  const saved = add.counter(
    "gateway_upstream_calls_saved_total",
    [label.SAVING],
    "Requests that needed no call of their own.",
  );
  // Reasons that did not occur yet are exported as 0, so that Prometheus sees their first occurrence as an increase.
  for (const cause of SAVINGS) saved.inc({ cause }, 0);
  const checks = add.counter(
    "gateway_pages_checked_total",
    [RESOURCE, PAGE_CHECK],
    "Cut pages that were compared with the API's own.",
  );
  for (const result of PAGE_CHECKS)
    for (const resource of ["listings", "sold"]) checks.inc({ resource, result }, 0);
  add.sampled(
    "gateway_circuit_state",
    [label.CIRCUIT],
    "State of a circuit: 0 closed, 1 half-open (one call tests it), 2 open (no calls are sent).",
    ({ budget }) => budget.circuits().map(({ circuit, state }) => [{ circuit }, CIRCUIT_STATES[state]]),
  );
  return {
    request(record: RequestRecord): void {
      const cause = savingOf(record);
      if (cause !== undefined) saved.inc({ cause });
    },
    upstreamCall({ resource, cause, status, durationMs }: UpstreamCallRecord): void {
      requests.inc({ resource, cause, status });
      seconds.observe({ resource }, durationMs / 1000);
      if (status === 401 || status === 403) credentialsRefused.inc();
    },
    pageChecked: (resource: Resource, result: PageCheck): void => checks.inc({ resource, result }),
  };
}

function declareStores(add: Declare) {
  add.begin("The stores");
  const { TIER, STORE, OPERATION } = label;
  const hits = add.counter("gateway_cache_hits_total", [TIER], "Requests answered from the cache.");
  const ofTiers =
    (member: Exclude<keyof TierStats, "tier">) =>
    ({ tiers }: MetricSources) =>
      tiers().map((stats) => [{ tier: stats.tier }, stats[member]] as const);
  add.sampled("gateway_cache_entries", [TIER], "Cached answers.", ofTiers("entries"));
  add.sampled("gateway_cache_bytes", [TIER], "Bytes of cached answers.", ofTiers("bytes"));
  add.sampled("gateway_cache_evictions_total", [TIER], "Answers evicted to make room.", ofTiers("evictions"));
  const seconds = add.histogram(
    "gateway_store_operation_duration_seconds",
    [STORE, OPERATION],
    "Time of one operation of a store, successful or not.",
    [0.00001, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1],
  );
  add.sampled(
    "gateway_ledger_durable",
    [STORE],
    "Whether each call is in the ledger before it is sent: 1 yes, 0 no (only in memory). Absent without a store.",
    ({ ledgers }) => ledgers().map(({ store, isDurable }) => [{ store }, isDurable ? 1 : 0]),
  );
  declareEviction(add);
  const breaker = add.gauge(
    "gateway_store_breaker_state",
    [STORE],
    "State of a store's breaker: 0 closed, 1 half-open, 2 open (the store is not used).",
  );
  return {
    request({ tier }: RequestRecord): void {
      if (tier !== undefined) hits.inc({ tier });
    },
    storeOperation: (store: Tier, operation: StoreOperation, durationMs: number): void =>
      seconds.observe({ store, operation }, durationMs / 1000),
    breakerState: (store: Tier, state: CircuitState): void => breaker.set({ store }, CIRCUIT_STATES[state]),
  };
}

function declareEviction(add: Declare): void {
  add.sampled(
    "gateway_redis_may_evict_budget",
    [],
    "Whether Redis' maxmemory-policy lets it evict the budget: 1 yes, 0 no. Absent if Redis does not say.",
    ({ evictionPolicy }) => {
      const policy = evictionPolicy();
      return policy === undefined ? [] : Number(!policy.isSafe);
    },
  );
}

function declareFreshness(add: Declare) {
  add.begin("Freshness");
  const { RESOURCE, CHANGE, REFRESH_END } = label;
  const refreshes = add.counter(
    "gateway_refreshes_total",
    [RESOURCE, CHANGE],
    "Fetches of answers that were already cached.",
  );
  const warmFetches = add.counter(
    "gateway_warm_fetches_total",
    [RESOURCE, REFRESH_END],
    "Fetches of answers on the warm list.",
  );
  add.sampled(
    "gateway_out_of_date_expected_ratio",
    [],
    "Expected share of cached answers that are out of date, from 0 to 1. Absent until answers were fetched again.",
    ({ outOfDate }) => outOfDate() ?? [],
  );
  return {
    refreshed: ({ resource, change }: RefreshRecord): void => refreshes.inc({ resource, change }),
    warmed: (resource: Resource, result: RefreshEnd): void => warmFetches.inc({ resource, result }),
  };
}

function declareSettings(add: Declare) {
  add.begin("The settings");
  const reloads = add.counter(
    "gateway_config_reloads_total",
    [label.RELOAD_RESULT],
    "Reloads of the settings.",
  );
  const successful = add.gauge(
    "gateway_config_last_reload_successful",
    [],
    "Whether the last reload of the settings was applied: 1 yes, 0 no.",
  );
  const succeededAt = add.gauge(
    "gateway_config_last_reload_success_timestamp_seconds",
    [],
    "When the current settings were applied, in epoch seconds.",
  );
  add.sampled(
    "gateway_files_refused",
    [],
    "Files with secrets or certificates that cannot be used. The previous content stays in use.",
    ({ filesRefused }) => filesRefused(),
  );
  add.sampled(
    "gateway_certificate_end_timestamp_seconds",
    [label.SERVER],
    "When a port's certificate ends, in epoch seconds. Absent without TLS.",
    ({ certificates }) => certificates().map(({ server, endsAt }) => [{ server }, endsAt / 1000]),
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

/** Replaces the library's default metrics, whose names break the conventions (`promtool check metrics`). */
function declareProcess(add: Declare, { version, node }: Build) {
  add.begin("The process");
  add.sampled(
    "gateway_build_info",
    [label.VERSION, label.NODE],
    "Always 1. The labels contain the versions of the gateway and of Node.",
    () => [[{ version, node }, 1]],
  );
  const delay = add.histogram(
    "gateway_event_loop_delay_seconds",
    [],
    "How late a timer fires, measured 25 times a second.",
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
  );
  add.sampled("process_cpu_seconds_total", [], "CPU time used, by the user and the system together.", () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000_000;
  });
  add.sampled("process_resident_memory_bytes", [], "Resident memory.", () => process.memoryUsage.rss());
  add.sampled(
    "process_heap_bytes",
    [],
    "Memory in use on the JavaScript heap.",
    () => process.memoryUsage().heapUsed,
  );
  add.sampled(
    "process_start_time_seconds",
    [],
    "When the process started, in epoch seconds.",
    () => performance.timeOrigin / 1000,
  );
  return { eventLoopDelay: (delayMs: number): void => delay.observe(delayMs / 1000) };
}
