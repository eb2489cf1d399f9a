/** A limiter that shares its limits through a real Redis. */
import { systemClock } from "../../src/process/clock.ts";
import { systemRandom } from "../../src/process/random.ts";
import type { RateWindow } from "../../src/usage/rate-window.ts";
import { createRedisLimiter, LIMITER_SCRIPTS } from "../../src/ratelimit/redis-limiter.ts";
import { createSharedLimiter, type SharedLimiter } from "../../src/ratelimit/shared-limiter.ts";
import type { SharedLimiterOptions } from "../../src/ratelimit/shared-replica.ts";
import { createRedisService, type RedisService } from "../../src/redis/service.ts";

export interface ShareOptions {
  readonly redisPort: number;
  readonly windows: readonly RateWindow[];
  readonly replicas: number;
  readonly degradedForMs?: number;
  readonly namespace?: string;
  readonly admission?: (calls: RedisService) => ReturnType<NonNullable<SharedLimiterOptions["admission"]>>;
  readonly address?: string;
  /** Time for a command. */
  readonly timeoutMs?: number;
  readonly onReport?: (message: string) => void;
  readonly onBackInOrder?: (what: string) => void;
}

export function shareLimits(options: ShareOptions): { limiter: SharedLimiter; calls: RedisService } {
  const { degradedForMs = 20_000, timeoutMs = 250 } = options;
  const {
    redisPort,
    windows,
    replicas,
    namespace = "test:",
    admission,
    onReport = () => undefined,
  } = options;
  const process = systemRandom.unique16();
  const calls = createRedisService({
    connect: () => ({ url: `redis://127.0.0.1:${redisPort}`, mode: "single", nodes: [] }),
    clock: systemClock,
    commandTimeoutMs: timeoutMs,
    probeIntervalMs: 200,
    observer: { warn: onReport, outOfOrder: () => undefined, backInOrder: () => undefined },
    onOperation: () => undefined,
    onBreaker: () => undefined,
  });
  calls.defineScripts(LIMITER_SCRIPTS);
  const limiter = createSharedLimiter({
    origin: "api",
    config: { windows, perDay: new Map(), arrivalMs: 1_000 },
    ask: createRedisLimiter(calls.run, namespace, "api"),
    clock: systemClock,
    process,
    address: () => options.address,
    replicas,
    degradedReserve: 0.05,
    degradedForMs,
    leaseMs: 1_000,
    timeoutMs,
    ledger: { retentionMs: 60_000, maxRecords: 10_000 },
    ...(admission && { admission: () => admission(calls) }),
    warn: onReport,
    outOfOrder: ({ what }) => onReport(`${what} is out of order`),
    backInOrder: options.onBackInOrder ?? (() => undefined),
  });
  calls.subscribe({ channels: [], onMessage: () => undefined, onRecovery: limiter.check });
  return { limiter, calls };
}
