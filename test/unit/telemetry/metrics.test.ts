import { describe, expect, it } from "vitest";

import type { UpstreamCallRecord } from "../../../src/telemetry/events.ts";
import { createLogger } from "../../../src/telemetry/log.ts";
import { createMetrics, type Metrics, type MetricSources } from "../../../src/telemetry/metrics.ts";
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

const SOURCES: MetricSources = {
  tiers: () => [],
  outOfDate: () => null,
  flights: () => 0,
  ledgers: () => [],
  budget: { windows: () => [], apps: () => [], queue: () => [], circuits: () => [], inFlight: () => 0 },
  appsRegistered: () => 0,
};

function metricsWith(sources: Partial<MetricSources> = {}): Metrics {
  const metrics = createMetrics({ version: "1.2.3", node: "v26.0.0" });
  metrics.sample({ ...SOURCES, ...sources });
  return metrics;
}

async function linesOf(metrics: Metrics): Promise<string[]> {
  const { text } = await metrics.render();
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
}

describe("the metrics", () => {
  it("count requests by app, resource, outcome and status, and time them in seconds", async () => {
    const metrics = metricsWith();
    metrics.request(HIT, HIT.app);
    metrics.request({ ...HIT, durationMs: 3 }, HIT.app);
    metrics.request({ ...HIT, outcome: "refused", status: 400, resource: "none" }, "other");
    const lines = await linesOf(metrics);
    expect(lines).toContain(
      'gateway_requests_total{app="web",resource="listings",outcome="hit",status="200"} 2',
    );
    expect(lines).toContain(
      'gateway_requests_total{app="other",resource="none",outcome="refused",status="400"} 1',
    );
    const bucket = 'gateway_request_duration_seconds_bucket{le="0.005",resource="listings",outcome="hit"} 1';
    expect(lines).toContain(bucket);
    expect(lines).toContain('gateway_request_duration_seconds_sum{resource="listings",outcome="hit"} 0.023');
  });

  it("count upstream calls by resource, cause and status or kind of failure", async () => {
    const metrics = metricsWith();
    metrics.upstreamCall(CALL);
    metrics.upstreamCall({ ...CALL, cause: "miss", status: "header-timeout" });
    const lines = await linesOf(metrics);
    expect(lines).toContain('gateway_upstream_requests_total{resource="sold",cause="retry",status="503"} 1');
    expect(lines).toContain(
      'gateway_upstream_requests_total{resource="sold",cause="miss",status="header-timeout"} 1',
    );
    expect(lines).toContain('gateway_upstream_request_duration_seconds_sum{resource="sold"} 3');
  });

  it("show current values at each scrape", async () => {
    let entries = 1;
    const metrics = metricsWith({
      tiers: () => [
        { tier: "memory", entries, bytes: entries * 100, evictions: 3 },
        { tier: "redis", entries: 9, bytes: 900, evictions: 0 },
      ],
      flights: () => 7,
    });
    expect(await linesOf(metrics)).toEqual(
      expect.arrayContaining([
        'gateway_cache_entries{tier="memory"} 1',
        'gateway_cache_bytes{tier="memory"} 100',
        'gateway_cache_evictions_total{tier="memory"} 3',
        'gateway_cache_entries{tier="redis"} 9',
        "gateway_flights 7",
      ]),
    );
    entries = 2;
    expect(await linesOf(metrics)).toEqual(
      expect.arrayContaining([
        'gateway_cache_entries{tier="memory"} 2',
        'gateway_cache_bytes{tier="memory"} 200',
      ]),
    );
  });

  it("count hits by tier", async () => {
    const metrics = metricsWith();
    metrics.request(HIT, HIT.app);
    metrics.request({ ...HIT, tier: "redis" }, HIT.app);
    metrics.request({ ...HIT, outcome: "miss", tier: undefined }, HIT.app);
    const hits = (await linesOf(metrics)).filter((line) => line.startsWith("gateway_cache_hits_total"));
    expect(hits).toEqual([
      'gateway_cache_hits_total{tier="memory"} 1',
      'gateway_cache_hits_total{tier="redis"} 1',
    ]);
  });

  it("time the operations of stores, and show which stores are used", async () => {
    const metrics = metricsWith();
    metrics.storeOperation("redis", "get", 2);
    metrics.breakerState("redis", "open");
    const lines = await linesOf(metrics);
    expect(lines).toContain(
      'gateway_store_operation_duration_seconds_sum{store="redis",operation="get"} 0.002',
    );
    expect(lines).toContain('gateway_store_breaker_state{store="redis"} 2');
    metrics.breakerState("redis", "closed");
    expect(await linesOf(metrics)).toContain('gateway_store_breaker_state{store="redis"} 0');
  });

  it("count answers that refuse the credentials, starting at zero", async () => {
    const metrics = metricsWith();
    expect(await linesOf(metrics)).toContain("gateway_upstream_credentials_refused_total 0");
    for (const status of [401, 403, 404, 500] as const) metrics.upstreamCall({ ...CALL, status });
    expect(await linesOf(metrics)).toContain("gateway_upstream_credentials_refused_total 2");
  });

  it("show the version, the number of apps and the event loop delay", async () => {
    const metrics = metricsWith({ appsRegistered: () => 2 });
    metrics.eventLoopDelay(300);
    const lines = await linesOf(metrics);
    expect(lines).toEqual(
      expect.arrayContaining([
        'gateway_build_info{version="1.2.3",node="v26.0.0"} 1',
        "gateway_apps_registered 2",
        'gateway_event_loop_delay_seconds_bucket{le="0.25"} 0',
        'gateway_event_loop_delay_seconds_bucket{le="0.5"} 1',
      ]),
    );
    const valueOf = (name: string): number =>
      Number(lines.find((line) => line.startsWith(`${name} `))?.split(" ")[1]);
    expect(valueOf("process_cpu_seconds_total")).toBeGreaterThan(0);
    expect(valueOf("process_resident_memory_bytes")).toBeGreaterThan(valueOf("process_heap_bytes"));
    expect(Math.abs(valueOf("process_start_time_seconds") * 1000 - performance.timeOrigin)).toBeLessThan(1);
  });

  it("count problems by code and status, server errors starting at zero", async () => {
    const metrics = metricsWith();
    metrics.request({ ...HIT, outcome: "failed", status: 502, problem: "upstream-error" }, "web");
    metrics.request({ ...HIT, outcome: "refused", status: 429, problem: "quota-exceeded" }, "web");
    metrics.request({ ...HIT, outcome: "failed", status: 502, problem: "invented" }, "web");
    const counted = (await linesOf(metrics)).filter((line) => line.startsWith("gateway_problems_total"));
    expect(counted).toEqual(
      expect.arrayContaining([
        'gateway_problems_total{problem="upstream-error",status="502"} 1',
        'gateway_problems_total{problem="quota-exceeded",status="429"} 1',
        'gateway_problems_total{problem="upstream-timeout",status="504"} 0',
      ]),
    );
    expect(counted.filter((line) => line.endsWith(" 1"))).toHaveLength(2);
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
    const observer = createObserver(log, metrics, {
      labelOf: (app) => app,
      trustedProxies: [],
      logSettings: () => ({ level: "info", access: "sampled", accessSample: 10 }),
      now: () => 0,
    });
    for (let count = 0; count < 30; count++) observer.request(HIT);
    for (let count = 0; count < 5; count++) observer.request({ ...HIT, outcome: "stale" });
    const outcomes = lines.map((line) => /"outcome":"(\w+)"/.exec(line)?.[1]);
    expect(outcomes).toEqual(["hit", "hit", "hit", "stale", "stale", "stale", "stale", "stale"]);
    const counts = (await linesOf(metrics)).filter((line) => line.startsWith("gateway_requests_total{"));
    expect(counts.map((line) => Number(line.split(" ").at(-1)))).toEqual([30, 5]);
  });
});
