import { Counter, Histogram, type Registry } from "prom-client";

import type { RequestRecord, UpstreamCallRecord } from "../exchange.ts";

const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const UPSTREAM_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8];

interface TrafficMetrics {
  readonly request: (record: RequestRecord) => void;
  readonly upstreamCall: (record: UpstreamCallRecord) => void;
}

/** What callers asked of us, and we of the upstream. */
export function registerTrafficMetrics(registry: Registry): TrafficMetrics {
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
  return {
    request({ app, resource, outcome, status, durationMs }) {
      requests.inc({ app, resource, outcome, status });
      requestSeconds.observe({ resource, outcome }, durationMs / 1000);
    },
    upstreamCall({ resource, cause, status, durationMs }) {
      upstreamRequests.inc({ resource, cause, status });
      upstreamSeconds.observe({ resource }, durationMs / 1000);
    },
  };
}
