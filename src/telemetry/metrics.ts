/** Metrics for Prometheus: counts what happens, and renders what metric-table.ts declares. */
import { Counter, Gauge, Histogram, Registry } from "prom-client";

import { Problem, PROBLEM_CODES } from "../errors.ts";
import { refusesKey } from "../interface/resources.ts";
import { build } from "./build.ts";
import * as events from "./events.ts";
import { type Metric, METRICS, type Readings, type RecordValue, type Samples } from "./metric-table.ts";

export type Metrics = ReturnType<typeof createMetrics>;

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
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createMetrics() {
  const registry = new Registry();
  let readings = OF_PROCESS;
  const samplesOf = (name: string): Samples => readings[name]?.() ?? [];
  const metrics = new Map(METRICS.map((metric) => [metric.name, declare(metric, registry, samplesOf)]));

  const record: RecordValue = (name, labels, value = 1) => {
    const metric = metrics.get(name);
    if (metric instanceof Counter) metric.inc(labels, value);
    else if (metric instanceof Gauge) metric.set(labels, value);
    else metric?.observe(labels, value);
  };
  startAtZero(record);
  /** Requests that the library does not count yet. It looks labels up at each call, which would take about 2 µs of each hit. */
  let waiting: { readonly labels: ReturnType<typeof labelsOf>; count: number }[] = [];
  function countWaiting(): void {
    for (const { labels, count } of waiting) {
      const [app, resource, outcome, status, tier, cause] = labels;
      record("gateway_requests_total", { app, resource, outcome, status }, count);
      if (tier !== undefined) record("gateway_cache_hits_total", { tier }, count);
      if (cause !== undefined) record("gateway_upstream_calls_saved_total", { cause }, count);
    }
    waiting = [];
  }

  return {
    record,
    /** @param app the value of the label `app`, which names some apps only */
    request: (request: events.RequestRecord, app: string): void => {
      const { resource, outcome, status, problem, durationMs } = request;
      const labels = labelsOf(request, app);
      const same = waiting.find((one) => one.labels.every((value, at) => value === labels[at]));
      if (same !== undefined) same.count++;
      else if (waiting.push({ labels, count: 1 }) >= MOST_WAITING) countWaiting();
      record("gateway_request_duration_seconds", { resource, outcome }, durationMs / 1000);
      if (problem !== undefined) record("gateway_problems_total", { problem, status });
    },
    upstreamCall: ({ resource, cause, status, durationMs }: events.UpstreamCallRecord): void => {
      record("gateway_upstream_requests_total", { resource, cause, status });
      record("gateway_upstream_request_duration_seconds", { resource }, durationMs / 1000);
      if (refusesKey(status, resource)) record("gateway_upstream_credentials_refused_total", {});
    },
    departed: (app: string, cause: events.Cause, waitedMs: number): void => {
      record("gateway_budget_spent_total", { app, cause });
      record("gateway_throttle_wait_seconds", {}, waitedMs / 1000);
    },
    /** @param isEnforced false if the budget is only observed, and the request was sent all the same */
    refused: (app: string, reason: events.RefusalReason, isEnforced: boolean): void =>
      record(isEnforced ? "gateway_refused_total" : "gateway_would_be_refused_total", { app, reason }),
    /** Sets how the sampled metrics are read. */
    sample: (given: Readings): void => void (readings = { ...OF_PROCESS, ...given }),
    /** @returns the exposition text and its media type */
    render: async (): Promise<{ contentType: string; text: string }> => {
      countWaiting();
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}

/** The most kinds of requests that wait to be counted. Each request is compared with all of them. */
const MOST_WAITING = 32;

function labelsOf(request: events.RequestRecord, app: string) {
  const { resource, outcome, status, tier } = request;
  return [app, resource, outcome, status, tier, events.savingOf(request)] as const;
}

function declare(
  { name, type, help, labels, buckets, isSampled }: Metric,
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
function startAtZero(record: RecordValue): void {
  for (const problem of PROBLEM_CODES) {
    const { status } = new Problem(problem);
    if (status >= 500) record("gateway_problems_total", { problem, status }, 0);
  }
  for (const cause of events.SAVINGS) record("gateway_upstream_calls_saved_total", { cause }, 0);
  for (const result of events.PAGE_CHECKS)
    for (const resource of ["listings", "sold"])
      record("gateway_pages_checked_total", { resource, result }, 0);
  for (const result of events.RELOAD_RESULTS) record("gateway_config_reloads_total", { result }, 0);
}
