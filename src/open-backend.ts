import type { SendLog } from "./budget/send-log.ts";
import { createSqliteSends } from "./budget/sqlite-sends.ts";
import type { Backend } from "./cache/backend.ts";
import { createRedisBackend } from "./cache/redis-backend.ts";
import { createSqliteBackend, type SqliteBackend } from "./cache/sqlite-backend.ts";
import type { Observer, Tier } from "./exchange.ts";
import type { Metrics } from "./observe/metrics.ts";
import type { Clock } from "./platform/clock.ts";
import type { Config } from "./platform/config.ts";
import type { Random } from "./platform/random.ts";

export interface OpenBackendOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly observer: Observer;
  readonly metrics: Metrics;
}

/** What stands behind the memory of this process. */
export interface OpenedBackend {
  /** Absent: memory only. */
  readonly backend: Backend | undefined;
  /** Remembers what was sent to an origin over a restart; absent where nothing does. */
  readonly sendLog: (origin: "api" | "images", horizonMs: number) => SendLog | undefined;
}

/** @returns Redis where it is set, else SQLite where there is a directory, else nothing: memory only */
export function openBackend(options: OpenBackendOptions): OpenedBackend {
  const { redis, dataDir } = options.config;
  if (redis !== null) return { backend: openRedis(redis, options), sendLog: () => undefined };
  const sqlite = dataDir === null ? undefined : openSqlite(dataDir, options);
  return {
    backend: sqlite,
    sendLog: (origin, horizonMs) => sqlite && createSqliteSends(sqlite.database, origin, horizonMs),
  };
}

function openRedis(redis: NonNullable<Config["redis"]>, options: OpenBackendOptions): Backend {
  const { config, clock, random, observer, metrics } = options;
  // Seen from the first scrape on, not from the first fault.
  metrics.breakerState("redis", "closed");
  return createRedisBackend({
    connect: redis,
    clock,
    random,
    commandTimeoutMs: redis.timeoutMs,
    probeIntervalMs: redis.probeIntervalMs,
    retentionMs: longestKeptMs(config.cache),
    observer,
    onOperation: timed("redis", metrics),
    onBreaker: (state) => metrics.breakerState("redis", state),
  });
}

function openSqlite(dataDir: string, options: OpenBackendOptions): SqliteBackend | undefined {
  const { config, clock, observer, metrics } = options;
  return createSqliteBackend({
    dataDir,
    maxBytes: config.cache.maxDiskBytes,
    retentionMs: longestKeptMs(config.cache),
    clock,
    log: observer,
    onOperation: timed("sqlite", metrics),
  });
}

/** How long a purge must be remembered: as long as an entry from before it can be kept. */
function longestKeptMs({ retentionMs, ttlMs, negativeTtlMs }: Config["cache"]): number {
  return Math.max(retentionMs, negativeTtlMs, ...Object.values(ttlMs));
}

function timed(tier: Tier, metrics: Metrics): (operation: string, durationMs: number) => void {
  return (operation, durationMs) => metrics.storeOperation(tier, operation, durationMs);
}
