/**
 * Every metric, declared once. The exposition, its tests and docs/metrics.md are generated from this list.
 */
import * as label from "./labels.ts";
import type { LabelValues } from "./labels.ts";

type MetricType = "counter" | "gauge" | "histogram";

/** A metric with the possible values of its labels. */
export interface Metric<T extends MetricType = MetricType, L extends string = string> {
  readonly type: T;
  readonly name: string;
  readonly help: string;
  readonly labels: Readonly<Record<L, LabelValues>>;
  /** The upper bounds of a histogram's buckets, in its unit. */
  readonly buckets?: readonly number[];
}

type Labels<L extends string> = Readonly<Record<L, LabelValues>>;

function counter<L extends string>(name: string, help: string, labels: Labels<L>): Metric<"counter", L> {
  return { type: "counter", name, help, labels };
}

function gauge<L extends string>(name: string, help: string, labels: Labels<L>): Metric<"gauge", L> {
  return { type: "gauge", name, help, labels };
}

function histogram<L extends string>(
  name: string,
  help: string,
  labels: Labels<L>,
  buckets: readonly number[],
): Metric<"histogram", L> {
  return { type: "histogram", name, help, labels, buckets };
}

export const TRAFFIC = {
  requests: counter("gateway_requests_total", "Requests of callers, by app, resource, outcome and status.", {
    app: label.APP,
    resource: label.ADMITTED_RESOURCE,
    outcome: label.OUTCOME,
    status: label.STATUS,
  }),
  requestSeconds: histogram(
    "gateway_request_duration_seconds",
    "Time from a request's arrival to the end of its response.",
    { resource: label.ADMITTED_RESOURCE, outcome: label.OUTCOME },
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  ),
  problems: counter(
    "gateway_problems_total",
    "Requests of callers that got a problem, by its code and HTTP status.",
    { problem: label.PROBLEM, status: label.STATUS },
  ),
  appsRegistered: gauge("gateway_apps_registered", "Number of apps in the settings.", {}),
  appTokensRefused: counter(
    "gateway_app_tokens_refused_total",
    "Requests that named an app without its token, by that app.",
    { app: label.APP },
  ),
  flights: gauge("gateway_flights", "Upstream calls in progress or in the queue.", {}),
};

export const UPSTREAM = {
  requests: counter(
    "gateway_upstream_requests_total",
    "Requests sent to the upstream, by resource, cause, and HTTP status or kind of failure.",
    { resource: label.RESOURCE, cause: label.CAUSE, status: label.CALL_STATUS },
  ),
  requestSeconds: histogram(
    "gateway_upstream_request_duration_seconds",
    "Time from sending a request to the upstream to the end of its answer.",
    { resource: label.RESOURCE },
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8],
  ),
  credentialsRefused: counter(
    "gateway_upstream_credentials_refused_total",
    "Answers in which the upstream rejects the gateway's credentials (status 401 or 403).",
    {},
  ),
  callsSaved: counter(
    "gateway_upstream_calls_saved_total",
    "Requests of callers that needed no call to the API of their own, by reason.",
    { cause: label.SAVING },
  ),
  pagesChecked: counter(
    "gateway_pages_checked_total",
    "Pages cut from a block that were compared with the API's own page, by resource and result.",
    { resource: label.RESOURCE, result: label.PAGE_CHECK },
  ),
  circuitState: gauge(
    "gateway_circuit_state",
    "State of a circuit: 0 closed (requests go to the upstream), 1 half-open (one request tests it), 2 open (no requests go).",
    { circuit: label.CIRCUIT },
  ),
};

export const BUDGET = {
  limit: gauge("gateway_budget_limit", "Limit of requests to the upstream in a window.", {
    window: label.WINDOW,
  }),
  remaining: gauge("gateway_budget_remaining", "Requests to the upstream left in a window.", {
    window: label.WINDOW,
  }),
  appLimit: gauge(
    "gateway_app_budget_limit",
    "Share of a listed app in a window; for `per-day`, its setting perDay.",
    { app: label.LISTED_APP, window: label.APP_WINDOW },
  ),
  appRemaining: gauge("gateway_app_budget_remaining", "Calls that a listed app has left in a window.", {
    app: label.LISTED_APP,
    window: label.APP_WINDOW,
  }),
  spent: counter(
    "gateway_budget_spent_total",
    "Requests sent to the upstream, by the app that pays and the cause.",
    { app: label.APP, cause: label.CAUSE },
  ),
  refused: counter(
    "gateway_refused_total",
    "Requests refused because the budget permits no more, by app and reason.",
    {
      app: label.APP,
      reason: label.REASON,
    },
  ),
  wouldBeRefused: counter(
    "gateway_would_be_refused_total",
    "Requests that would have been refused if the budget were enforced (budget.mode: observe), by app and reason.",
    { app: label.APP, reason: label.REASON },
  ),
  queueLength: gauge("gateway_throttle_queue_length", "Requests that wait for a permit, by priority.", {
    priority: label.PRIORITY,
  }),
  waitSeconds: histogram(
    "gateway_throttle_wait_seconds",
    "Time that requests to the upstream waited for a permit.",
    {},
    [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  ),
};

export const STORES = {
  hits: counter(
    "gateway_cache_hits_total",
    "Requests answered from the cache, by the tier that had the answer.",
    { tier: label.TIER },
  ),
  entries: gauge("gateway_cache_entries", "Cached answers, by tier.", { tier: label.TIER }),
  bytes: gauge("gateway_cache_bytes", "Bytes of cached answers, by tier.", { tier: label.TIER }),
  evictions: counter("gateway_cache_evictions_total", "Answers evicted to make room, by tier.", {
    tier: label.TIER,
  }),
  operationSeconds: histogram(
    "gateway_store_operation_duration_seconds",
    "Time of one operation of a store, successful or not.",
    { store: label.STORE, operation: label.OPERATION },
    [0.00001, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1],
  ),
  ledgerDurable: gauge(
    "gateway_ledger_durable",
    "Whether each call is in the ledger before it is sent: 1 yes, 0 no (only the memory of the process has it). Absent if the settings have no store for the ledger.",
    { store: label.STORE },
  ),
  breakerState: gauge(
    "gateway_store_breaker_state",
    "State of a store's breaker: 0 closed (in use), 1 half-open (being tested), 2 open (out of order).",
    { store: label.STORE },
  ),
};

export const FRESHNESS = {
  refreshes: counter(
    "gateway_refreshes_total",
    "Fetches of answers that were already cached, by resource and by whether the answer had changed.",
    { resource: label.RESOURCE, change: label.CHANGE },
  ),
  warmFetches: counter(
    "gateway_warm_fetches_total",
    "Refreshes of answers on the warm list, by resource and result.",
    { resource: label.RESOURCE, result: label.REFRESH_END },
  ),
};

export const SETTINGS = {
  reloads: counter("gateway_config_reloads_total", "Reloads of the settings, by result.", {
    result: label.RELOAD_RESULT,
  }),
  lastReloadSuccessful: gauge(
    "gateway_config_last_reload_successful",
    "Whether the last reload of the settings was applied: 1 yes, 0 no (the previous settings stay in force).",
    {},
  ),
  lastReloadSuccess: gauge(
    "gateway_config_last_reload_success_timestamp_seconds",
    "When the current settings were applied, in epoch seconds.",
    {},
  ),
};

export const PROCESS = {
  buildInfo: gauge(
    "gateway_build_info",
    "Always 1. The labels contain the versions of the gateway and of Node.",
    {
      version: label.VERSION,
      node: label.NODE,
    },
  ),
  eventLoopDelay: histogram(
    "gateway_event_loop_delay_seconds",
    "How late a timer fires, measured 25 times a second.",
    {},
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
  ),
  cpuSeconds: counter("process_cpu_seconds_total", "CPU time used, by the user and the system together.", {}),
  residentBytes: gauge("process_resident_memory_bytes", "Resident memory.", {}),
  heapBytes: gauge("process_heap_bytes", "Memory in use on the JavaScript heap.", {}),
  startTime: gauge("process_start_time_seconds", "When the process started, in epoch seconds.", {}),
};

/** All metrics, in the order of docs/metrics.md. */
export const CATALOGUE: readonly { readonly title: string; readonly metrics: readonly Metric[] }[] = [
  { title: "Traffic", metrics: Object.values<Metric>(TRAFFIC) },
  { title: "The upstream", metrics: Object.values<Metric>(UPSTREAM) },
  { title: "The budget", metrics: Object.values<Metric>(BUDGET) },
  { title: "The stores", metrics: Object.values<Metric>(STORES) },
  { title: "Freshness", metrics: Object.values<Metric>(FRESHNESS) },
  { title: "The settings", metrics: Object.values<Metric>(SETTINGS) },
  { title: "The process", metrics: Object.values<Metric>(PROCESS) },
];
