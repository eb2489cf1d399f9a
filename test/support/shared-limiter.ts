/** A limiter that shares its limits through a real Redis. */
import { systemClock } from "../../src/process/clock.ts";
import { systemRandom } from "../../src/process/random.ts";
import type { RateWindow } from "../../src/ratelimit/rate-window.ts";
import { createRedisLimiter, LIMITER_SCRIPTS } from "../../src/ratelimit/redis-limiter.ts";
import { createSharedLimiter, type SharedLimiter } from "../../src/ratelimit/shared-limiter.ts";
import type { SharedLimiterOptions } from "../../src/ratelimit/shared-side.ts";
import { createRedisCalls, type RedisCalls } from "../../src/redis/commands.ts";
import { redisFactory } from "../../src/redis/connect.ts";
import { SCRIPTS } from "../../src/redis/scripts.ts";

export interface ShareOptions {
  readonly redisPort: number;
  readonly windows: readonly RateWindow[];
  readonly replicas: number;
  readonly degradedForMs?: number;
  readonly namespace?: string;
  readonly admission?: (calls: RedisCalls) => ReturnType<NonNullable<SharedLimiterOptions["admission"]>>;
  readonly onReport?: (message: string) => void;
}

export function shareLimits(options: ShareOptions): { limiter: SharedLimiter; calls: RedisCalls } {
  const { degradedForMs = 20_000 } = options;
  const {
    redisPort,
    windows,
    replicas,
    namespace = "test:",
    admission,
    onReport = () => undefined,
  } = options;
  const calls = createRedisCalls({
    factory: redisFactory(
      { url: `redis://127.0.0.1:${redisPort}`, mode: "single", nodes: [] },
      { ...SCRIPTS, ...LIMITER_SCRIPTS },
    ),
    clock: systemClock,
    commandTimeoutMs: 250,
    probeIntervalMs: 200,
    observer: { info: onReport, warn: onReport },
    onOperation: () => undefined,
    onBreaker: () => undefined,
    onOutage: () => undefined,
    onRecovery: () => limiter.check(),
  });
  const limiter = createSharedLimiter({
    origin: "api",
    config: { windows, perDay: new Map(), arrivalMs: 1_000 },
    ask: createRedisLimiter(calls.run, namespace, "api"),
    clock: systemClock,
    process: systemRandom.unique16(),
    replicas,
    degradedReserve: 0.05,
    degradedForMs,
    leaseMs: 1_000,
    timeoutMs: 250,
    ledger: { retentionMs: 60_000, maxRecords: 10_000 },
    ...(admission && { admission: () => admission(calls) }),
    warn: onReport,
  });
  return { limiter, calls };
}
