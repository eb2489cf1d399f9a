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
import { DataOfAnotherAccount } from "./sqlite/owner.ts";
import type { Random } from "./process/random.ts";
import { identityOf, redisNamespaces } from "./identity.ts";

export interface OpenBackendOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly observer: Observer;
  readonly metrics: Metrics;
  /** A flight of a key failed in some replica. */
  readonly onFailed: (key: string, problem: Problem) => void;
}

/** The store behind the memory of this process. */
export interface OpenedBackend {
  /** `undefined`: memory only. */
  readonly backend: Backend | undefined;
  /** `undefined`: there are no other replicas. */
  readonly claims: Claims | undefined;
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
  // The metric exists from the first scrape on, not only after the first fault.
  metrics.breakerState("redis", "closed");
  const replica = random.unique16();
  const namespaces = redisNamespaces(identityOf(config.upstream), redis.keyPrefix);
  const namespace = namespaces.cache;
  const service = createRedisService({
    connect: redis,
    clock,
    namespace,
    replica,
    commandTimeoutMs: redis.timeoutMs,
    probeIntervalMs: redis.probeIntervalMs,
    observer,
    onOperation: timed("redis", metrics),
    onBreaker: (state) => metrics.breakerState("redis", state),
  });
  const backend = createRedisBackend({
    redis: service,
    namespace,
    clock,
    replica,
    retentionMs: config.cache.retentionMs,
  });
  const claims = createRedisClaims({
    redis: service,
    clock,
    namespace,
    newHolder: random.unique16,
    onFailed: options.onFailed,
  });
  return {
    backend,
    claims,
    ledger: createRedisLedger(service.run, namespaces.budget),
    async close() {
      for (const part of [claims, backend, service]) part.close();
    },
    allowanceOf: sharedAllowances(service, replica, namespaces.budget, options),
  };
}

/** @returns what opens the budget of an origin that all replicas share */
function sharedAllowances(
  service: RedisService,
  replica: string,
  namespace: string,
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
        namespace,
        ledger: config.ledger,
      }),
      clock,
      replica,
      degradedShare,
      report: observer.warn,
    });
    service.subscribe({
      channels: [budgetKeys(namespace, origin).channel],
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
      owner: identityOf(config.upstream),
      maxBytes: config.cache.maxDiskBytes,
      retentionMs: config.cache.retentionMs,
      clock,
      log: observer,
      onOperation: timed("sqlite", metrics),
    });
  } catch (error) {
    if (error instanceof DataOfAnotherAccount) throw new ConfigError([ANOTHER_ACCOUNT]);
    if (!(error instanceof DatabaseInUse)) throw error;
    const problem = `dataDir (DATA_DIR): ${error.message}: each gateway needs a directory of its own`;
    throw new ConfigError([problem]);
  }
}

const ANOTHER_ACCOUNT =
  "dataDir (DATA_DIR): the directory holds the budget and the answers of another account (upstream.service or " +
  "upstream.callerId). Set another directory, or run `npm run adopt-data` to count its calls against this account and " +
  "drop its answers";

function timed(tier: Tier, metrics: Metrics): (operation: StoreOperation, durationMs: number) => void {
  return (operation, durationMs) => metrics.storeOperation(tier, operation, durationMs);
}
