/**
 * Metrics for Prometheus. Every label's values are a closed set or come from the settings: nothing a
 * caller sends can add a series.
 */
import { Counter, Gauge, Histogram, Registry } from "prom-client";

import type { RequestRecord, UpstreamCallRecord } from "../exchange.ts";

export interface Metrics {
  request(record: RequestRecord): void;
  upstreamCall(record: UpstreamCallRecord): void;
  /** The exposition text and its media type. */
  readonly render: () => Promise<{ contentType: string; text: string }>;
}

/** What is read at the moment of a scrape. */
export interface MetricSources {
  readonly cache: () => { readonly entries: number; readonly bytes: number };
  readonly flights: () => number;
}

const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const UPSTREAM_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8];

export function createMetrics(sources: MetricSources): Metrics {
  // A registry of its own: a module-global one would carry one gateway's counts into the next.
  const registry = new Registry();
  const registers = [registry];
  const requests = new Counter({
    name: "gateway_requests_total",
    help: "Requests of callers, by app, resource, outcome and HTTP status.",
    labelNames: ["app", "resource", "outcome", "status"],
    registers,
  });
  const requestSeconds = new Histogram({
    name: "gateway_request_duration_seconds",
    help: "Time from a request's arrival to the end of its response.",
    labelNames: ["resource", "outcome"],
    buckets: REQUEST_SECONDS,
    registers,
  });
  const upstreamRequests = new Counter({
    name: "gateway_upstream_requests_total",
    help: "Requests sent to the upstream, by resource, cause, and HTTP status or kind of failure.",
    labelNames: ["resource", "cause", "status"],
    registers,
  });
  const upstreamSeconds = new Histogram({
    name: "gateway_upstream_request_duration_seconds",
    help: "Time from sending a request to the upstream to the end of its answer.",
    labelNames: ["resource"],
    buckets: UPSTREAM_SECONDS,
    registers,
  });
  registry.registerMetric(
    gauge("gateway_cache_entries", "Answers held in memory.", () => sources.cache().entries),
  );
  registry.registerMetric(
    gauge("gateway_cache_bytes", "Bytes of memory held by answers.", () => sources.cache().bytes),
  );
  registry.registerMetric(
    gauge("gateway_flights", "Upstream calls in progress or in the queue.", sources.flights),
  );
  registry.registerMetric(
    gauge("process_resident_memory_bytes", "Resident memory.", () => process.memoryUsage.rss()),
  );

  return {
    request({ app, resource, outcome, status, durationMs }) {
      requests.inc({ app, resource, outcome, status });
      requestSeconds.observe({ resource, outcome }, durationMs / 1000);
    },
    upstreamCall({ resource, cause, status, durationMs }) {
      upstreamRequests.inc({ resource, cause, status });
      upstreamSeconds.observe({ resource }, durationMs / 1000);
    },
    async render() {
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}

/** A gauge that is read at the moment of a scrape. */
function gauge(name: string, help: string, read: () => number): Gauge {
  return new Gauge({
    name,
    help,
    registers: [],
    collect() {
      this.set(read());
    },
  });
}
