/** Metrics for Prometheus: counts what happens, and renders what metric-table.ts declares. */
import { Counter, Gauge, Histogram, Registry } from "prom-client";

import { Problem, PROBLEM_CODES } from "../errors.ts";
import type { Resource } from "../interface/resources.ts";
import { build } from "./build.ts";
import {
  type Cause,
  CIRCUIT_STATES,
  type CircuitState,
  PAGE_CHECKS,
  type PageCheck,
  type RefreshEnd,
  type RefreshRecord,
  type RefusalReason,
  type RequestRecord,
  type StoreOperation,
  type Tier,
  type UpstreamCallRecord,
} from "./events.ts";
import { RELOAD_RESULTS, type ReloadResult, type Saving, SAVINGS } from "./labels.ts";
import {
  type CountedName,
  type Metric,
  METRICS,
  type Readings,
  type Samples,
  type Values,
} from "./metric-table.ts";

export type Metrics = ReturnType<typeof metricsIn>;

const OF_PROCESS: Readonly<Record<string, () => Samples>> = {
  gateway_build_info: () => [[{ ...build }, 1]],
  process_cpu_seconds_total() {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000_000;
  },
  process_resident_memory_bytes: () => process.memoryUsage.rss(),
  process_heap_bytes: () => process.memoryUsage().heapUsed,
  process_start_time_seconds: () => performance.timeOrigin / 1000,
};

/** Creates the metrics of one gateway. The library's global registry would mix those of several gateways in one process. */
export const createMetrics = (): Metrics => metricsIn(new Registry());

function metricsIn(registry: Registry) {
  let readings = OF_PROCESS;
  const samplesOf = (name: string): Samples => readings[name]?.() ?? [];
  const metrics = new Map(METRICS.map((metric) => [metric.name, declare(metric, registry, samplesOf)]));

  function count<Name extends CountedName>(name: Name, labels: Values<Name>, value = 1): void {
    const metric = metrics.get(name);
    if (metric instanceof Counter) metric.inc(labels, value);
    else if (metric instanceof Gauge) metric.set(labels, value);
    else metric?.observe(labels, value);
  }
  startAtZero(count);

  return {
    ...countTraffic(count),
    ...countCalls(count),
    ...countOperation(count),
    /** Sets how the sampled metrics are read. */
    sample: (given: Readings): void => void (readings = { ...OF_PROCESS, ...given }),
    /** @returns the exposition text and its media type */
    render: async () => ({ contentType: registry.contentType, text: await registry.metrics() }),
  };
}

type Count = <Name extends CountedName>(name: Name, labels: Values<Name>, value?: number) => void;

function declare(
  { name, type, help, labels, buckets = [], isSampled }: Metric,
  registry: Registry,
  samplesOf: (name: string) => Samples,
): Counter | Gauge | Histogram {
  const settings = { name, help, labelNames: labels.map((label) => label.name), registers: [registry] };
  if (type === "histogram") return new Histogram({ ...settings, buckets: [...buckets] });
  const collect = (): void => {
    // Removes series that no longer exist, such as a window of earlier settings, and the 0 of a metric without labels.
    metric.reset();
    metric.remove({});
    const samples = samplesOf(name);
    if (typeof samples === "number") metric.inc(samples);
    else for (const [values, value] of samples) metric.inc(values, value);
  };
  const all = isSampled ? { ...settings, collect } : settings;
  const metric = type === "counter" ? new Counter(all) : new Gauge(all);
  return metric;
}

/** Exports what did not occur yet as 0, so that Prometheus sees its first occurrence as an increase. */
function startAtZero(count: Count): void {
  for (const problem of PROBLEM_CODES) {
    const { status } = new Problem(problem);
    if (status >= 500) count("gateway_problems_total", { problem, status }, 0);
  }
  for (const cause of SAVINGS) count("gateway_upstream_calls_saved_total", { cause }, 0);
  for (const result of PAGE_CHECKS)
    for (const resource of ["listings", "sold"])
      count("gateway_pages_checked_total", { resource, result }, 0);
  for (const result of RELOAD_RESULTS) count("gateway_config_reloads_total", { result }, 0);
}

/** Why a request needed no call; `undefined`: it needed a call, got no answer, or asked for a page of the gateway. */
export function savingOf({ saved, outcome, problem, resource }: RequestRecord): Saving | undefined {
  if (saved !== undefined) return saved;
  if (problem === "invalid-query") return "refused";
  if (resource === "none") return undefined;
  return outcome === "hit" || outcome === "collapsed" ? outcome : undefined;
}

function countTraffic(count: Count) {
  return {
    /** @param app the value of the label `app`, which names some apps only */
    request(record: RequestRecord, app: string): void {
      const { resource, outcome, status, problem, durationMs, tier } = record;
      count("gateway_requests_total", { app, resource, outcome, status });
      count("gateway_request_duration_seconds", { resource, outcome }, durationMs / 1000);
      if (tier !== undefined) count("gateway_cache_hits_total", { tier });
      const cause = savingOf(record);
      if (cause !== undefined) count("gateway_upstream_calls_saved_total", { cause });
      if (PROBLEM_CODES.some((code) => code === problem))
        count("gateway_problems_total", { problem: problem ?? "", status });
    },
    /** A request named an app without its token. */
    appTokenRefused: (app: string): void => count("gateway_app_tokens_refused_total", { app }),
    /** A page that was cut from a block was compared with the upstream's page. */
    pageChecked: (resource: Resource, result: PageCheck): void =>
      count("gateway_pages_checked_total", { resource, result }),
  };
}

function countCalls(count: Count) {
  return {
    upstreamCall({ resource, cause, status, durationMs }: UpstreamCallRecord): void {
      count("gateway_upstream_requests_total", { resource, cause, status });
      count("gateway_upstream_request_duration_seconds", { resource }, durationMs / 1000);
      if (status === 401 || status === 403) count("gateway_upstream_credentials_refused_total", {});
    },
    refreshed: ({ resource, change }: RefreshRecord): void =>
      count("gateway_refreshes_total", { resource, change }),
    warmed: (resource: Resource, result: RefreshEnd): void =>
      count("gateway_warm_fetches_total", { resource, result }),
    budget: {
      spent: (app: string, cause: Cause, waitedMs: number): void => {
        count("gateway_budget_spent_total", { app, cause });
        count("gateway_throttle_wait_seconds", {}, waitedMs / 1000);
      },
      /** @param isEnforced false if the budget is only observed, and the request was sent all the same */
      refused: (app: string, reason: RefusalReason, isEnforced: boolean): void =>
        count(isEnforced ? "gateway_refused_total" : "gateway_would_be_refused_total", { app, reason }),
      /** Redis has lost data of the budget. */
      dataLost: (): void => count("gateway_budget_data_lost_total", {}),
    },
  };
}

function countOperation(count: Count) {
  return {
    /** One operation of a store, successful or not. */
    storeOperation: (store: Tier, operation: StoreOperation, durationMs: number): void =>
      count("gateway_store_operation_duration_seconds", { store, operation }, durationMs / 1000),
    breakerState: (store: Tier, state: CircuitState): void =>
      count("gateway_store_breaker_state", { store }, CIRCUIT_STATES[state]),
    eventLoopDelay: (delayMs: number): void => count("gateway_event_loop_delay_seconds", {}, delayMs / 1000),
    config: {
      reloaded(result: ReloadResult): void {
        count("gateway_config_reloads_total", { result });
        count("gateway_config_last_reload_successful", {}, Number(result === "applied"));
      },
      /** The current settings were applied. @param at epoch milliseconds */
      inForce(at: number): void {
        count("gateway_config_last_reload_successful", {}, 1);
        count("gateway_config_last_reload_success_timestamp_seconds", {}, at / 1000);
      },
    },
  };
}
