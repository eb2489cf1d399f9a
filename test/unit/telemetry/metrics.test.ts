import { expect, it } from "vitest";

import type { Readings } from "../../../src/telemetry/metric-table.ts";
import { createMetrics, type Metrics } from "../../../src/telemetry/metrics.ts";
import { CALL, HIT } from "../../support/request-record.ts";

async function linesOf(metrics: Metrics): Promise<string[]> {
  const { text } = await metrics.render();
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
}

it("requests and calls of one gateway are counted from zero on with their labels, and timed in seconds", async () => {
  createMetrics().request({ ...HIT, status: 504, problem: "upstream-timeout", app: "another" }, "another");
  const metrics = createMetrics();
  metrics.request(HIT, "web");
  metrics.request({ ...HIT, durationMs: 3 }, "web");
  const failed = { outcome: "failed", status: 502, problem: "upstream-error" } as const;
  metrics.request({ ...HIT, tier: undefined, ...failed }, "web");
  const refused = { outcome: "refused", status: 400, problem: "invalid-query" } as const;
  metrics.request({ ...HIT, resource: "none", ...refused }, "other");
  for (const status of [401, 403, 503, "header-timeout"] as const)
    metrics.upstreamCall({ ...CALL, cause: "retry", status, durationMs: 1_500 });
  const lines = await linesOf(metrics);
  expect(lines).toEqual(
    expect.arrayContaining([
      'gateway_requests_total{app="web",resource="listings",outcome="hit",status="200"} 2',
      'gateway_requests_total{app="other",resource="none",outcome="refused",status="400"} 1',
      'gateway_request_duration_seconds_bucket{le="0.005",resource="listings",outcome="hit"} 1',
      'gateway_request_duration_seconds_sum{resource="listings",outcome="hit"} 0.023',
      'gateway_problems_total{problem="upstream-error",status="502"} 1',
      'gateway_upstream_requests_total{resource="sold",cause="retry",status="header-timeout"} 1',
      'gateway_upstream_request_duration_seconds_sum{resource="sold"} 6',
      "gateway_upstream_credentials_refused_total 2",
      'gateway_problems_total{problem="upstream-timeout",status="504"} 0',
      'gateway_upstream_calls_saved_total{cause="collapsed"} 0',
      expect.stringMatching(/^process_start_time_seconds [12]\d{9}(?!\d)/),
    ]),
  );
  expect(lines.filter((line) => line.includes("another"))).toEqual([]);
});

it("sampled metrics are read at each scrape, and have no series while they are unknown", async () => {
  let entries = 1;
  const metrics = createMetrics();
  const readings: Partial<Readings> = {
    gateway_cache_entries: () => [[{ tier: "memory" }, entries]],
    gateway_cache_evictions_total: () => [[{ tier: "memory" }, entries * 3]],
    gateway_out_of_date_expected_ratio: () => (entries === 1 ? [] : 0.25),
  };
  metrics.sample(Object(readings));
  const read = async (): Promise<string[]> =>
    (await linesOf(metrics)).filter((line) => /entries|evictions|out_of_date/.test(line));
  expect(await read()).toEqual([
    'gateway_cache_entries{tier="memory"} 1',
    'gateway_cache_evictions_total{tier="memory"} 3',
  ]);
  entries = 2;
  expect(await read()).toEqual([
    'gateway_cache_entries{tier="memory"} 2',
    'gateway_cache_evictions_total{tier="memory"} 6',
    "gateway_out_of_date_expected_ratio 0.25",
  ]);
});

it("each request is counted once, however many apps and scrapes there are", async () => {
  const metrics = createMetrics();
  const apps = Array.from({ length: 50 }, (_, index) => `app-${index}`);
  for (const app of [...apps, ...apps]) metrics.request(HIT, app);
  await metrics.render();
  for (const app of apps) metrics.request(HIT, app);
  const lines = await linesOf(metrics);
  expect(lines.filter((line) => line.startsWith("gateway_requests_total"))).toEqual(
    apps.map(
      (app) => `gateway_requests_total{app="${app}",resource="listings",outcome="hit",status="200"} 3`,
    ),
  );
  expect(lines).toContain('gateway_upstream_calls_saved_total{cause="hit"} 150');
});
