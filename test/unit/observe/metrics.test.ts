import { randomInt } from "node:crypto";

import { describe, expect, it } from "vitest";

import type { RequestRecord, UpstreamCallRecord } from "../../../src/exchange.ts";
import { createLogger } from "../../../src/observe/log.ts";
import { createMetrics, type Metrics } from "../../../src/observe/metrics.ts";
import { createObserver } from "../../../src/observe/observer.ts";
import { ask } from "../../support/ask.ts";
import { createDice, type Dice } from "../../support/dice.ts";
import { startGateway } from "../../support/gateway.ts";

const REQUEST: RequestRecord = {
  id: "request-1",
  app: "web",
  method: "GET",
  resource: "listings",
  text: "listings?offset=0",
  status: 200,
  outcome: "hit",
  tier: "memory",
  problem: undefined,
  durationMs: 20,
  bytes: 1_000,
};

const CALL: UpstreamCallRecord = {
  resource: "sold",
  text: "sold?offset=0",
  cause: "retry",
  status: 503,
  durationMs: 1_500,
  bytes: 10,
};

function metricsWith(): Metrics {
  return createMetrics({ tiers: () => [], flights: () => 0, budget: NO_BUDGET });
}

const NO_BUDGET = { windows: () => [], queue: () => [], circuits: () => [] };

async function linesOf(metrics: Metrics): Promise<string[]> {
  return seriesIn((await metrics.render()).text);
}

function seriesIn(exposition: string): string[] {
  return exposition.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
}

describe("the metrics", () => {
  it("count requests by app, resource, outcome and status, and time them in seconds", async () => {
    const metrics = metricsWith();
    metrics.request(REQUEST);
    metrics.request({ ...REQUEST, durationMs: 3 });
    metrics.request({ ...REQUEST, app: "other", outcome: "refused", status: 400, resource: "none" });
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

  it("show what is held now, at each scrape", async () => {
    let entries = 1;
    const metrics = createMetrics({
      tiers: () => [
        { tier: "memory", entries, bytes: entries * 100, evictions: 3 },
        { tier: "redis", entries: 9, bytes: 900, evictions: 0 },
      ],
      flights: () => 7,
      budget: NO_BUDGET,
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

  it("count hits by the tier they were found in, and nothing where there was none", async () => {
    const metrics = metricsWith();
    metrics.request(REQUEST);
    metrics.request({ ...REQUEST, tier: "redis" });
    metrics.request({ ...REQUEST, outcome: "miss", tier: undefined });
    const hits = (await linesOf(metrics)).filter((line) => line.startsWith("gateway_cache_hits_total"));
    expect(hits).toEqual([
      'gateway_cache_hits_total{tier="memory"} 1',
      'gateway_cache_hits_total{tier="redis"} 1',
    ]);
  });

  it("time what stores do, and tell which are in use", async () => {
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

  it("of two gateways in one process are two", async () => {
    const [one, other] = [metricsWith(), metricsWith()];
    one.request(REQUEST);
    expect((await linesOf(other)).filter((line) => line.startsWith("gateway_requests_total"))).toEqual([]);
  });

  it("have no label that tells one question from another", async () => {
    const metrics = metricsWith();
    metrics.request(REQUEST);
    metrics.upstreamCall(CALL);
    const before = (await linesOf(metrics)).length;
    for (let index = 0; index < 100; index++) {
      const text = `listings?areaId=${index}&offset=0`;
      metrics.request({
        ...REQUEST,
        text,
        id: `request-${index}`,
        method: `M${index}`,
        bytes: index,
        problem: text,
      });
      metrics.upstreamCall({ ...CALL, text, bytes: index, note: text });
    }
    expect((await linesOf(metrics)).length).toBe(before);
  });
});

describe("the observer", () => {
  it("writes each request and each upstream call to the log and the metrics", async () => {
    const lines: string[] = [];
    const destination = { write: (line: string) => void lines.push(line) };
    const metrics = metricsWith();
    const observer = createObserver(createLogger({ level: "info", secrets: [], destination }), metrics);
    observer.request(REQUEST);
    observer.upstreamCall(CALL);
    observer.warn("look here", { status: 403 });
    observer.error("mend this", { err: new Error("broken") });
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { level: "info", msg: "request", id: "request-1", outcome: "hit" },
      { level: "info", msg: "upstream call", cause: "retry", status: 503 },
      { level: "warn", msg: "look here", status: 403 },
      { level: "error", msg: "mend this", err: { message: "broken" } },
    ]);
    expect((await linesOf(metrics)).filter((line) => /requests_total.* 1$/.test(line))).toHaveLength(2);
  });
});

/** What callers may invent, in one request. */
interface Invented {
  readonly path: string;
  readonly method: string;
  readonly headers: Record<string, string>;
}

/** Every kind of request there is to invent, each with values of its own. */
function inventions(dice: Dice): Invented[] {
  const word = (): string =>
    Array.from({ length: dice.between(1, 12) }, () => dice.pick("abcxyzABC019-_.~".split(""))).join("");
  const number = (): number => dice.between(100_000_000, 999_999_999);
  const paths = [
    `/${word()}-nowhere`,
    `/listings/${number()}`,
    `/sold/${number()}`,
    `/listings/${number()}/${word()}`,
    `/listings?areaId=${number()}`,
    `/areas?q=${word()}${number()}`,
    `/sold?q=${number()}&${word()}=${word()}`,
    `/listings?limit=${number()}`,
    `/listings?objectType=${word()}-none`,
    `/cache/primary_${number()}_${dice.between(1, 140)}x${dice.between(1, 94)}.jpg`,
    `/cache/primary_${number()}_${number()}x${number()}.jpg`,
  ];
  const headers = (): Record<string, string> => ({
    "x-app-id": `${word()}-app`,
    "user-agent": `${word()}-agent/${number()}`,
    "x-request-id": word(),
    referer: `http://${word()}.example/`,
  });
  return [
    ...paths.map((path) => ({ path, method: "GET", headers: headers() })),
    ...["POST", "PUT", "DELETE"].map((method) => ({
      path: `/areas?q=${word()}`,
      method,
      headers: headers(),
    })),
    { path: `/areas?q=${word()}`, method: "GET", headers: { ...headers(), accept: `${word()}/${word()}` } },
    { path: `/areas?q=${word()}`, method: "GET", headers: { ...headers(), expect: word() } },
    {
      path: `/areas?q=${word()}${number()}`,
      method: "GET",
      headers: { ...headers(), "cache-control": "no-store" },
    },
  ];
}

const CLOSED: Record<string, RegExp> = {
  app: /^(web|other)$/,
  resource: /^(listings|sold|areas|images|none)$/,
  outcome: /^(hit|miss|collapsed|bypass|refused|failed|abandoned)$/,
  cause: /^(miss|retry|bypass)$/,
  status: /^\d{3}$/,
  tier: /^(memory|sqlite|redis)$/,
  store: /^(memory|sqlite|redis)$/,
  operation: /^(get|set|remove|purge|purges|claim|release|renew|beat|take|settle|look|join|ledger)$/,
  window: /^(images\/)?\d+(ms|s|m|h|d)$/,
  priority: /^(interactive|background|refresh|prefetch)$/,
  reason: /^(budget|share|per-day|cool-off|deadline)$/,
  result: /^(applied|invalid|restart-needed)$/,
  circuit: /^(api\/(all|listings|sold|areas)|images\/(all|images))$/,
  le: /^(\d+(\.\d+)?|\+Inf)$/,
};

function openLabelsIn(series: readonly string[]): string[] {
  return series
    .flatMap((line) => [...line.matchAll(/([a-z]+)="([^"]*)"/g)])
    .filter(([, name = "", value = ""]) => !CLOSED[name]?.test(value))
    .map(([label]) => label);
}

describe("what a caller invents", () => {
  it("adds no series: not app, id, path, parameter, header or method", async () => {
    const seed = randomInt(2 ** 31);
    const dice = createDice(seed);
    const gateway = await startGateway({ settings: "apps: [{ id: web }]" });
    let asked = 0;

    /** The series there are when so many more inventions have been answered and written down. */
    async function after(rounds: number): Promise<string[]> {
      for (let round = 0; round < rounds; round++) {
        for (const { path, ...request } of inventions(dice)) {
          await gateway.get(path, request);
          asked += 1;
        }
      }
      await expect.poll(countOfRequests).toBe(asked);
      return seriesIn((await ask(`${gateway.adminUrl}/metrics`)).text);
    }
    async function countOfRequests(): Promise<number> {
      const series = seriesIn((await ask(`${gateway.adminUrl}/metrics`)).text);
      const counts = series.filter((line) => line.startsWith("gateway_requests_total"));
      return counts.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
    }

    const first = await after(2);
    const later = await after(10);
    const nameOf = (line: string): string => line.slice(0, line.lastIndexOf(" "));
    expect(later.map(nameOf), `seed ${seed}`).toEqual(first.map(nameOf));
    expect(openLabelsIn(later), `seed ${seed}`).toEqual([]);
  });
});
