/**
 * Opens the store that the settings name, the ledger in it, and the limits of the budgets that live there.
 */
import type { Allowance } from "./ratelimit/allowance.ts";
import type { Terms } from "./ratelimit/arbiter.ts";
import type { LedgerReader } from "./usage/ledger.ts";
import { createLocalAllowance } from "./ratelimit/local-allowance.ts";
import { createMemoryLedger } from "./usage/memory-ledger.ts";
import { budgetKeys, createRedisBudget, readNews } from "./ratelimit/redis-budget.ts";
import { createRedisLedger } from "./usage/redis-ledger.ts";
import { BUDGET_SCRIPTS } from "./ratelimit/redis-scripts.ts";
import { createSharedAllowance, type SharedAllowance } from "./ratelimit/shared-allowance.ts";
import { createSqliteLedger } from "./usage/sqlite-ledger.ts";
import { createUnfailingLedger } from "./usage/unfailing-ledger.ts";
import type { Backend } from "./cache/store/backend.ts";
import { createRedisBackend } from "./cache/store/redis-backend.ts";
import { createSqliteBackend, type SqliteBackend } from "./cache/store/sqlite-backend.ts";
import type { Observer, OriginName, Tier } from "./types.ts";
import type { StoreOperation } from "./telemetry/labels.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import type { Clock } from "./process/clock.ts";
import type { Config } from "./config/config.ts";
import type { Random } from "./process/random.ts";
import { NAMESPACE } from "./query/key.ts";

export interface OpenBackendOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly observer: Observer;
  readonly metrics: Metrics;
}

/** The store behind the memory of this process. */
export interface OpenedBackend {
  /** `undefined`: memory only. */
  readonly backend: Backend | undefined;
  /** Creates the limits of an origin's budget. Called once per origin. */
  readonly allowanceOf: (origin: OriginName, terms: Terms) => Allowance;
  /** The upstream calls of all replicas to all origins. */
  readonly ledger: LedgerReader;
  /** Writes what is not written yet, and closes the connections and files. Never rejects. */
  readonly close: () => Promise<void>;
}

/** Opens Redis if it is set, else SQLite if `DATA_DIR` is set, else only memory. */
export function openBackend(options: OpenBackendOptions): OpenedBackend {
  const { redis, dataDir } = options.config;
  if (redis !== null) return openShared(redis, options);
  const sqlite = dataDir === null ? undefined : openSqlite(dataDir, options);
  return openAlone(sqlite, options);
}

/** For a single process: the budgets are in memory, the ledger and the answers in the SQLite file if there is one. */
function openAlone(
  sqlite: SqliteBackend | undefined,
  { config, clock, random, observer }: OpenBackendOptions,
): OpenedBackend {
  const bounds = { ...config.ledger, now: clock.now };
  const onDisk =
    sqlite &&
    createUnfailingLedger(createSqliteLedger(sqlite.database, bounds), {
      now: clock.now,
      warn: observer.warn,
    });
  const ledger = onDisk ?? createMemoryLedger(bounds);
  const replica = random.unique16();
  return {
    backend: sqlite,
    ledger,
    async close() {
      onDisk?.flush();
      await sqlite?.close();
    },
    allowanceOf: (origin, terms) => createLocalAllowance({ origin, terms, ledger, clock, replica }),
  };
}

function openShared(redis: NonNullable<Config["redis"]>, options: OpenBackendOptions): OpenedBackend {
  const { config, clock, random, observer, metrics } = options;
  // The metric exists from the first scrape on, not only after the first fault.
  metrics.breakerState("redis", "closed");
  const allowances = new Map<string, SharedAllowance>();
  const channelOf = (origin: OriginName): string => budgetKeys(NAMESPACE, origin).channel;
  const backend = createRedisBackend({
    connect: redis,
    clock,
    random,
    commandTimeoutMs: redis.timeoutMs,
    probeIntervalMs: redis.probeIntervalMs,
    retentionMs: config.cache.retentionMs,
    observer,
    onOperation: timed("redis", metrics),
    onBreaker: (state) => metrics.breakerState("redis", state),
    guest: {
      scripts: BUDGET_SCRIPTS,
      channels: [channelOf("api"), channelOf("images")],
      onMessage(channel, text) {
        const news = readNews(text);
        if (news !== undefined) allowances.get(channel)?.hear(news);
      },
      onGap() {
        for (const allowance of allowances.values()) allowance.check();
      },
    },
  });
  const replica = random.unique16();
  return {
    backend,
    ledger: createRedisLedger(backend.run, NAMESPACE),
    close: backend.close,
    allowanceOf(origin, terms) {
      const { replicas, degradedShare, degradedForMs } = config.budget;
      const common = { origin, terms, replicas, degradedForMs };
      const allowance = createSharedAllowance({
        ...common,
        shared: createRedisBudget({
          ...common,
          run: backend.run,
          namespace: NAMESPACE,
          ledger: config.ledger,
        }),
        clock,
        replica,
        degradedShare,
        report: observer.warn,
      });
      allowances.set(channelOf(origin), allowance);
      return allowance;
    },
  };
}

function openSqlite(dataDir: string, options: OpenBackendOptions): SqliteBackend | undefined {
  const { config, clock, observer, metrics } = options;
  return createSqliteBackend({
    dataDir,
    maxBytes: config.cache.maxDiskBytes,
    retentionMs: config.cache.retentionMs,
    clock,
    log: observer,
    onOperation: timed("sqlite", metrics),
  });
}

function timed(tier: Tier, metrics: Metrics): (operation: StoreOperation, durationMs: number) => void {
  return (operation, durationMs) => metrics.storeOperation(tier, operation, durationMs);
}
