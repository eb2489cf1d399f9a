import type { Backend } from "./cache/backend.ts";
import { createRedisBackend } from "./cache/redis-backend.ts";
import { createSqliteBackend } from "./cache/sqlite-backend.ts";
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

/** @returns Redis where it is set, else SQLite where there is a directory, else nothing: memory only */
export function openBackend({
  config,
  clock,
  random,
  observer,
  metrics,
}: OpenBackendOptions): Backend | undefined {
  const { redis, dataDir, cache } = config;
  const timed = (tier: Tier) => (operation: string, durationMs: number) =>
    metrics.storeOperation(tier, operation, durationMs);
  if (redis !== null) {
    // Seen from the first scrape on, not from the first fault.
    metrics.breakerState("redis", "closed");
    return createRedisBackend({
      connect: redis,
      clock,
      random,
      commandTimeoutMs: redis.timeoutMs,
      probeIntervalMs: redis.probeIntervalMs,
      retentionMs: cache.retentionMs,
      observer,
      onOperation: timed("redis"),
      onBreaker: (state) => metrics.breakerState("redis", state),
    });
  }
  if (dataDir === null) return undefined;
  return createSqliteBackend({
    dataDir,
    maxBytes: cache.maxDiskBytes,
    retentionMs: cache.retentionMs,
    clock,
    log: observer,
    onOperation: timed("sqlite"),
  });
}
