/** What the dashboard shows, as data; how Grafana wants it written is in dashboard.ts. */

export interface PanelSpec {
  readonly title: string;
  readonly description: string;
  /** As Grafana names units. */
  readonly unit: string;
  readonly queries: readonly QuerySpec[];
  /** Lines, where absent; `states`: how a circuit or breaker stood, over time; `number`: the latest value. */
  readonly as?: "stacked" | "states" | "number";
}

interface QuerySpec {
  readonly expr: string;
  readonly legend: string;
}

export interface RowSpec {
  readonly title: string;
  readonly panels: readonly PanelSpec[];
}

/** Chosen at the top of the dashboard. */
const CHOSEN = 'job=~"$job", instance=~"$instance"';

function series(name: string, matchers = ""): string {
  return `${name}{${CHOSEN}${matchers === "" ? "" : `, ${matchers}`}}`;
}

function rate(name: string, matchers = ""): string {
  return `rate(${series(name, matchers)}[$__rate_interval])`;
}

function rateBy(label: string, name: string, matchers = ""): QuerySpec {
  return { expr: `sum by (${label}) (${rate(name, matchers)})`, legend: `{{${label}}}` };
}

function shareOf(name: string, part: string, whole: string): string {
  return `sum(${rate(name, part)}) / sum(${rate(name, whole)})`;
}

/** Quantiles of a histogram, by a label where there is one. */
function quantiles(name: string, label?: string): QuerySpec[] {
  const by = label === undefined ? "le" : `${label}, le`;
  return [0.5, 0.99].map((quantile) => ({
    expr: `histogram_quantile(${quantile}, sum by (${by}) (${rate(`${name}_bucket`)}))`,
    legend: [label && `{{${label}}}`, `p${quantile * 100}`].filter(Boolean).join(" "),
  }));
}

const ANSWERED = 'outcome=~"hit|updating|stale|miss|collapsed"';
/** A connection closed while it was idle is no failure of the upstream's. */
const CALLED = 'status!="stale-connection"';
const FAILED = `status=~"5..|[a-z].*", ${CALLED}`;

const AT_A_GLANCE: RowSpec = {
  title: "At a glance",
  panels: [
    {
      title: "Requests",
      description: "Requests of callers a second.",
      unit: "reqps",
      as: "number",
      queries: [{ expr: `sum(${rate("gateway_requests_total")})`, legend: "requests" }],
    },
    {
      title: "From the cache",
      description: "Of the requests that had an answer, the part that was in the cache and not out of date.",
      unit: "percentunit",
      as: "number",
      queries: [
        { expr: shareOf("gateway_requests_total", 'outcome=~"hit|updating"', ANSWERED), legend: "hits" },
      ],
    },
    {
      title: "Budget left",
      description: "The part that is left of the window that has least left.",
      unit: "percentunit",
      as: "number",
      queries: [
        {
          expr: `min(${series("gateway_budget_remaining")} / ${series("gateway_budget_limit")})`,
          legend: "left",
        },
      ],
    },
    {
      title: "Upstream failures",
      description: "The part of the calls to the API that failed: 5xx, or no usable answer.",
      unit: "percentunit",
      as: "number",
      queries: [{ expr: shareOf("gateway_upstream_requests_total", FAILED, CALLED), legend: "failed" }],
    },
  ],
};

const TRAFFIC: RowSpec = {
  title: "Traffic",
  panels: [
    {
      title: "Requests by app",
      description: "`other`: apps that are not registered.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("app", "gateway_requests_total")],
    },
    {
      title: "Requests by resource",
      description: "`none`: refused before it was known what was asked for.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("resource", "gateway_requests_total")],
    },
    {
      title: "Outcomes",
      description: "What became of the requests.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("outcome", "gateway_requests_total")],
    },
    {
      title: "Answers from the cache, and stale ones",
      description:
        "As parts of all requests that had an answer; `updating`: out of date, and being refreshed.",
      unit: "percentunit",
      queries: [
        { expr: shareOf("gateway_requests_total", 'outcome=~"hit|updating"', ANSWERED), legend: "hits" },
        { expr: shareOf("gateway_requests_total", 'outcome="updating"', ANSWERED), legend: "updating" },
        { expr: shareOf("gateway_requests_total", 'outcome="stale"', ANSWERED), legend: "stale" },
      ],
    },
    {
      title: "Errors by status",
      description: "Responses of 400 and above; 499: the caller hung up.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("status", "gateway_requests_total", 'status=~"[45].."')],
    },
    {
      title: "Refreshes",
      description: "Answers fetched where one was held already, by whether the new one said something else.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("change", "gateway_refreshes_total")],
    },
    {
      title: "Time to answer",
      description: "From a request's arrival to the end of its response, by outcome.",
      unit: "s",
      queries: quantiles("gateway_request_duration_seconds", "outcome"),
    },
  ],
};

const BUDGET: RowSpec = {
  title: "Budget",
  panels: [
    {
      title: "Left, by window",
      description: "The part of each window's requests that is left.",
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
      description: "Requests in each window now, and the most there may be.",
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
      title: "Spent by app",
      description: "Requests sent to the API a second, by the app that pays.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("app", "gateway_budget_spent_total")],
    },
    {
      title: "Spent by cause",
      description: "Requests sent to the API a second, by why they were.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("cause", "gateway_budget_spent_total")],
    },
    {
      title: "Refused",
      description: "Requests refused for want of budget, by app and reason.",
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
      description: "Requests that wait for their turn at the API, by priority.",
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
      description: "How long those waited that were sent.",
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
      description: "HTTP status, or how the call failed without one.",
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
      description: "Answers of 401 and 403: there should be none.",
      unit: "reqps",
      queries: [{ expr: `sum(${rate("gateway_upstream_credentials_refused_total")})`, legend: "refused" }],
    },
    {
      title: "Circuits",
      description: "Whether requests go to each part of the API; the worst of all processes.",
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
      title: "Store latency",
      description: "Of one operation, done or failed, by store.",
      unit: "s",
      queries: quantiles("gateway_store_operation_duration_seconds", "store"),
    },
    {
      title: "Operations",
      description: "Of the stores, a second.",
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
      description: "Where the answers from the cache were found.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("tier", "gateway_cache_hits_total")],
    },
    {
      title: "Answers held",
      description: "By tier, as far as a process knows of it.",
      unit: "short",
      queries: [{ expr: `sum by (tier) (${series("gateway_cache_entries")})`, legend: "{{tier}}" }],
    },
    {
      title: "Bytes held",
      description: "By tier, as far as a process knows of it.",
      unit: "bytes",
      queries: [{ expr: `sum by (tier) (${series("gateway_cache_bytes")})`, legend: "{{tier}}" }],
    },
    {
      title: "Evictions",
      description: "Answers dropped because room was needed.",
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
      description: "How late timers are called; every answer is as late.",
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
      description: "How long ago each process was started.",
      unit: "s",
      queries: [{ expr: `time() - ${series("process_start_time_seconds")}`, legend: "{{instance}}" }],
    },
    {
      title: "Versions",
      description: "Processes by the version of the gateway and of Node they run.",
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
      description: "How long the settings in force have been so.",
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
      description: "Apps that the settings name; processes that differ have different settings.",
      unit: "short",
      queries: [{ expr: series("gateway_apps_registered"), legend: "{{instance}}" }],
    },
  ],
};

export const ROWS: readonly RowSpec[] = [AT_A_GLANCE, TRAFFIC, BUDGET, QUEUE, UPSTREAM, STORES, PROCESSES];
