import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createLocalAllowance } from "../src/ratelimit/local-allowance.ts";
import type { Allowance } from "../src/ratelimit/allowance.ts";
import type { Terms } from "../src/ratelimit/arbiter.ts";
import { createMemoryLedger } from "../src/usage/memory-ledger.ts";
import { budgetKeys, createRedisBudget, readNews } from "../src/ratelimit/redis-budget.ts";
import { BUDGET_SCRIPTS } from "../src/ratelimit/redis-scripts.ts";
import { createSharedAllowance } from "../src/ratelimit/shared-allowance.ts";
import { openLedgerOnDisk } from "../src/usage/ledger-on-disk.ts";
import { createThrottle } from "../src/ratelimit/throttle.ts";
import type { UpstreamRequest } from "../src/types.ts";
import { systemClock as clock } from "../src/process/clock.ts";
import { systemRandom } from "../src/process/random.ts";
import { createRedisService } from "../src/redis/service.ts";
import { startRedis } from "../test/support/redis.ts";
import { openSqliteBackend } from "../test/support/sqlite.ts";
import { measure } from "./measure.ts";
import { micros, printTable, ratio } from "./table.ts";

/** What a budget costs a request that need not wait, how much of it is used, and who gets how much of it. */
export async function benchBudget(forMs: number): Promise<void> {
  const redis = await startRedis();
  const url = `redis://127.0.0.1:${redis.port}`;
  await benchLatency(forMs, url);
  await benchShares(forMs, url);
  await redis.close();
}

interface Opened {
  readonly allowance: Allowance;
  readonly close: () => Promise<void>;
}

function alone(terms: Terms): Opened {
  const ledger = createMemoryLedger({ retentionMs: 3_600_000, maxRecords: 100_000, now: clock.now });
  const allowance = createLocalAllowance({ origin: "api", terms, ledger, clock, replica: "bench" });
  return { allowance, close: () => allowance.close() };
}

/** One process with a file. */
function onFile(terms: Terms): Opened {
  const directory = mkdtempSync(join(tmpdir(), "property-gateway-bench-"));
  const backend = openSqliteBackend(directory);
  const bounds = { retentionMs: 3_600_000, maxRecords: 100_000, now: clock.now };
  const warn = (message: string, fields: object): void => console.log(message, fields);
  const ledger = openLedgerOnDisk({ ...bounds, ...backend, warn });
  return {
    allowance: createLocalAllowance({ origin: "api", terms, ledger, clock, replica: "bench" }),
    async close() {
      ledger.close();
      await backend.close();
      rmSync(directory, { recursive: true });
    },
  };
}

async function shared(terms: Terms, url: string): Promise<Opened> {
  const ignore = (): void => undefined;
  const namespace = `bench:${systemRandom.unique16()}:`;
  const holder: { allowance?: ReturnType<typeof createSharedAllowance> } = {};
  const redis = createRedisService({
    connect: { url, mode: "single", nodes: [] },
    clock,
    namespace,
    replica: systemRandom.unique16(),
    observer: { info: ignore, warn: ignore },
    onOperation: ignore,
    onBreaker: ignore,
  });
  const check = (): void => holder.allowance?.check();
  redis.defineScripts(BUDGET_SCRIPTS);
  redis.subscribe({
    channels: [budgetKeys(namespace, "api").channel],
    onMessage(_channel, text) {
      const news = readNews(text);
      if (news !== undefined) holder.allowance?.hear(news);
    },
    onGap: check,
    onRecovery: check,
  });
  const common = { origin: "api" as const, terms, replicas: 1, degradedForMs: 3_600_000 };
  const ledger = { retentionMs: 3_600_000, maxRecords: 100_000 };
  const budget = createRedisBudget({ ...common, run: redis.run, namespace, ledger });
  const allowance = createSharedAllowance({
    ...common,
    shared: budget,
    clock,
    replica: systemRandom.unique16(),
    degradedShare: 1,
    report: ignore,
  });
  holder.allowance = allowance;
  while (allowance.overview().mode !== "shared") await new Promise((resolve) => setTimeout(resolve, 10));
  return {
    allowance,
    async close() {
      await allowance.close();
      redis.close();
    },
  };
}

function termsOf(limit: number, windowMs: number, weights: Readonly<Record<string, number>>): Terms {
  return {
    windows: [{ name: "w", limit, windowMs }],
    reserve: 0.1,
    apps: new Map(Object.entries(weights).map(([app, weight]) => [app, { weight, perDay: null }])),
    leaseMs: 9_000,
    maxCoolOffMs: 300_000,
  };
}

function orderOf(app: string, abandoned = new AbortController().signal): UpstreamRequest {
  const waiting: UpstreamRequest["waiting"] = {
    abandoned,
    deadlineAt: () => Number.POSITIVE_INFINITY,
    priority: () => "interactive",
    apps: () => [],
    onChange: () => undefined,
    inQueue: () => undefined,
  };
  return { app, cause: "miss", resource: "areas", query: "areas?q=bench", waiting };
}

/** A place for one request after the other, none of which has to wait for another. */
async function benchLatency(forMs: number, url: string): Promise<void> {
  const terms = termsOf(100_000_000, 60_000, { other: 1 });
  const rows: string[][] = [];
  let base: number | undefined;
  for (const [name, opened] of [
    ["alone", alone(terms)],
    ["alone, on a file", onFile(terms)],
    ["shared through Redis", await shared(terms, url)],
  ] as const) {
    const { allowance, close } = opened;
    const wish = {
      app: "other",
      priority: "interactive",
      resource: "areas",
      cause: "miss",
      query: "",
    } as const;
    const take = async (): Promise<void> => {
      const taken = await allowance.take([wish]);
      if (taken.kind === "granted")
        allowance.settle(taken.grant, { status: 200, arrivedAfterMs: 0, durationMs: 0 });
    };
    await measure(forMs / 4, 1, take);
    const place = await measure(forMs, 1, take);
    const throttle = throttleOf(allowance, 4);
    const order = orderOf("other");
    const whole = await measure(forMs, 1, () => throttle.throttled(order, async () => undefined));
    base ??= place.wallMs;
    rows.push([
      name,
      micros(place.wallMs),
      ratio(place.wallMs, base),
      micros(place.cpuMs),
      micros(whole.wallMs),
    ]);
    await close();
  }
  const header = ["budget", "a place", "of alone's", "CPU", "with the queue in front of it"];
  printTable("Latency added to a request that need not wait", header, rows);
}

function throttleOf(allowance: Allowance, concurrency: number): ReturnType<typeof createThrottle> {
  const observer = { refused: () => undefined, departed: () => undefined };
  return createThrottle({ allowance, concurrency, mode: "enforce", clock, observer });
}

const WINDOWS = 10;
const LIMIT = 70;

/** Apps of weights 1, 2 and 4 who always want more, one of them ten times as much, share ten windows. */
async function benchShares(forMs: number, url: string): Promise<void> {
  const weights = { one: 1, two: 2, four: 4 };
  const windowMs = Math.max(200, forMs);
  const rows: string[][] = [];
  for (const [name, opened] of [
    ["alone", alone(termsOf(LIMIT, windowMs, weights))],
    ["shared through Redis", await shared(termsOf(LIMIT, windowMs, weights), url)],
  ] as const) {
    const sent = await saturate(opened.allowance, windowMs, { one: 200, two: 20, four: 20 });
    const total = Object.values(sent).reduce((sum, count) => sum + count, 0);
    const used = total / (LIMIT * WINDOWS);
    const share = (app: string): string => `${((100 * (sent[app] ?? 0)) / total).toFixed(1)} %`;
    rows.push([name, `${(100 * used).toFixed(1)} %`, share("one"), share("two"), share("four")]);
    await opened.close();
  }
  const header = ["budget", "used in ten windows", "weight 1, asks 10x", "weight 2", "weight 4"];
  printTable("Shares under saturation (14.3 %, 28.6 % and 57.1 % are fair)", header, rows);
}

async function saturate(
  allowance: Allowance,
  windowMs: number,
  askers: Readonly<Record<string, number>>,
): Promise<Readonly<Record<string, number>>> {
  const throttle = throttleOf(allowance, 50);
  const sent: Record<string, number> = {};
  const gone = new AbortController();
  const end = performance.now() + windowMs * WINDOWS;
  const asker = async (app: string): Promise<void> => {
    while (performance.now() < end) {
      await throttle
        .throttled(orderOf(app, gone.signal), async (ended) => {
          if (performance.now() < end) sent[app] = (sent[app] ?? 0) + 1;
          ended({ status: 200, arrivedAfterMs: 0, durationMs: 0 });
        })
        .catch(() => undefined);
    }
  };
  const all = Object.entries(askers).flatMap(([app, count]) =>
    Array.from({ length: count }, () => asker(app)),
  );
  setTimeout(() => gone.abort(), windowMs * WINDOWS);
  await Promise.all(all);
  return sent;
}
