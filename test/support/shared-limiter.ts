/** A limiter that shares its limits through a real Redis. */
import { createSeal } from "../../src/process/seal.ts";
import { systemClock } from "../../src/process/clock.ts";
import { systemRandom } from "../../src/process/random.ts";
import { PURSE_SCRIPTS, RedisPurse } from "../../src/ratelimit/limits/redis-script.ts";
import { SharedLimiter } from "../../src/ratelimit/limits/shared-purse.ts";
import { createCommandTimeout } from "../../src/redis/command-timeout.ts";
import { RedisService } from "../../src/redis/redis.ts";
import type { RateWindow } from "../../src/usage/rate-window.ts";

export interface ShareOptions {
  readonly redisPort: number;
  readonly windows: readonly RateWindow[];
  readonly replicas: number;
  readonly degradedForMs?: number;
  readonly namespace?: string;
  readonly perDay?: ReadonlyMap<string, number>;
  /** Time for a command. */
  readonly timeoutMs?: number;
  readonly onReport?: (message: string) => void;
  readonly onBackInOrder?: (what: string) => void;
}

/** Redis' clock is wrong by what this key says. */
export const WRONG_CLOCK = "test:clock";
/** Runs as fast as `rate` says since the instant `since`, and is ahead by `aheadMs`. */
export interface WrongClock {
  readonly rate: number;
  readonly since: number;
  readonly aheadMs: number;
}

const withWrongClock = (lua: string): string => `
local real = redis
local redis = { call = function(name, ...)
  local answer = real.call(name, ...)
  local text = name == 'TIME' and real.call('GET', '${WRONG_CLOCK}')
  if not text then return answer end
  local wrong, ms = cjson.decode(text), answer[1] * 1000 + answer[2] / 1000
  ms = ms + wrong.aheadMs + (ms - wrong.since) * (wrong.rate - 1)
  return { tostring(math.floor(ms / 1000)), tostring(math.floor(ms % 1000) * 1000) }
end }
${lua}`;

export function shareLimits(options: ShareOptions): {
  limiter: SharedLimiter;
  replicas: RedisPurse["slots"];
  calls: RedisService;
} {
  const { degradedForMs = 20_000, timeoutMs = 250, perDay = new Map<string, number>() } = options;
  const { redisPort, windows, replicas, namespace = "test:", onReport = () => undefined } = options;
  const process = systemRandom.unique16();
  const calls = new RedisService({
    namespace,
    cache: namespace,
    replica: process,
    seal: createSeal(() => "the private key"),
    connect: () => ({ url: `redis://127.0.0.1:${redisPort}`, mode: "single", nodes: [] }),
    clock: systemClock,
    timeout: createCommandTimeout(timeoutMs),
    probeIntervalMs: 200,
    observer: { warn: onReport, outOfOrder: () => undefined, backInOrder: () => undefined },
    onOperation: () => undefined,
    onBreaker: () => undefined,
  });
  const { lua } = PURSE_SCRIPTS["sharedPurse"] ?? { lua: "" };
  calls.defineScripts({ sharedPurse: { lua: withWrongClock(lua) } });
  const redis = new RedisPurse(calls.run, namespace, "api");
  const limiter = new SharedLimiter({
    origin: "api",
    config: { windows, perDay, arrivalMs: 1_000 },
    redis,
    clock: systemClock,
    process,
    replicas,
    degradedReserve: 0.1,
    degradedForMs,
    timeoutMs: () => timeoutMs,
    mostTimeoutMs: timeoutMs,
    ledger: { retentionMs: 60_000, maxRecords: 10_000 },
    warn: onReport,
    outOfOrder: ({ what }) => onReport(`${what} is out of order`),
    backInOrder: options.onBackInOrder ?? (() => undefined),
    dataLost: () => undefined,
  });
  calls.on("recovery", limiter.check);
  return { limiter, replicas: redis.slots, calls };
}
