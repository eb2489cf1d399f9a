/** What Prometheus scrapes from an ordinary gateway: days, nights, weekends, an update, trifles. The same seed gives the same. */
import { type Random, seededRandom } from "../../src/sandbox/dataset/random.ts";

export interface InputSeries {
  readonly series: string;
  readonly values: string;
}

export interface Ordinary {
  readonly seed: number;
  readonly stepSeconds: number;
  readonly steps: number;
  /** Hours after Monday, midnight. */
  readonly fromHour: number;
  /** A fault of every replica, from a step on. */
  readonly fault?: { readonly step: number; readonly apply: (replica: Replica) => void };
}

/** Requests a minute of each app at noon, and the part of them at night. */
const APPS = { web: [40, 0.05], ios: [15, 0.1], crm: [6, 0.01], other: [0.5, 0.2] } as const;
const PER_MINUTE = 60;
const PER_DAY = 20_000;
/** Background work leaves a tenth. */
const RESERVE = 6;
/** The replica that is replaced, its successor, and when: on Wednesday at 10. Both run for six minutes. */
const UPDATES = [
  ["b", "c", 58],
  ["a", "d", 58.1],
] as const;
const UPDATE_HOURS = 0.1;
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

/** The state of one process. */
export class Replica {
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

/** One instant of the week. */
interface Instant {
  readonly hours: number;
  readonly minutes: number;
  /** From 0 at night to 1 at noon. */
  readonly day: number;
  readonly weekend: number;
  /** Crm copies everything. */
  readonly isNightly: boolean;
  /** The answers of a resource were purged. */
  readonly isPurged: boolean;
  /** The API asked for a pause. */
  readonly isPaused: boolean;
  /** The pause is over. The circuit waits for the next call. */
  readonly isUntested: boolean;
}

/** @returns series for `promtool test rules` */
export function ordinarySeries({ seed, stepSeconds, steps, fromHour, fault }: Ordinary): InputSeries[] {
  const random = seededRandom(seed);
  const rows = new Map<string, string[]>();
  const replicas = new Map([
    ["a", new Replica()],
    ["b", new Replica()],
  ]);
  let pausedUntil = -1;
  let dayLeft = PER_DAY;
  for (let step = 0; step < steps; step++) {
    const minutes = stepSeconds / 60;
    if (random.chance(minutes / (8 * 60))) pausedUntil = step + Math.max(1, Math.round(20 / stepSeconds));
    const instant = instantAt(fromHour + (step * minutes) / 60, minutes, step, pausedUntil);
    update(replicas, instant.hours);
    dayLeft = Math.min(PER_DAY, dayLeft + (PER_DAY / 1440) * minutes);
    for (const replica of replicas.values()) {
      traffic(replica, instant, replicas.size, random);
      dayLeft -= replica.misses;
    }
    for (const [name, replica] of replicas) {
      gauges(replica, instant, { dayLeft, ...builtAs(name, instant.hours) }, random);
      if (fault !== undefined && step >= fault.step) fault.apply(replica);
      for (const [series, value] of replica.samples) {
        const row = rowOf(rows, series, name);
        row.push(...Array.from({ length: step - row.length }, () => "_"), String(value));
      }
    }
    for (const row of rows.values()) if (row.length === step && row.at(-1) !== "stale") row.push("stale");
  }
  return [...rows].map(([series, row]) => ({ series, values: row.join(" ") }));
}

function update(replicas: Map<string, Replica>, hours: number): void {
  for (const [before, name, at] of UPDATES) {
    if (hours >= at && !replicas.has(name)) replicas.set(name, new Replica());
    if (hours >= at + UPDATE_HOURS) replicas.delete(before);
  }
}

function builtAs(name: string, hours: number): Pick<Known, "hasSlot" | "version"> {
  const [, , at] = UPDATES.find(([, after]) => after === name) ?? [];
  if (at === undefined) return { hasSlot: true, version: "1.0.0" };
  return { hasSlot: hours > at + UPDATE_HOURS, version: "1.1.0" };
}

function rowOf(rows: Map<string, string[]>, series: string, instance: string): string[] {
  const labels = `job="property-gateway", instance="${instance}"`;
  const name = series.includes("{") ? series.replace("{", `{${labels}, `) : `${series}{${labels}}`;
  const row = rows.get(name) ?? [];
  rows.set(name, row);
  return row;
}

function instantAt(hours: number, minutes: number, step: number, pausedUntil: number): Instant {
  const hour = hours % 24;
  const weekday = Math.floor(hours / 24) % 7;
  const day = Math.max(0, Math.sin(((hour - 6) / 18) * Math.PI));
  return {
    hours,
    minutes,
    day,
    weekend: weekday >= 5 ? 0.4 : 1,
    isNightly: hour >= 1 && hour < 2.5,
    isPurged: weekday === 1 && hour >= 9 && hour < 9.2,
    isPaused: step < pausedUntil,
    isUntested: day < 0.1 && step < pausedUntil + 10 / minutes,
  };
}

function traffic(replica: Replica, instant: Instant, replicas: number, random: Random): void {
  const { minutes, isPaused } = instant;
  replica.misses = 0;
  replica.requests = 0;
  for (const app of ["web", "ios", "crm", "other"] as const)
    requestsFrom(app, replica, instant, replicas, random);
  // One call in a thousand fails, sometimes two that follow each other.
  const failed = random.chance(replica.misses / 1000) ? random.integer(1, 2) : 0;
  replica.add(callsWith("200"), replica.misses);
  replica.add(callsWith("500"), failed);
  replica.add(callsWith("429"), isPaused ? 1 : 0);
  replica.add(requestsOf("web", "failed", 502), failed);
  replica.add('gateway_problems_total{problem="upstream-error", status="502"}', failed);
  const { requests } = replica;
  const slow = Math.round(requests * (0.02 + 0.02 * random.next()));
  replica.buckets("gateway_request_duration_seconds", 'resource="listings", outcome="miss", ', {
    0.1: requests - slow,
    2.5: requests,
    "+Inf": requests,
  });
  const ticks = 1500 * minutes;
  replica.buckets("gateway_event_loop_delay_seconds", "", {
    0.01: ticks - random.integer(0, 20),
    0.25: ticks,
    "+Inf": ticks,
  });
}

function requestsFrom(
  app: keyof typeof APPS,
  replica: Replica,
  { minutes, day, weekend, isNightly, isPurged, isPaused }: Instant,
  replicas: number,
  random: Random,
): void {
  const [noon, night] = APPS[app];
  const isBatch = app === "crm" && isNightly;
  const mean = ((noon * (night + (1 - night) * day) * weekend + (isBatch ? 30 : 0)) * minutes) / replicas;
  const asked = Math.max(0, Math.round(mean + random.bell() * Math.sqrt(mean)));
  const ratio = isPurged ? 0.2 : isBatch ? 0.1 : (0.35 + 0.45 * day) * (0.9 + 0.2 * random.next());
  const hits = Math.round(asked * ratio);
  // Background work that would need the reserve is refused.
  const refused = isBatch ? Math.round((asked - hits) * 0.4) : 0;
  const stale = isPaused ? Math.round((asked - hits) / 2) : 0;
  const fetched = asked - hits - refused - stale;
  replica.add(requestsOf(app, "hit", 200), hits);
  replica.add(requestsOf(app, "miss", 200), fetched);
  replica.add(requestsOf(app, "stale", 200), stale);
  replica.add(requestsOf(app, "refused", 503), refused);
  replica.add(requestsOf(app, "refused", 400), Number(random.chance(0.02)));
  // Once a day an app sends all its searches at once. Refreshes are refused more often, and nobody notices.
  replica.add(requestsOf(app, "refused", 429), !isBatch && random.chance(minutes / 1440) ? 3 : 0);
  replica.add(
    `gateway_refused_total{app="${app}", reason="budget"}`,
    refused + (random.chance(0.05) ? 3 : 0),
  );
  replica.misses += fetched;
  replica.requests += asked;
}

interface Known {
  readonly dayLeft: number;
  readonly hasSlot: boolean;
  readonly version: string;
}

function gauges(
  replica: Replica,
  instant: Instant,
  { dayLeft, hasSlot, version }: Known,
  random: Random,
): void {
  const { hours, minutes, isNightly, isPaused, isUntested } = instant;
  // Redis restarts on Thursday at 3.
  const isRestarting = Math.abs(hours - 75) * 60 < minutes / 2;
  // The nightly work spends all but the reserve for an hour and a half.
  const left = isNightly ? RESERVE : Math.round(PER_MINUTE - (2 * replica.misses) / minutes);
  const values = {
    up: 1,
    [`gateway_build_info{version="${version}", node="v26.0.0"}`]: 1,
    'gateway_budget_limit{window="1m"}': PER_MINUTE,
    'gateway_budget_limit{window="1d"}': PER_DAY,
    'gateway_budget_remaining{window="1m"}': random.chance(0.1) ? 0 : Math.max(0, left),
    'gateway_budget_remaining{window="1d"}': Math.round(dayLeft),
    'gateway_app_budget_limit{app="crm", window="per-day"}': 3_000,
    'gateway_app_budget_remaining{app="crm", window="per-day"}': isNightly ? 700 : 1_500,
    gateway_budget_known: Number(!isRestarting),
    gateway_budget_slot: Number(hasSlot),
    'gateway_app_background{app="crm"}': 1,
    gateway_apps_registered: 3,
    'gateway_circuit_state{circuit="api/all"}': isPaused ? 2 : Number(isUntested),
    'gateway_store_breaker_state{store="redis"}': isRestarting ? 2 : 0,
    'gateway_ledger_durable{store="redis"}': Number(!isRestarting),
    gateway_config_last_reload_successful: 1,
    gateway_files_refused: 0,
    gateway_redis_may_evict_budget: 0,
    'gateway_certificate_end_timestamp_seconds{server="callers"}': 60 * 86_400,
  };
  for (const [series, value] of Object.entries(values)) replica.set(series, value);
}
