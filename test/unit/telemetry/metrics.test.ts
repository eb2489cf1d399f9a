import { describe, expect, it } from "vitest";

import type { UpstreamCallRecord } from "../../../src/telemetry/events.ts";
import { createAccessLog } from "../../../src/telemetry/access-log.ts";
import { createLogger } from "../../../src/telemetry/log.ts";
import { build } from "../../../src/telemetry/build.ts";
import type { Readings } from "../../../src/telemetry/metric-table.ts";
import { createMetrics, type Metrics } from "../../../src/telemetry/metrics.ts";
import { createObserver } from "../../../src/telemetry/observer.ts";
import { HIT } from "../../support/request-record.ts";

const CALL: UpstreamCallRecord = {
  resource: "sold",
  query: "sold?offset=0",
  cause: "retry",
  status: 503,
  durationMs: 1_500,
  bytes: 10,
};

const NONE = (): [] => [];
const READINGS: Readings = {
  gateway_apps_registered: () => 0,
  gateway_app_background: NONE,
  gateway_flights: () => 0,
  gateway_circuit_state: NONE,
  gateway_budget_limit: NONE,
  gateway_budget_remaining: NONE,
  gateway_app_budget_limit: NONE,
  gateway_app_budget_remaining: NONE,
  gateway_budget_known: () => 1,
  gateway_budget_slot: NONE,
  gateway_calls_in_flight: () => 0,
  gateway_throttle_queue_length: NONE,
  gateway_cache_entries: NONE,
  gateway_cache_bytes: NONE,
  gateway_cache_evictions_total: NONE,
  gateway_ledger_durable: NONE,
  gateway_redis_may_evict_budget: NONE,
  gateway_out_of_date_expected_ratio: NONE,
  gateway_files_refused: () => 0,
  gateway_certificate_end_timestamp_seconds: NONE,
};

function metricsWith(readings: Partial<Readings> = {}): Metrics {
  const metrics = createMetrics();
  metrics.sample({ ...READINGS, ...readings });
  return metrics;
}

async function linesOf(metrics: Metrics): Promise<string[]> {
  const { text } = await metrics.render();
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
}

interface Case {
  readonly report?: (metrics: Metrics) => void;
  readonly lines: readonly string[];
}

const CASES: Readonly<Record<string, Case>> = {
  "requests by app, resource, outcome and status, and their time in seconds": {
    report(metrics) {
      metrics.request(HIT, HIT.app);
      metrics.request({ ...HIT, durationMs: 3 }, HIT.app);
      metrics.request({ ...HIT, outcome: "refused", status: 400, resource: "none" }, "other");
    },
    lines: [
      'gateway_requests_total{app="web",resource="listings",outcome="hit",status="200"} 2',
      'gateway_requests_total{app="other",resource="none",outcome="refused",status="400"} 1',
      'gateway_request_duration_seconds_bucket{le="0.005",resource="listings",outcome="hit"} 1',
      'gateway_request_duration_seconds_sum{resource="listings",outcome="hit"} 0.023',
    ],
  },
  "hits by tier": {
    report(metrics) {
      for (const tier of ["memory", "redis", undefined] as const)
        metrics.request({ ...HIT, outcome: tier ? "hit" : "miss", tier }, HIT.app);
    },
    lines: ['gateway_cache_hits_total{tier="memory"} 1', 'gateway_cache_hits_total{tier="redis"} 1'],
  },
  "problems by code and status, server errors starting at zero; no invented ones": {
    report(metrics) {
      metrics.request({ ...HIT, outcome: "failed", status: 502, problem: "upstream-error" }, "web");
      metrics.request({ ...HIT, outcome: "refused", status: 429, problem: "quota-exceeded" }, "web");
      metrics.request({ ...HIT, outcome: "failed", status: 502, problem: "invented" }, "web");
    },
    lines: [
      'gateway_problems_total{problem="upstream-error",status="502"} 1',
      'gateway_problems_total{problem="quota-exceeded",status="429"} 1',
      'gateway_problems_total{problem="upstream-timeout",status="504"} 0',
    ],
  },
  "calls by resource, cause and status or kind of failure, and refused credentials": {
    report(metrics) {
      for (const status of [401, 403, 503, "header-timeout"] as const)
        metrics.upstreamCall({ ...CALL, status });
    },
    lines: [
      'gateway_upstream_requests_total{resource="sold",cause="retry",status="503"} 1',
      'gateway_upstream_requests_total{resource="sold",cause="retry",status="header-timeout"} 1',
      'gateway_upstream_request_duration_seconds_sum{resource="sold"} 6',
      "gateway_upstream_credentials_refused_total 2",
    ],
  },
  "counters of faults at zero before the first one": {
    lines: [
      "gateway_upstream_credentials_refused_total 0",
      'gateway_upstream_calls_saved_total{cause="collapsed"} 0',
    ],
  },
  "the operations and breakers of stores": {
    report(metrics) {
      metrics.record("gateway_store_operation_duration_seconds", { store: "redis", operation: "get" }, 0.002);
      metrics.record("gateway_store_breaker_state", { store: "redis" }, 2);
      metrics.record("gateway_store_breaker_state", { store: "sqlite" }, 2);
      metrics.record("gateway_store_breaker_state", { store: "sqlite" }, 0);
    },
    lines: [
      'gateway_store_operation_duration_seconds_sum{store="redis",operation="get"} 0.002',
      'gateway_store_breaker_state{store="redis"} 2',
      'gateway_store_breaker_state{store="sqlite"} 0',
    ],
  },
  "the version and the event loop delay": {
    report: (metrics) => metrics.record("gateway_event_loop_delay_seconds", {}, 0.3),
    lines: [
      `gateway_build_info{version="${build.version}",node="${process.version}"} 1`,
      'gateway_event_loop_delay_seconds_bucket{le="0.25"} 0',
      'gateway_event_loop_delay_seconds_bucket{le="0.5"} 1',
    ],
  },
};

describe("the metrics", () => {
  it.each(Object.entries(CASES))("show %s", async (_what, { report, lines }) => {
    const metrics = metricsWith();
    report?.(metrics);
    const shown = await linesOf(metrics);
    expect(shown).toEqual(expect.arrayContaining([...lines]));
    expect(shown.join()).not.toContain("invented");
  });

  it("show current values at each scrape", async () => {
    let entries = 1;
    const metrics = metricsWith({
      gateway_cache_entries: () => [[{ tier: "memory" }, entries]],
      gateway_cache_evictions_total: () => [[{ tier: "memory" }, entries * 3]],
    });
    const expected = (): string[] => [
      `gateway_cache_entries{tier="memory"} ${entries}`,
      `gateway_cache_evictions_total{tier="memory"} ${entries * 3}`,
    ];
    expect(await linesOf(metrics)).toEqual(expect.arrayContaining(expected()));
    entries = 2;
    expect(await linesOf(metrics)).toEqual(expect.arrayContaining(expected()));
  });

  it("show no series while a value is unknown, also of a metric without labels", async () => {
    const name = "gateway_out_of_date_expected_ratio";
    expect((await linesOf(metricsWith())).filter((line) => line.startsWith(name))).toEqual([]);
    expect(await linesOf(metricsWith({ [name]: () => 0.25 }))).toContain(`${name} 0.25`);
  });

  it("of two gateways in one process are separate", async () => {
    const [one, other] = [metricsWith(), metricsWith()];
    one.request(HIT, HIT.app);
    expect((await linesOf(other)).filter((line) => line.startsWith("gateway_requests_total"))).toEqual([]);
  });
});

describe("the observer", () => {
  it("logs a sample of the hits and all other requests, and counts all", async () => {
    const lines: string[] = [];
    const destination = { write: (line: string) => void lines.push(line) };
    const metrics = metricsWith();
    const log = createLogger({ level: "info", secrets: [], destination });
    const settings = { level: "info", access: "sampled", accessSample: 10 } as const;
    const observer = createObserver([
      { request: (record) => metrics.request(record, record.app) },
      createAccessLog(
        log,
        () => settings,
        () => undefined,
      ),
    ]);
    for (let count = 0; count < 30; count++) observer.request(HIT);
    for (let count = 0; count < 5; count++) observer.request({ ...HIT, outcome: "stale" });
    const outcomes = lines.map((line) => /"outcome":"(\w+)"/.exec(line)?.[1]);
    expect(outcomes).toEqual(["hit", "hit", "hit", "stale", "stale", "stale", "stale", "stale"]);
    const counts = (await linesOf(metrics)).filter((line) => line.startsWith("gateway_requests_total{"));
    expect(counts.map((line) => Number(line.split(" ").at(-1)))).toEqual([30, 5]);
  });
});
