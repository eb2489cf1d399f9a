import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { startBusy } from "../support/busy-gateway.ts";
import { asSent, DASHBOARD, PANELS } from "../support/dashboard.ts";
import { QUERY_NAMES } from "../support/exposition.ts";
import { startPrometheus } from "../support/prometheus.ts";
import { RULE_FILE, RULE_GROUPS } from "../support/alert-rules.ts";

const RULES = RULE_GROUPS.flatMap(({ rules }) => rules);
const RECORDED = RULES.flatMap(({ record }) => record ?? []);
/** Long enough for a few scrapes, so short that what was counted before is soon behind. */
const RATE_INTERVAL = "10s";

/** Names of metrics in an expression or a variable's definition. */
const namesIn = (text: string): string[] => text.match(/\b(?:(?:gateway|process)_\w+|\w+:[\w:]+)/g) ?? [];

describe("the dashboard", () => {
  it("and the rules ask only for metrics that there are", () => {
    const known = new Set([...QUERY_NAMES, ...RECORDED]);
    const asked = [
      ...PANELS.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
      ...DASHBOARD.templating.list.map(({ definition = "" }) => definition),
      ...RULES.map(({ expr }) => expr),
    ].flatMap(namesIn);
    expect(asked.filter((name) => !known.has(name))).toEqual([]);
    expect(new Set(asked).size).toBeGreaterThan(20);
  });

  it("has panels with a unit and the chosen data source, of the chosen jobs and instances", () => {
    for (const { title, gridPos, fieldConfig, datasource, targets = [] } of PANELS) {
      expect(fieldConfig?.defaults.unit, title).toBeTruthy();
      expect(targets.length, title).toBeGreaterThan(0);
      for (const each of [datasource, ...targets.map((target) => target.datasource)]) {
        expect(each?.uid, title).toBe("${datasource}");
      }
      for (const { expr } of targets) {
        expect(expr.match(/\{job=~"\$job", instance=~"\$instance"/g)?.length, title).toBe(
          namesIn(expr).length,
        );
      }
      expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(24);
    }
  });
});

it("the dashboard is red where the alert fires that the panel names", () => {
  const thresholds = new Map(
    RULES.map(({ alert, expr }) => [alert, Number(/([\d.]+) # threshold/.exec(expr)?.[1])]),
  );
  const named = PANELS.flatMap(({ description, fieldConfig }) => {
    const [, alert] = /(\w+) fires/.exec(description ?? "") ?? [];
    const { steps = [] } = fieldConfig?.defaults.thresholds ?? {};
    // Red is below the second step, or above the last one.
    const limit = steps[0]?.color === "red" ? steps[1]?.value : steps.at(-1)?.value;
    return alert === undefined ? [] : [{ alert, limit }];
  });
  const alerts = ["GatewayBudgetNearlySpent", "GatewayErrors", "GatewaySlow"];
  expect(named).toEqual(alerts.map((alert) => ({ alert, limit: thresholds.get(alert) })));
});

async function emptyAmong(
  prometheus: Awaited<ReturnType<typeof startPrometheus>>,
  queries: readonly (readonly [string, string])[],
): Promise<string[]> {
  const empty: string[] = [];
  for (const [title, expr] of queries) {
    const results = await prometheus.query(expr);
    if (!results.some(({ value }) => Number.isFinite(value))) empty.push(`${title}: ${expr}`);
  }
  return empty;
}

it("a real Prometheus that scrapes a gateway under traffic has data for every query of every panel and every rule that records, and evaluates every alert", async () => {
  const { gateway, traffic } = await startBusy();
  const prometheus = await startPrometheus(new URL(gateway.adminUrl).host, resolve(RULE_FILE));
  await expect.poll(() => emptyAmong(prometheus, [["flights", "gateway_flights"]])).toEqual([]);
  // The test notices a query without data, and an invalid query.
  const nothing = ["refusals", 'gateway_refused_total{reason="budget"}'] as const;
  expect(await emptyAmong(prometheus, [nothing])).toEqual([nothing.join(": ")]);
  const nonsense = emptyAmong(prometheus, [["nonsense", "rate(gateway_flights)"]]);
  await expect(nonsense).rejects.toThrow("parse error");

  const queries = [
    ...PANELS.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr }) => [title, asSent(expr, RATE_INTERVAL)] as const),
    ),
    ...RECORDED.map((name) => ["recorded", name] as const),
  ];
  async function empty(): Promise<string[]> {
    await traffic();
    // The ratio of an hour needs a few hundred answers.
    for (let i = 0; i < 40; i++) await gateway.get("/areas?q=Solna");
    return emptyAmong(prometheus, queries);
  }
  await expect.poll(empty, { timeout: 40_000, interval: 200 }).toEqual([]);
  for (const { expr } of RULES) await prometheus.query(expr);
});
