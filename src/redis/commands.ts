/**
 * Every command to Redis goes through here: behind the breaker, timed, its errors told apart.
 *
 * | what happens                                          | is                                          |
 * |-------------------------------------------------------|---------------------------------------------|
 * | no answer in time, connection refused, lost, not let in | an outage: the breaker opens              |
 * | LOADING, READONLY, MASTERDOWN, CLUSTERDOWN, NOAUTH … | an outage: this server is of no use now      |
 * | OOM, MISCONF, NOREPLICAS                              | this write refused; reads go on              |
 * | anything else, e.g. WRONGTYPE, BUSY                   | this call of no use, and nothing known of others |
 */
import { type Breaker, BreakerOpen, type BreakerState, createBreaker } from "./breaker.ts";
import type { Clock } from "../process/clock.ts";
import { connectRedis, type RedisConnection } from "./connection.ts";
import type { RedisClient, RedisFactory } from "./connect.ts";
import { StoreUnavailable } from "../cache/store/port.ts";

/** What is measured of the commands; a closed set, as it labels a metric. */
export type RedisOperation =
  | "get"
  | "set"
  | "remove"
  | "purge"
  | "purges"
  | "claim"
  | "release"
  | "renew"
  | "tell"
  | "beat"
  // Those of the budget (src/ratelimit/redis-budget.ts).
  | "take"
  | "settle"
  | "look"
  | "join"
  | "ledger";

/** Redis is there, but refused this very command. */
export class RedisRefusal extends Error {
  override readonly name = "RedisRefusal";
}

export interface RedisCallsOptions {
  readonly factory: RedisFactory;
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly probeIntervalMs: number;
  readonly observer: RedisObserver;
  readonly onOperation: (operation: RedisOperation, durationMs: number) => void;
  readonly onBreaker: (state: BreakerState) => void;
  /** Redis cannot be used from now on. */
  readonly onOutage: () => void;
  /** Redis can be used again. */
  readonly onRecovery: () => void;
}

export interface RedisObserver {
  readonly info: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
}

export interface RedisCalls {
  /**
   * Gives a command.
   * Rejects with `StoreUnavailable` while Redis is out of order, and with `RedisRefusal` where it refuses.
   * @param key the key it is about: where it fails, Redis is asked about this key whether it is back
   */
  readonly run: <T>(
    operation: RedisOperation,
    key: string,
    command: (client: RedisClient) => Promise<T>,
  ) => Promise<T>;
  readonly nodes: RedisConnection["nodes"];
  readonly close: () => void;
}

/** Replies that say that a server, or the way to it, is out of order. */
const OUTAGES: ReadonlySet<string> = new Set([
  "LOADING",
  "READONLY",
  "MASTERDOWN",
  "CLUSTERDOWN",
  "NOAUTH",
  "WRONGPASS",
  "NOPERM",
]);

export function createRedisCalls(options: RedisCallsOptions): RedisCalls {
  const { factory, clock, onOperation, onBreaker, onOutage, onRecovery } = options;
  const report = createReport(clock, options.observer);

  const breaker: Breaker = createBreaker({
    clock,
    timeoutMs: options.commandTimeoutMs,
    probeIntervalMs: options.probeIntervalMs,
    probe: async (key) => await (await connection.client()).probe(`${key}:probe`),
    isFault: (error) => !isReply(error) || OUTAGES.has(codeOf(error)),
    onFault({ cause, foundBy }) {
      // What a new connection may mend: a server that has become a replica, one that has gone silent.
      if (foundBy === "probe" || isReply(cause)) connection.renew();
      if (foundBy === "probe") return;
      report.outage(cause);
      onOutage();
    },
    onState(state) {
      onBreaker(state);
      if (state !== "closed") return;
      report.recovery();
      onRecovery();
    },
  });
  const connection = connectRedis({ factory, clock, onReady: () => breaker.signOfLife() });

  return {
    nodes: connection.nodes,
    async run(operation, key, command) {
      // By the finest clock there is: most take less than a millisecond.
      const startedAt = performance.now();
      try {
        return await breaker.run(key, async () => await command(await connection.client()));
      } catch (error) {
        if (error instanceof BreakerOpen) throw new StoreUnavailable(error.message, { cause: error });
        throw report.refusal(operation, error);
      } finally {
        onOperation(operation, performance.now() - startedAt);
      }
    },
    close() {
      breaker.close();
      connection.close();
    },
  };
}

function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === "ReplyError";
}

function codeOf(error: unknown): string {
  return error instanceof Error ? (/^[A-Z]+/.exec(error.message)?.[0] ?? "") : "";
}

interface Report {
  readonly outage: (cause: Error) => void;
  readonly recovery: () => void;
  readonly refusal: (operation: RedisOperation, error: unknown) => RedisRefusal;
}

/** What is written in the log: an outage once each way, a kind of refusal once. */
function createReport(clock: Clock, observer: RedisObserver): Report {
  const refusals = new Set<string>();
  let outSince = 0;
  return {
    outage(cause) {
      outSince = clock.now();
      observer.warn("Redis is out of order; going on without it", { cause: cause.message });
    },
    recovery() {
      observer.info("Redis is back", { outageMs: clock.now() - outSince });
    },
    refusal(operation, error) {
      const message = error instanceof Error ? error.message : String(error);
      const kind = `${operation} ${codeOf(error)}`;
      if (!refusals.has(kind)) {
        refusals.add(kind);
        observer.warn("Redis refused a command; further refusals of this kind are not logged", {
          operation,
          cause: message,
        });
      }
      return new RedisRefusal(message, { cause: error });
    },
  };
}
