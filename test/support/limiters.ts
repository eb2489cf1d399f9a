/**
 * Limiters on a fake clock, shared by as many replicas as a test wants, and a record of the calls that they let go. Without
 * Redis, all replicas have one limiter, and a call counts from its permit.
 */
import { type Clock, pause } from "../../src/process/clock.ts";
import type { Limiter, LimiterConfig, Permit, PermitRequest } from "../../src/ratelimit/limiter.ts";
import { SingleProcessLimiter } from "../../src/ratelimit/limits/single-process-limiter.ts";
import { RedisPurse } from "../../src/ratelimit/limits/redis-script.ts";
import { SharedLimiter } from "../../src/ratelimit/limits/shared-purse.ts";
import type { SendEnd } from "../../src/ratelimit/call-facts.ts";
import { createCommandTimeout } from "../../src/redis/command-timeout.ts";
import type { RunOnRedis } from "../../src/redis/redis.ts";
import type { RateWindow } from "../../src/usage/rate-window.ts";
import type { createStageData } from "./redis-stage.ts";
import { SILENT } from "./silent-observer.ts";

export const REQUEST: PermitRequest = {
  app: "app",
  priority: "interactive",
  resource: "listings",
  cause: "miss",
  query: "q",
};

export type Limiters = ReturnType<typeof createFakeLimiters>;

interface LimitersOptions {
  readonly windows: readonly Omit<RateWindow, "name">[];
  readonly perDay?: ReadonlyMap<string, number>;
  readonly clock: Clock;
}

export function createFakeLimiters({ windows, perDay, clock }: LimitersOptions) {
  const limiter: Limiter = new SingleProcessLimiter({
    origin: "api",
    config: configOf(windows, 0, perDay),
    ledger: { recent: () => [], enter: () => undefined, complete: () => undefined },
    clock,
    process: "p1",
  });
  const listeners: (() => void)[] = [];
  limiter.onChange(() => listeners.forEach((listener) => listener()));
  const { recorded, ...record } = createRecord(clock);
  const shared: Limiter = {
    ...limiter,
    complete: () => undefined,
    onChange: (listener) => void listeners.push(listener),
    configure: () => undefined,
    close: async () => undefined,
  };
  return { ...record, join: () => recorded(shared) };
}

/** The time that a message takes to or from a Redis that is near. */
const TO_REDIS_MS = 1;

/** Limiters that share a budget by the real script in a real Redis. */
export function createPurseLimiters(
  { windows, clock }: LimitersOptions,
  replicas: number,
  data: ReturnType<typeof createStageData>,
): Limiters {
  const { recorded, ...record } = createRecord(clock);
  let joined = 0;
  function join(): Limiter {
    const timeout = createCommandTimeout(null);
    const sent = async <T>(command: () => Promise<T>): Promise<T> => {
      await pause(clock, TO_REDIS_MS);
      const reply = await command();
      await pause(clock, TO_REDIS_MS);
      timeout.replied(2 * TO_REDIS_MS);
      return reply;
    };
    const client = {
      sharedPurse: (count: number, ...words: string[]) =>
        sent(() => data.run(words.slice(0, count), words[count] ?? "", clock.now())),
      xrange: (...range: Parameters<typeof data.xrange>) => sent(() => data.xrange(...range)),
    };
    // The limiter uses no other command.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const run: RunOnRedis = (_, __, command) => command(client as never);
    const limiter = new SharedLimiter({
      origin: "api",
      config: configOf(windows, 20_000),
      redis: new RedisPurse(run, data.namespace, "api"),
      clock,
      process: `p${++joined}`,
      replicas,
      degradedReserve: 0.1,
      degradedForMs: 1_800_000,
      timeout,
      ledger: { retentionMs: 90_000_000, maxRecords: 1_000_000 },
      ...SILENT,
      dataLost: () => undefined,
    });
    return recorded(limiter);
  }
  return { ...record, join };
}

const configOf = (
  windows: LimitersOptions["windows"],
  arrivalMs: number,
  perDay: ReadonlyMap<string, number> = new Map(),
): LimiterConfig => ({
  windows: windows.map((window) => ({ ...window, name: `${window.windowMs}ms` })),
  perDay,
  arrivalMs,
});

function createRecord(clock: Clock) {
  /** The calls that got a permit, in order. */
  const sends: { id: string; at: number; request: PermitRequest }[] = [];
  const completed: SendEnd[] = [];
  const recorded = (limiter: Limiter): Limiter => {
    return {
      ...limiter,
      async acquire(request) {
        const acquired = await limiter.acquire(request);
        const at = clock.monotonic();
        if (acquired.kind === "permit") sends.push({ id: acquired.permit.id, at, request });
        return acquired;
      },
      complete(permit: Permit, end) {
        completed.push(end);
        limiter.complete(permit, end);
      },
      release(permit) {
        const index = sends.findIndex(({ id }) => id === permit.id);
        sends.splice(index, 1);
        limiter.release(permit);
      },
    };
  };
  return { sends, completed, recorded };
}
