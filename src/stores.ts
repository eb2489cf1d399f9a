import type { Allowance } from "./ratelimit/allowance.ts";
import type { Terms } from "./ratelimit/arbiter.ts";
import type { LedgerReader } from "./usage/ledger.ts";
import { createLocalAllowance } from "./ratelimit/local-allowance.ts";
import { createMemoryLedger } from "./usage/memory-ledger.ts";
import { budgetKeys, createRedisBudget, readNews } from "./ratelimit/redis-budget.ts";
import { createRedisLedger } from "./usage/redis-ledger.ts";
import { BUDGET_SCRIPTS } from "./ratelimit/redis-scripts.ts";
import { createSharedAllowance } from "./ratelimit/shared-allowance.ts";
import { openLedgerOnDisk } from "./usage/ledger-on-disk.ts";
import type { Backend } from "./cache/store/port.ts";
import { createRedisBackend } from "./cache/store/redis.ts";
import { createSqliteBackend, type SqliteBackend } from "./cache/store/sqlite.ts";
import type { Problem } from "./errors.ts";
import { createRedisService, type RedisService } from "./redis/service.ts";
import { createRedisClaims } from "./singleflight/redis-claims.ts";
import type { Claims, Observer, OriginName, StoreOperation, Tier } from "./types.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import type { Clock } from "./process/clock.ts";
import { type Config, ConfigError } from "./config/config.ts";
import { DatabaseInUse } from "./sqlite/database.ts";
import type { Random } from "./process/random.ts";
import { NAMESPACE } from "./query/key.ts";

export interface OpenBackendOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly observer: Observer;
  readonly metrics: Metrics;
  /** A flight of a key failed in some replica. */
  readonly onFailed: (key: string, problem: Problem) => void;
}

/** What stands behind the memory of this process. */
export interface OpenedBackend {
  /** Absent: memory only. */
  readonly backend: Backend | undefined;
  /** Absent: there are no other replicas. */
  readonly claims: Claims | undefined;
  /** The budget of an origin; to be asked for once each. */
  readonly allowanceOf: (origin: OriginName, terms: Terms) => Allowance;
  /** What was sent, to all origins, by all replicas. */
  readonly ledger: LedgerReader;
  /** Writes down what is not yet, and closes what is open. Never rejects. */
  readonly close: () => Promise<void>;
}

/** @returns Redis where it is set, else SQLite where there is a directory, else nothing: memory only */
export function openBackend(options: OpenBackendOptions): OpenedBackend {
  const { redis, dataDir } = options.config;
  if (redis !== null) return openShared(redis, options);
  const sqlite = dataDir === null ? undefined : openSqlite(dataDir, options);
  return openAlone(sqlite, options);
}

/** Everything in this process, and in its file where there is one. */
function openAlone(
  sqlite: SqliteBackend | undefined,
  { config, clock, random, observer }: OpenBackendOptions,
): OpenedBackend {
  const bounds = { ...config.ledger, now: clock.now };
  const onDisk = sqlite && openLedgerOnDisk({ ...bounds, ...sqlite, warn: observer.warn });
  const ledger = onDisk ?? createMemoryLedger(bounds);
  const replica = random.unique16();
  return {
    backend: sqlite,
    claims: undefined,
    ledger,
    async close() {
      onDisk?.close();
      await sqlite?.close();
    },
    allowanceOf: (origin, terms) => createLocalAllowance({ origin, terms, ledger, clock, replica }),
  };
}

function openShared(redis: NonNullable<Config["redis"]>, options: OpenBackendOptions): OpenedBackend {
  const { config, clock, random, observer, metrics } = options;
  // Seen from the first scrape on, not from the first fault.
  metrics.breakerState("redis", "closed");
  const replica = random.unique16();
  const service = createRedisService({
    connect: redis,
    clock,
    namespace: NAMESPACE,
    replica,
    commandTimeoutMs: redis.timeoutMs,
    probeIntervalMs: redis.probeIntervalMs,
    observer,
    onOperation: timed("redis", metrics),
    onBreaker: (state) => metrics.breakerState("redis", state),
  });
  const backend = createRedisBackend({
    redis: service,
    clock,
    replica,
    retentionMs: config.cache.retentionMs,
  });
  const claims = createRedisClaims({
    redis: service,
    clock,
    namespace: NAMESPACE,
    newHolder: random.unique16,
    onFailed: options.onFailed,
  });
  return {
    backend,
    claims,
    ledger: createRedisLedger(service.run, NAMESPACE),
    async close() {
      for (const part of [claims, backend, service]) part.close();
    },
    allowanceOf: sharedAllowances(service, replica, options),
  };
}

/** @returns what opens the budget of an origin that all replicas share */
function sharedAllowances(
  service: RedisService,
  replica: string,
  { config, clock, observer }: OpenBackendOptions,
): OpenedBackend["allowanceOf"] {
  const { replicas, degradedShare, degradedForMs } = config.budget;
  service.defineScripts(BUDGET_SCRIPTS);
  return (origin, terms) => {
    const common = { origin, terms, replicas, degradedForMs };
    const allowance = createSharedAllowance({
      ...common,
      shared: createRedisBudget({
        ...common,
        run: service.run,
        namespace: NAMESPACE,
        ledger: config.ledger,
      }),
      clock,
      replica,
      degradedShare,
      report: observer.warn,
    });
    service.subscribe({
      channels: [budgetKeys(NAMESPACE, origin).channel],
      onMessage(_channel, text) {
        const news = readNews(text);
        if (news !== undefined) allowance.hear(news);
      },
      onGap: allowance.check,
      onRecovery: allowance.check,
    });
    return allowance;
  };
}

function openSqlite(dataDir: string, options: OpenBackendOptions): SqliteBackend | undefined {
  const { config, clock, observer, metrics } = options;
  try {
    return createSqliteBackend({
      dataDir,
      maxBytes: config.cache.maxDiskBytes,
      retentionMs: config.cache.retentionMs,
      clock,
      log: observer,
      onOperation: timed("sqlite", metrics),
    });
  } catch (error) {
    if (!(error instanceof DatabaseInUse)) throw error;
    const problem = `dataDir (DATA_DIR): ${error.message}: each gateway needs a directory of its own`;
    throw new ConfigError([problem]);
  }
}

function timed(tier: Tier, metrics: Metrics): (operation: StoreOperation, durationMs: number) => void {
  return (operation, durationMs) => metrics.storeOperation(tier, operation, durationMs);
}
