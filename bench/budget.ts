import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Problem } from "../src/errors.ts";
import { systemClock as clock } from "../src/process/clock.ts";
import { createApps } from "../src/ratelimit/apps.ts";
import { createCircuits, unsharedCircuits } from "../src/ratelimit/circuits.ts";
import { createDispatcher, type Dispatcher } from "../src/ratelimit/dispatcher.ts";
import type { Limiter, LimiterConfig } from "../src/ratelimit/limiter.ts";
import { createLocalLimiter } from "../src/ratelimit/local-limiter.ts";
import type { UpstreamRequest } from "../src/types.ts";
import type { OwnLedger } from "../src/usage/ledger.ts";
import { createMemoryLedger } from "../src/usage/memory-ledger.ts";
import { createSqliteLedger } from "../src/usage/sqlite-ledger.ts";
import { startRedis } from "../test/support/redis.ts";
import { shareLimits } from "../test/support/shared-limiter.ts";
import { openSqliteBackend } from "../test/support/sqlite.ts";
import { waitingOf } from "../test/support/waiting.ts";
import { measure } from "./measure.ts";
import { micros, printTable, ratio } from "./table.ts";

/** Limits that are never reached. */
const AMPLE: LimiterConfig = {
  windows: [{ name: "1m", limit: 10_000_000, windowMs: 60_000 }],
  perDay: new Map(),
  arrivalMs: 1_000,
};
/** One permit, and then none for an hour. */
const USED_UP: LimiterConfig = { ...AMPLE, windows: [{ name: "1h", limit: 1, windowMs: 3_600_000 }] };
const BOUNDS = { retentionMs: 60_000, maxRecords: 10_000, now: clock.now };
const REQUEST = { app: "app", priority: "interactive", resource: "listings", cause: "miss" } as const;

/** Measures the cost of a permit, and the cost of each call in a long queue. */
export async function benchBudget(forMs: number): Promise<void> {
  await benchPermits(forMs);
  await benchQueue(forMs);
}

async function benchPermits(forMs: number): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "property-gateway-bench-"));
  const sqlite = openSqliteBackend(directory);
  const redis = await startRedis();
  const shared = shareLimits({ redisPort: redis.port, windows: AMPLE.windows, replicas: 1 });
  const limiters: readonly (readonly [string, Limiter])[] = [
    ["alone, in memory", localLimiter(createMemoryLedger(BOUNDS), AMPLE)],
    ["alone, with a file", localLimiter(createSqliteLedger(sqlite.database, BOUNDS), AMPLE)],
    ["through Redis", shared.limiter],
  ];
  const rows: string[][] = [];
  let base: number | undefined;
  for (const [name, limiter] of limiters) {
    // Redis grants nothing for its first two seconds.
    while ((await limiter.acquire({ ...REQUEST, query: "", leave: [] })).kind === "wait")
      await new Promise((resolve) => setTimeout(resolve, 100));
    const one = await measure(forMs, 1, () => takePermit(limiter));
    const many = await measure(forMs, 32, () => takePermit(limiter));
    base ??= many.cpuMs;
    rows.push([
      name,
      micros(one.wallMs),
      Math.round(many.perSecond).toLocaleString("en"),
      micros(many.cpuMs),
      ratio(many.cpuMs, base),
    ]);
  }
  printTable(
    "Permits",
    ["limiter", "latency of one", "per second, 32 at once", "CPU each", "of memory's"],
    rows,
  );
  await shared.limiter.close();
  shared.calls.close();
  await redis.close();
  await sqlite.close();
  rmSync(directory, { recursive: true });
}

async function takePermit(limiter: Limiter): Promise<void> {
  const acquired = await limiter.acquire({ ...REQUEST, query: "", leave: [0] });
  if (acquired.kind !== "permit") throw new Error("the limit is ample");
  limiter.complete(acquired.permit, { status: 200, arrivedAfterMs: 1, durationMs: 1 });
}

function localLimiter(ledger: OwnLedger, config: LimiterConfig): Limiter {
  return createLocalLimiter({ origin: "api", config, ledger, clock, process: "bench" });
}

async function benchQueue(forMs: number): Promise<void> {
  const rows: string[][] = [];
  for (const waiters of [10, 1_000, 10_000]) {
    const dispatcher = createBusyDispatcher();
    const startedAt = performance.now();
    const calls = Array.from({ length: waiters }, (_, index) => wait(dispatcher, `app-${index % 20}`));
    while (dispatcher.queueLength("interactive") < waiters) await new Promise(setImmediate);
    const enteredMs = (performance.now() - startedAt) / waiters;
    const predicted = await measure(forMs, 1, () => void dispatcher.expect(REQUEST));
    rows.push([waiters.toLocaleString("en"), micros(enteredMs), micros(predicted.cpuMs)]);
    dispatcher.close(new Problem("shutting-down"));
    await Promise.all(calls);
  }
  printTable("A queue of calls of 20 apps", ["calls that wait", "to join, each", "to predict a wait"], rows);
}

/** @returns a dispatcher whose budget is used up */
function createBusyDispatcher(): Dispatcher {
  const apps = createApps({ listed: [], defaultWeight: 1, maxUnlisted: 100, unlistedLabels: 20 });
  const fraction = (): number => 0;
  const keyVersion = (): number => 1;
  const circuits = createCircuits(
    {
      shared: unsharedCircuits(),
      now: clock.monotonic,
      keyVersion,
      fraction,
      probeWanted: () => undefined,
      warn: () => undefined,
      onState: () => undefined,
    },
    { windows: USED_UP.windows, maxCoolOffMs: 60_000 },
  );
  const observer = { refused: () => undefined, departed: () => undefined };
  const limiter = localLimiter(createMemoryLedger(BOUNDS), USED_UP);
  void limiter.acquire({ ...REQUEST, query: "", leave: [] });
  return createDispatcher(
    { limiter, circuits, apps, keyVersion, clock, fraction, observer },
    { concurrency: 4, mode: "enforce", reserve: 0 },
  );
}

/** A call without a deadline. It ends when the dispatcher is closed. */
async function wait(dispatcher: Dispatcher, app: string): Promise<void> {
  const request: UpstreamRequest = {
    ...REQUEST,
    app,
    query: "",
    waiting: { ...waitingOf(), apps: () => [app] },
  };
  await dispatcher.run(request, () => Promise.resolve()).catch(() => undefined);
}
