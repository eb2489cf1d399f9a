/**
 * Which alerts fire over what Prometheus scrapes from an ordinary gateway: days, nights, weekends, an update, trifles. The
 * same seed gives the same.
 */
import { join } from "node:path";

import { stringify } from "yaml";

import { type Random, seededRandom } from "../../src/sandbox/dataset/random.ts";
import { RULE_FILE } from "./alert-rules.ts";
import { fileWith } from "./files.ts";
import { promtool } from "./tools.ts";

export interface Ordinary {
  readonly seed: number;
  readonly stepSeconds: number;
  readonly steps: number;
  /** Hours after Monday, midnight. */
  readonly fromHour: number;
  /** A fault of every replica, from a step on. */
  readonly fault?: { readonly step: number; readonly apply: (scraped: Scraped) => void };
}

/** Requests a minute of each app at noon, and the part of them at night. */
const APPS = { web: [40, 0.05], ios: [15, 0.1], crm: [6, 0.01], other: [0.5, 0.2] } as const;
const PER_MINUTE = 60;
const PER_DAY = 20_000;
/** Background work leaves a tenth. */
const RESERVE = 6;
/** Two processes, and on Wednesday at 10 their successors. Old and new ones run together for six minutes. */
const LIVES = [
  { instance: "a", version: "1.0.0", fromHour: 0, slotFrom: 0, toHour: 58.2 },
  { instance: "b", version: "1.0.0", fromHour: 0, slotFrom: 0, toHour: 58.1 },
  { instance: "c", version: "1.1.0", fromHour: 58, slotFrom: 58.1, toHour: 999 },
  { instance: "d", version: "1.1.0", fromHour: 58.1, slotFrom: 58.2, toHour: 999 },
] as const;
const NEVER = [
  'gateway_problems_total{problem="upstream-error", status="502"}',
  'gateway_problems_total{problem="upstream-timeout", status="504"}',
  'gateway_problems_total{problem="upstream-authentication-failed", status="502"}',
  'gateway_problems_total{problem="upstream-unavailable", status="503"}',
  "gateway_upstream_credentials_refused_total",
  "gateway_budget_data_lost_total",
  'gateway_pages_checked_total{resource="listings", result="differed"}',
];

export const requestsOf = (app: string, outcome: string, status: number): string =>
  `gateway_requests_total{app="${app}", resource="listings", outcome="${outcome}", status="${status}"}`;
export const callsWith = (status: string): string =>
  `gateway_upstream_requests_total{resource="listings", cause="miss", status="${status}"}`;

/** What one process shows. */
export class Scraped {
  readonly samples = new Map<string, number>(NEVER.map((series) => [series, 0]));
  /** Since the last scrape. */
  misses = 0;
  requests = 0;

  add(series: string, by: number): void {
    if (by > 0 || this.samples.has(series)) this.samples.set(series, (this.samples.get(series) ?? 0) + by);
  }

  set(series: string, to: number): void {
    this.samples.set(series, to);
  }

  buckets(series: string, labels: string, counts: Readonly<Record<string, number>>): void {
    for (const [le, count] of Object.entries(counts))
      this.add(`${series}_bucket{${labels}le="${le}"}`, count);
  }
}

/** One scrape of the week. */
type Instant = ReturnType<typeof instantsOf>[number];

/** @returns the names of the alerts that fired at any time */
export function alertsOver(ordinary: Ordinary): string[] {
  const { stepSeconds, steps } = ordinary;
  const test = {
    interval: `${stepSeconds}s`,
    input_series: seriesOf(ordinary),
    promql_expr_test: [
      {
        expr: 'count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[7d]))',
        eval_time: `${steps * stepSeconds}s`,
        // Never true: promtool then prints what it found.
        exp_samples: [{ labels: '{alertname="none"}', value: 0 }],
      },
    ],
  };
  const evaluation_interval = test.interval;
  const rules = { rule_files: [join(process.cwd(), RULE_FILE)], evaluation_interval, tests: [test] };
  const { output } = promtool("test", "rules", fileWith(stringify(rules, { lineWidth: 0 })));
  const [, got] = /^\s+got: ?(.*)$/m.exec(output) ?? [];
  if (got === undefined) throw new Error(output);
  return [...got.matchAll(/alertname="(\w+)"/g)].flatMap(([, name]) => name ?? []).toSorted();
}

function seriesOf({ seed, stepSeconds, steps, fromHour, fault }: Ordinary): object[] {
  const random = seededRandom(seed);
  const instants = instantsOf(fromHour, stepSeconds / 60, steps, random);
  return LIVES.flatMap((life) => {
    const { instance } = life;
    const scraped = new Scraped();
    const rows = new Map<string, string[]>();
    for (const [step, instant] of instants.entries()) {
      if (instant.hours < life.fromHour) continue;
      if (instant.hours >= life.toHour) {
        for (const row of rows.values()) row.push("stale");
        break;
      }
      countTraffic(scraped, instant, random);
      setGauges(scraped, instant, { ...life, hasSlot: instant.hours >= life.slotFrom }, random);
      if (fault !== undefined && step >= fault.step) fault.apply(scraped);
      for (const [series, value] of scraped.samples) {
        const row = rows.get(series) ?? Array.from({ length: step }, () => "_");
        rows.set(series, row);
        row.push(String(value));
      }
    }
    const labels = `job="property-gateway", instance="${instance}"`;
    return [...rows].map(([series, row]) => ({
      series: series.includes("{") ? series.replace("{", `{${labels}, `) : `${series}{${labels}}`,
      values: row.join(" "),
    }));
  });
}

function instantsOf(fromHour: number, minutes: number, steps: number, random: Random) {
  let pausedUntil = -1;
  return Array.from({ length: steps }, (_, step) => {
    // Three times a day, for 20 seconds.
    if (random.chance(minutes / (8 * 60))) pausedUntil = step + Math.max(1, Math.round(20 / (60 * minutes)));
    return {
      hours: fromHour + (step * minutes) / 60,
      minutes,
      /** The API asked for a pause. */
      isPaused: step < pausedUntil,
      /** The pause is over. At night the circuit waits for the next call. */
      isUntested: step < pausedUntil + 10 / minutes,
    };
  });
}

/** From 0 at night to 1 at noon. */
const daylight = (hours: number): number => Math.max(0, Math.sin((((hours % 24) - 6) / 18) * Math.PI));
/** Crm copies everything. */
const isNightly = (hours: number): boolean => hours % 24 >= 1 && hours % 24 < 2.5;

function countTraffic(scraped: Scraped, instant: Instant, random: Random): void {
  const { minutes, isPaused } = instant;
  scraped.misses = 0;
  scraped.requests = 0;
  for (const app of ["web", "ios", "crm", "other"] as const) countRequests(app, scraped, instant, random);
  const { misses, requests } = scraped;
  // One call in a thousand fails, sometimes two that follow each other.
  const failed = random.chance(misses / 1000) ? random.integer(1, 2) : 0;
  scraped.add(callsWith("200"), misses);
  scraped.add(callsWith("500"), failed);
  scraped.add(callsWith("429"), isPaused ? 1 : 0);
  scraped.add(requestsOf("web", "failed", 502), failed);
  scraped.add('gateway_problems_total{problem="upstream-error", status="502"}', failed);
  const fast = requests - Math.round(requests * (0.02 + 0.02 * random.next()));
  const ofMisses = 'resource="listings", outcome="miss", ';
  scraped.buckets("gateway_request_duration_seconds", ofMisses, {
    0.1: fast,
    2.5: requests,
    "+Inf": requests,
  });
  const ticks = 1500 * minutes;
  const onTime = ticks - random.integer(0, 20);
  scraped.buckets("gateway_event_loop_delay_seconds", "", { 0.01: onTime, 0.25: ticks, "+Inf": ticks });
}

function countRequests(
  app: keyof typeof APPS,
  scraped: Scraped,
  { hours, minutes, isPaused }: Instant,
  random: Random,
): void {
  const [noon, night] = APPS[app];
  const weekday = Math.floor(hours / 24) % 7;
  const isBatch = app === "crm" && isNightly(hours);
  const day = daylight(hours);
  const perMinute = noon * (night + (1 - night) * day) * (weekday >= 5 ? 0.4 : 1) + (isBatch ? 30 : 0);
  // Two processes share them.
  const mean = (perMinute * minutes) / 2;
  const asked = Math.max(0, Math.round(mean + random.bell() * Math.sqrt(mean)));
  // On Tuesday at 9, the answers of a resource are purged.
  const isPurged = weekday === 1 && hours % 24 >= 9 && hours % 24 < 9.2;
  const ratio = isPurged ? 0.2 : isBatch ? 0.1 : (0.35 + 0.45 * day) * (0.9 + 0.2 * random.next());
  const hits = Math.round(asked * ratio);
  // Background work that would need the reserve is refused.
  const refused = isBatch ? Math.round((asked - hits) * 0.4) : 0;
  const stale = isPaused ? Math.round((asked - hits) / 2) : 0;
  const fetched = asked - hits - refused - stale;
  scraped.add(requestsOf(app, "hit", 200), hits);
  scraped.add(requestsOf(app, "miss", 200), fetched);
  scraped.add(requestsOf(app, "stale", 200), stale);
  scraped.add(requestsOf(app, "refused", 503), refused);
  scraped.add(requestsOf(app, "refused", 400), Number(random.chance(0.02)));
  // Once a day an app sends all its searches at once.
  scraped.add(requestsOf(app, "refused", 429), !isBatch && random.chance(minutes / 1440) ? 3 : 0);
  scraped.misses += fetched;
  scraped.requests += asked;
}

function setGauges(
  scraped: Scraped,
  instant: Instant,
  { version, hasSlot }: { readonly version: string; readonly hasSlot: boolean },
  random: Random,
): void {
  const { hours, minutes, isPaused, isUntested } = instant;
  // Redis restarts on Thursday at 3.
  const isRestarting = Math.abs(hours - 75) * 60 < minutes / 2;
  // The nightly work spends all but the reserve for an hour and a half.
  const left = isNightly(hours) ? RESERVE : Math.round(PER_MINUTE - (2 * scraped.misses) / minutes);
  const values = {
    up: 1,
    [`gateway_build_info{version="${version}", node="v26.0.0"}`]: 1,
    'gateway_budget_limit{window="1m"}': PER_MINUTE,
    'gateway_budget_limit{window="1d"}': PER_DAY,
    'gateway_budget_remaining{window="1m"}': random.chance(0.1) ? 0 : Math.max(0, left),
    'gateway_budget_remaining{window="1d"}': Math.round(PER_DAY * (0.5 - 0.2 * daylight(hours))),
    'gateway_app_budget_limit{app="crm", window="per-day"}': 3_000,
    'gateway_app_budget_remaining{app="crm", window="per-day"}': isNightly(hours) ? 700 : 1_500,
    gateway_budget_known: Number(!isRestarting),
    gateway_budget_slot: Number(hasSlot),
    'gateway_app_background{app="crm"}': 1,
    gateway_apps_registered: 3,
    'gateway_circuit_state{circuit="api/all"}': isPaused ? 2 : Number(isUntested && daylight(hours) < 0.1),
    'gateway_store_breaker_state{store="redis"}': isRestarting ? 2 : 0,
    'gateway_ledger_durable{store="redis"}': Number(!isRestarting),
    gateway_config_last_reload_successful: 1,
    gateway_files_refused: 0,
    gateway_redis_may_evict_budget: 0,
    'gateway_certificate_end_timestamp_seconds{server="callers"}': 60 * 86_400,
  };
  for (const [series, value] of Object.entries(values)) scraped.set(series, value);
}
