/**
 * Every metric: what it says, and its labels. `metrics.ts` counts; sampled metrics are read at every scrape.
 *
 * The values of each label are a closed set or come from the settings. The exception is the label of apps: callers can add
 * the ids of unlisted apps, up to `metrics.apps` ids in all.
 */
import { type Label, LABELS as L } from "./labels.ts";

export type Metric = (typeof METRICS)[number];

/** Only histograms have buckets: upper bounds, in the unit of the name. */
const NO_BUCKETS: readonly number[] = [];

function metric<Name extends string = never>(help: string, ...labels: readonly Label<Name>[]) {
  return { help, labels, buckets: NO_BUCKETS };
}

/** The metrics that something is told to count. */
const COUNTED = {
  // Traffic
  gateway_requests_total: metric("Requests of callers.", L.app, L.asked, L.outcome, L.status),
  gateway_request_duration_seconds: {
    ...metric("Time from a request's arrival to the end of its response.", L.asked, L.outcome),
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  },
  gateway_problems_total: metric("Requests of callers that got a problem.", L.problem, L.status),
  gateway_app_tokens_refused_total: metric("Requests that named an app without its token.", L.app),

  // The upstream
  gateway_upstream_requests_total: metric("Calls to the upstream.", L.resource, L.cause, L.ended),
  gateway_upstream_request_duration_seconds: {
    ...metric("Time from sending a call to the end of its answer.", L.resource),
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8],
  },
  gateway_upstream_credentials_refused_total: metric("Signed calls answered with 401 or 403."),
  gateway_upstream_calls_saved_total: metric("Requests that needed no call of their own.", L.saving),
  gateway_pages_checked_total: metric("Cut pages compared with the API's own.", L.resource, L.check),

  // The budget
  gateway_budget_spent_total: metric("Calls, by the app that pays.", L.app, L.cause),
  gateway_refused_total: metric("Calls that the budget or a circuit refused.", L.app, L.reason),
  gateway_would_be_refused_total: metric("Calls that an enforced budget would refuse.", L.app, L.reason),
  gateway_budget_data_lost_total: metric("How often Redis lost data of the budget, as this process noticed."),
  gateway_throttle_wait_seconds: {
    ...metric("Time that calls waited for a permit."),
    buckets: [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  },

  // The stores
  gateway_cache_hits_total: metric("Requests answered from the cache.", L.tier),
  gateway_store_operation_duration_seconds: {
    ...metric("Time of one operation of a store, successful or not.", L.store, L.operation),
    buckets: [0.00001, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1],
  },
  gateway_store_breaker_state: metric("State of a store's breaker: 0 closed, 1 half-open, 2 open.", L.store),

  // Freshness
  gateway_refreshes_total: metric("Fetches of answers that were already cached.", L.resource, L.change),
  gateway_warm_fetches_total: metric("Fetches of answers on the warm list.", L.resource, L.refreshEnd),

  // The settings
  gateway_config_reloads_total: metric("Reloads of the settings.", L.reload),
  gateway_config_last_reload_successful: metric("Whether the last reload was applied: 1 yes, 0 no."),
  gateway_config_last_reload_success_timestamp_seconds: metric("When the settings were applied."),

  // The process
  gateway_event_loop_delay_seconds: {
    ...metric("How late a timer fires, measured 25 times a second."),
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
  },
};

/** The metrics that are read at every scrape. */
const SAMPLED = {
  // The budget
  gateway_budget_limit: metric("Most calls in a window.", L.window),
  gateway_budget_remaining: metric("Calls left in a window.", L.window),
  gateway_app_budget_limit: metric("Share of a listed app in a window.", L.listedApp, L.appWindow),
  gateway_app_budget_remaining: metric("Calls left to a listed app in a window.", L.listedApp, L.appWindow),
  gateway_budget_known: metric("Whether the process knows what all replicas have spent: 1 yes, 0 no."),
  gateway_budget_slot: metric("Whether the process has a slot: 1 yes, 0 no; absent without Redis."),
  gateway_calls_in_flight: metric("Calls in flight."),
  gateway_throttle_queue_length: metric("Calls that wait for a permit.", L.priority),
  gateway_circuit_state: metric("State of a circuit: 0 closed, 1 half-open, 2 open (no calls).", L.circuit),

  // Traffic
  gateway_apps_registered: metric("Number of apps in the settings."),
  gateway_app_background: metric("Always 1, for each listed app with `priority: background`.", L.listedApp),
  gateway_flights: metric("Upstream calls in progress or in the queue."),

  // The stores
  gateway_cache_entries: metric("Cached answers.", L.tier),
  gateway_cache_bytes: metric("Bytes of cached answers. Those of sqlite include the ledger.", L.tier),
  gateway_cache_evictions_total: metric("Answers evicted to make room.", L.tier),
  gateway_ledger_durable: metric("Whether a call is in the ledger before it is sent: 1 yes, 0 no.", L.store),
  gateway_redis_may_evict_budget: metric("Whether Redis may evict the budget: 1 yes, 0 no, absent: unknown."),

  // Freshness
  gateway_out_of_date_expected_ratio: metric("Expected share of cached answers that are out of date."),

  // The settings
  gateway_files_refused: metric("Files with secrets or certificates that cannot be used."),
  gateway_certificate_end_timestamp_seconds: metric("When a port's certificate ends.", L.server),
};

/** Read in metrics.ts. They replace the library's own, whose names break the conventions (`promtool check metrics`). */
const OF_PROCESS = {
  gateway_build_info: metric("Always 1, with the versions of the gateway and of Node.", L.version, L.node),
  process_cpu_seconds_total: metric("CPU time used, by the user and the system together."),
  process_resident_memory_bytes: metric("Resident memory."),
  process_heap_bytes: metric("Memory in use on the JavaScript heap."),
  process_start_time_seconds: metric("When the process started, in epoch seconds."),
};

/** In alphabetical order. */
export const METRICS = Object.entries({ ...COUNTED, ...SAMPLED, ...OF_PROCESS })
  .map(([name, one]) => ({ name, type: typeOf(name, one), isSampled: !Object.hasOwn(COUNTED, name), ...one }))
  .toSorted((one, other) => one.name.localeCompare(other.name));

function typeOf(name: string, { buckets }: { buckets: readonly number[] }) {
  if (buckets.length > 0) return "histogram";
  return name.endsWith("_total") ? "counter" : "gauge";
}

/** The values of a metric's labels. */
type Values<Declared extends { readonly labels: readonly Label[] }> = Readonly<
  Record<Declared["labels"][number]["name"], string | number>
>;

/** Adds to a counter, sets a gauge, or adds a value (1 by default) to a histogram. */
export type RecordValue = <Name extends keyof typeof COUNTED>(
  name: Name,
  labels: Values<(typeof COUNTED)[Name]>,
  value?: number,
) => void;

/** The value of a metric without labels, or the label values and the value of each series. An empty list: no series now. */
export type Samples<Labels = Readonly<Record<string, string | number>>> =
  | number
  | readonly (readonly [Labels, number])[];

/** How the sampled metrics are read, except for those of the process. */
export type Readings = {
  readonly [Name in keyof typeof SAMPLED]: () => Samples<Values<(typeof SAMPLED)[Name]>>;
};
