/**
 * Every metric: what it says, and its labels. `metrics.ts` counts; sampled metrics are read at every scrape.
 *
 * The values of each label are a closed set or come from the settings. The exception is the label of apps: callers can add
 * the ids of unlisted apps, up to `metrics.apps` ids in all.
 */
import { type Label, LABELS as L } from "./labels.ts";

export interface Metric {
  /** The section of docs/internals/metrics.md. */
  readonly section: string;
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly Label[];
  readonly isSampled: boolean;
  /** Upper bounds, in the unit of the name. */
  readonly buckets?: readonly number[];
}

/** A metric that something is told to count. */
function counted<Name extends string = never>(help: string, ...labels: readonly Label<Name>[]) {
  return { help, labels, isSampled: false } as const;
}

/** A metric that is read at every scrape. */
function sampled<Name extends string = never>(help: string, ...labels: readonly Label<Name>[]) {
  return { help, labels, isSampled: true } as const;
}

const TRAFFIC = {
  gateway_requests_total: counted("Requests of callers.", L.app, L.asked, L.outcome, L.status),
  gateway_request_duration_seconds: {
    ...counted("Time from a request's arrival to the end of its response.", L.asked, L.outcome),
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  },
  gateway_problems_total: counted("Requests of callers that got a problem.", L.problem, L.status),
  gateway_apps_registered: sampled("Number of apps in the settings."),
  gateway_app_background: sampled("Always 1, for each listed app with `priority: background`.", L.listedApp),
  gateway_app_tokens_refused_total: counted("Requests that named an app without its token.", L.app),
  gateway_flights: sampled("Upstream calls in progress or in the queue."),
};

const UPSTREAM = {
  gateway_upstream_requests_total: counted("Calls to the upstream.", L.resource, L.cause, L.ended),
  gateway_upstream_request_duration_seconds: {
    ...counted("Time from sending a call to the end of its answer.", L.resource),
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8],
  },
  gateway_upstream_credentials_refused_total: counted("Calls that the upstream answered with 401 or 403."),
  gateway_upstream_calls_saved_total: counted("Requests that needed no call of their own.", L.saving),
  gateway_pages_checked_total: counted(
    "Cut pages that were compared with the API's own.",
    L.resource,
    L.check,
  ),
  gateway_circuit_state: sampled(
    "State of a circuit: 0 closed, 1 half-open (one call tests it), 2 open (no calls are sent).",
    L.circuit,
  ),
};

const BUDGET = {
  gateway_budget_limit: sampled("Most calls in a window.", L.window),
  gateway_budget_remaining: sampled("Calls left in a window.", L.window),
  gateway_app_budget_limit: sampled(
    "Share of a listed app in a window; for `per-day`, its setting perDay.",
    L.listedApp,
    L.appWindow,
  ),
  gateway_app_budget_remaining: sampled(
    "Calls that a listed app has left in a window.",
    L.listedApp,
    L.appWindow,
  ),
  gateway_budget_known: sampled(
    "Whether the process knows what all replicas have spent: 1 yes, 0 no (only its own purse pays, if it has one).",
  ),
  gateway_budget_slot: sampled(
    "Whether the process has a slot, and so an own purse: 1 yes, 0 no. Absent without Redis.",
  ),
  gateway_calls_in_flight: sampled("Calls in flight."),
  gateway_throttle_queue_length: sampled("Calls that wait for a permit.", L.priority),
  gateway_budget_spent_total: counted("Calls, by the app that pays.", L.app, L.cause),
  gateway_refused_total: counted("Requests refused because of the budget.", L.app, L.reason),
  gateway_would_be_refused_total: counted(
    "Requests that the budget would have refused (budget.mode: observe).",
    L.app,
    L.reason,
  ),
  gateway_budget_data_lost_total: counted(
    "How often Redis lost data of the budget, as this process noticed.",
  ),
  gateway_throttle_wait_seconds: {
    ...counted("Time that calls waited for a permit."),
    buckets: [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  },
};

const STORES = {
  gateway_cache_hits_total: counted("Requests answered from the cache.", L.tier),
  gateway_cache_entries: sampled("Cached answers.", L.tier),
  gateway_cache_bytes: sampled("Bytes of cached answers.", L.tier),
  gateway_cache_evictions_total: sampled("Answers evicted to make room.", L.tier),
  gateway_store_operation_duration_seconds: {
    ...counted("Time of one operation of a store, successful or not.", L.store, L.operation),
    buckets: [0.00001, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1],
  },
  gateway_ledger_durable: sampled(
    "Whether each call is in the ledger before it is sent: 1 yes, 0 no (only in memory). Absent without a store.",
    L.store,
  ),
  gateway_redis_may_evict_budget: sampled(
    "Whether Redis' maxmemory-policy lets it evict the budget: 1 yes, 0 no. Absent if Redis does not say.",
  ),
  gateway_store_breaker_state: counted(
    "State of a store's breaker: 0 closed, 1 half-open, 2 open (the store is not used).",
    L.store,
  ),
};

const FRESHNESS = {
  gateway_refreshes_total: counted("Fetches of answers that were already cached.", L.resource, L.change),
  gateway_warm_fetches_total: counted("Fetches of answers on the warm list.", L.resource, L.refreshEnd),
  gateway_out_of_date_expected_ratio: sampled(
    "Expected share of cached answers that are out of date, from 0 to 1. Absent until answers were fetched again.",
  ),
};

const SETTINGS = {
  gateway_config_reloads_total: counted("Reloads of the settings.", L.reload),
  gateway_config_last_reload_successful: counted(
    "Whether the last reload of the settings was applied: 1 yes, 0 no.",
  ),
  gateway_config_last_reload_success_timestamp_seconds: counted(
    "When the current settings were applied, in epoch seconds.",
  ),
  gateway_files_refused: sampled(
    "Files with secrets or certificates that cannot be used. The previous content stays in use.",
  ),
  gateway_certificate_end_timestamp_seconds: sampled(
    "When a port's certificate ends, in epoch seconds. Absent without TLS.",
    L.server,
  ),
};

/** In place of the library's default metrics, whose names break the conventions (`promtool check metrics`). */
const PROCESS = {
  gateway_build_info: sampled(
    "Always 1. The labels contain the versions of the gateway and of Node.",
    L.version,
    L.node,
  ),
  gateway_event_loop_delay_seconds: {
    ...counted("How late a timer fires, measured 25 times a second."),
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
  },
  process_cpu_seconds_total: sampled("CPU time used, by the user and the system together."),
  process_resident_memory_bytes: sampled("Resident memory."),
  process_heap_bytes: sampled("Memory in use on the JavaScript heap."),
  process_start_time_seconds: sampled("When the process started, in epoch seconds."),
};

const SECTIONS: Readonly<
  Record<string, Readonly<Record<string, Omit<Metric, "section" | "name" | "type">>>>
> = {
  Traffic: TRAFFIC,
  "The upstream": UPSTREAM,
  "The budget": BUDGET,
  "The stores": STORES,
  Freshness: FRESHNESS,
  "The settings": SETTINGS,
  "The process": PROCESS,
};

export const METRICS: readonly Metric[] = Object.entries(SECTIONS).flatMap(([section, metrics]) =>
  Object.entries(metrics).map(([name, metric]) => ({ section, name, type: typeOf(name, metric), ...metric })),
);

function typeOf(name: string, { buckets }: Pick<Metric, "buckets">): Metric["type"] {
  if (buckets !== undefined) return "histogram";
  return name.endsWith("_total") ? "counter" : "gauge";
}

const TABLE = { ...TRAFFIC, ...UPSTREAM, ...BUDGET, ...STORES, ...FRESHNESS, ...SETTINGS, ...PROCESS };
type Table = typeof TABLE;

type NamesThat<IsSampled extends boolean> = {
  [Name in keyof Table]: Table[Name]["isSampled"] extends IsSampled ? Name : never;
}[keyof Table];

export type CountedName = NamesThat<false>;

/** The values of a metric's labels. */
export type Values<Name extends keyof Table> = Readonly<
  Record<Table[Name]["labels"][number]["name"], string | number>
>;

/** The value of a metric without labels, or the label values and the value of each series. An empty list: no series now. */
export type Samples<Labels = Readonly<Record<string, string | number>>> =
  | number
  | readonly (readonly [Labels, number])[];

/** How the sampled metrics are read, except for those of the process. */
export type Readings = {
  readonly [Name in Exclude<NamesThat<true>, keyof typeof PROCESS>]: () => Samples<Values<Name>>;
};

export type BudgetReadings = Pick<Readings, keyof Readings & (keyof typeof BUDGET | "gateway_circuit_state")>;
