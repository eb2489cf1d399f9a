/** The dashboard's rows about budget, queue, upstream, stores and processes, as data. */
import { FAILED, quantiles, rate, rateBy, series, type RowSpec } from "./dashboard-queries.ts";

const BUDGET: RowSpec = {
  title: "Budget",
  panels: [
    {
      title: "Left, by window",
      description: "The part of each window that is left.",
      unit: "percentunit",
      queries: [
        {
          expr: `min by (window) (${series("gateway_budget_remaining")} / ${series("gateway_budget_limit")})`,
          legend: "{{window}}",
        },
      ],
    },
    {
      title: "Spent, by window",
      description: "Calls in each window now, and its limit.",
      unit: "short",
      queries: [
        {
          expr: `max by (window) (${series("gateway_budget_limit")} - ${series("gateway_budget_remaining")})`,
          legend: "{{window}} spent",
        },
        { expr: `max by (window) (${series("gateway_budget_limit")})`, legend: "{{window}} limit" },
      ],
    },
    {
      title: "Left by app",
      description:
        "The part of its share of a window that each listed app has left. `per-day` is the app's own limit.",
      unit: "percentunit",
      queries: [
        {
          expr: `min by (app, window) (${series("gateway_app_budget_remaining")} / ${series("gateway_app_budget_limit")})`,
          legend: "{{app}} {{window}}",
        },
      ],
    },
    {
      title: "Spent by app",
      description: "Calls to the API per second, by the app whose share pays.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("app", "gateway_budget_spent_total")],
    },
    {
      title: "Spent by cause",
      description: "Calls to the API per second, by cause.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("cause", "gateway_budget_spent_total")],
    },
    {
      title: "Refused",
      description: "Requests that the budget refused, by app and reason.",
      unit: "reqps",
      as: "stacked",
      queries: [
        {
          expr: `sum by (app, reason) (${rate("gateway_refused_total")})`,
          legend: "{{app}} {{reason}}",
        },
      ],
    },
  ],
};

const QUEUE: RowSpec = {
  title: "Queue and waits",
  panels: [
    {
      title: "Queue",
      description: "Calls that wait for a permit, by priority.",
      unit: "short",
      as: "stacked",
      queries: [
        {
          expr: `sum by (priority) (${series("gateway_throttle_queue_length")})`,
          legend: "{{priority}}",
        },
      ],
    },
    {
      title: "Waits",
      description: "How long calls waited for a permit before they were sent.",
      unit: "s",
      queries: quantiles("gateway_throttle_wait_seconds"),
    },
    {
      title: "Flights",
      description: "Calls to the API in progress or in the queue.",
      unit: "short",
      queries: [{ expr: `sum(${series("gateway_flights")})`, legend: "flights" }],
    },
  ],
};

const UPSTREAM: RowSpec = {
  title: "Upstream",
  panels: [
    {
      title: "Latency",
      description: "From sending a request to the API to the end of its answer, by resource.",
      unit: "s",
      queries: quantiles("gateway_upstream_request_duration_seconds", "resource"),
    },
    {
      title: "Calls by status",
      description: "HTTP status, or the kind of failure if there is none.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("status", "gateway_upstream_requests_total")],
    },
    {
      title: "Failures by resource",
      description: "Calls that ended in 5xx or without a usable answer.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("resource", "gateway_upstream_requests_total", FAILED)],
    },
    {
      title: "Refused credentials",
      description: "Answers with 401 or 403. There should be none.",
      unit: "reqps",
      queries: [{ expr: `sum(${rate("gateway_upstream_credentials_refused_total")})`, legend: "refused" }],
    },
    {
      title: "Circuits",
      description: "Whether calls go to each part of the API. The worst state of all processes.",
      unit: "none",
      as: "states",
      queries: [{ expr: `max by (circuit) (${series("gateway_circuit_state")})`, legend: "{{circuit}}" }],
    },
  ],
};

const STORES: RowSpec = {
  title: "Stores",
  panels: [
    {
      title: "Store health",
      description: "Whether each process uses its store.",
      unit: "none",
      as: "states",
      queries: [
        {
          expr: `max by (store, instance) (${series("gateway_store_breaker_state")})`,
          legend: "{{store}} {{instance}}",
        },
      ],
    },
    {
      title: "Ledger",
      description:
        "1: each call is in the ledger before it is sent. 0: only the memory of the process has it.",
      unit: "short",
      queries: [
        {
          expr: `min by (store, instance) (${series("gateway_ledger_durable")})`,
          legend: "{{store}} {{instance}}",
        },
      ],
    },
    {
      title: "Store latency",
      description: "Time of one operation, successful or not, by store.",
      unit: "s",
      queries: quantiles("gateway_store_operation_duration_seconds", "store"),
    },
    {
      title: "Operations",
      description: "Operations per second, by store.",
      unit: "ops",
      as: "stacked",
      queries: [
        {
          expr: `sum by (store, operation) (${rate("gateway_store_operation_duration_seconds_count")})`,
          legend: "{{store}} {{operation}}",
        },
      ],
    },
    {
      title: "Hits by tier",
      description: "Requests answered from the cache, by the tier that had the answer.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("tier", "gateway_cache_hits_total")],
    },
    {
      title: "Cached answers",
      description: "By tier, as far as the processes know.",
      unit: "short",
      queries: [{ expr: `sum by (tier) (${series("gateway_cache_entries")})`, legend: "{{tier}}" }],
    },
    {
      title: "Cached bytes",
      description: "By tier, as far as the processes know.",
      unit: "bytes",
      queries: [{ expr: `sum by (tier) (${series("gateway_cache_bytes")})`, legend: "{{tier}}" }],
    },
    {
      title: "Evictions",
      description: "Answers evicted to make room.",
      unit: "ops",
      queries: [rateBy("tier", "gateway_cache_evictions_total")],
    },
  ],
};

const PROCESSES: RowSpec = {
  title: "Processes",
  panels: [
    {
      title: "Event loop delay",
      description: "How late timers fire. Every answer is delayed by as much.",
      unit: "s",
      queries: quantiles("gateway_event_loop_delay_seconds", "instance"),
    },
    {
      title: "CPU",
      description: "Cores in use.",
      unit: "short",
      queries: [rateBy("instance", "process_cpu_seconds_total")],
    },
    {
      title: "Memory",
      description: "Resident, and in use on the JavaScript heap.",
      unit: "bytes",
      queries: [
        { expr: series("process_resident_memory_bytes"), legend: "{{instance}} resident" },
        { expr: series("process_heap_bytes"), legend: "{{instance}} heap" },
      ],
    },
    {
      title: "Running since",
      description: "How long each process has been running.",
      unit: "s",
      queries: [{ expr: `time() - ${series("process_start_time_seconds")}`, legend: "{{instance}}" }],
    },
    {
      title: "Versions",
      description: "Processes by the versions of the gateway and of Node.",
      unit: "short",
      as: "stacked",
      queries: [
        {
          expr: `count by (version, node) (${series("gateway_build_info")})`,
          legend: "{{version}}, Node {{node}}",
        },
      ],
    },
    {
      title: "Settings",
      description: "How long the current settings have been in force.",
      unit: "s",
      queries: [
        {
          expr: `time() - ${series("gateway_config_last_reload_success_timestamp_seconds")}`,
          legend: "{{instance}}",
        },
      ],
    },
    {
      title: "Apps registered",
      description: "Apps in the settings. Processes that differ have different settings.",
      unit: "short",
      queries: [{ expr: series("gateway_apps_registered"), legend: "{{instance}}" }],
    },
  ],
};

export const INNER_ROWS: readonly RowSpec[] = [BUDGET, QUEUE, UPSTREAM, STORES, PROCESSES];
