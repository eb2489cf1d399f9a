/**
 * Runs every command to Redis: behind the breaker, with its duration measured and its errors classified.
 *
 * | what happens                                            | what it means                                   |
 * |---------------------------------------------------------|-------------------------------------------------|
 * | no answer in time, connection refused, lost, login failed | an outage: the breaker opens                  |
 * | LOADING, READONLY, MASTERDOWN, CLUSTERDOWN, NOAUTH …    | an outage: this server cannot be used now       |
 * | OOM, MISCONF, NOREPLICAS                                | this write is refused; reads still work         |
 * | anything else, e.g. WRONGTYPE, BUSY                     | this command fails; others are not affected     |
 */
import type { Clock } from "../process/clock.ts";
import { StoreUnavailable } from "../errors.ts";
import type { Observer, StoreOperation } from "../types.ts";
import { type Breaker, BreakerOpen, type BreakerState, createBreaker } from "./breaker.ts";
import type { RedisClient } from "./connect.ts";
import { connectionError, type RedisConnection } from "./connection.ts";

/** Redis is reachable, but refused this command. */
export class RedisRefusal extends Error {
  override readonly name = "RedisRefusal";
}

/**
 * Runs a command.
 * Rejects with `StoreUnavailable` during an outage, and with `RedisRefusal` if Redis refuses the command.
 * @param operation the metric label
 * @param key the key of the command. If the command fails, the breaker probes the server that owns this key.
 */
export type RunOnRedis = <T>(
  operation: StoreOperation,
  key: string,
  command: (client: RedisClient) => Promise<T>,
) => Promise<T>;

export type RedisObserver = Pick<Observer, "outOfOrder" | "backInOrder" | "warn">;

export interface RedisCommandsOptions {
  readonly connection: () => Pick<RedisConnection, "client" | "renew">;
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly probeIntervalMs: number;
  readonly observer: RedisObserver;
  readonly onOperation: (operation: StoreOperation, durationMs: number) => void;
  readonly onBreaker: (state: BreakerState) => void;
  /** Redis cannot be used from now on. */
  readonly onOutage: () => void;
  /** Redis can be used again. */
  readonly onRecovery: () => void;
}

export interface RedisCommands {
  readonly run: RunOnRedis;
  /** Call it when the connection is ready. The breaker then probes Redis immediately. */
  readonly connected: () => void;
  readonly close: () => void;
}

/** Error replies that mean an outage of the server or of the Cluster. */
const OUTAGES: ReadonlySet<string> = new Set([
  "LOADING",
  "READONLY",
  "MASTERDOWN",
  "CLUSTERDOWN",
  "NOAUTH",
  "WRONGPASS",
  "NOPERM",
]);

export function createRedisCommands(options: RedisCommandsOptions): RedisCommands {
  const { connection, clock, onOperation, onBreaker, onOutage, onRecovery } = options;
  const report = createReport(options.observer);

  const breaker: Breaker = createBreaker({
    clock,
    timeoutMs: options.commandTimeoutMs,
    probeIntervalMs: options.probeIntervalMs,
    probe: async (key) => await (await connection().client()).probe(`${key}:probe`),
    isFault: (error) => !isReply(error) || OUTAGES.has(codeOf(error)),
    onFault({ cause, foundBy }) {
      // A new connection may help: the server has become a replica, or no longer answers.
      if (foundBy === "probe" || isReply(cause)) connection().renew();
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

  return {
    connected: () => breaker.signOfLife(),
    async run(operation, key, command) {
      // Most commands take less than a millisecond.
      const startedAt = performance.now();
      try {
        return await breaker.run(key, async () => await command(await connection().client()));
      } catch (error) {
        if (error instanceof BreakerOpen) throw new StoreUnavailable(error.message, { cause: error });
        throw report.refusal(operation, error);
      } finally {
        onOperation(operation, performance.now() - startedAt);
      }
    },
    close: breaker.close,
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
  readonly refusal: (operation: StoreOperation, error: unknown) => RedisRefusal;
}

const REDIS = "Redis";
const MEANWHILE =
  "This replica serves callers from its memory. It makes calls to the API only within its escrow of the budget, and " +
  "refuses all others. Replicas do not share calls.";

/** Logs an outage once when it begins and once when it ends, and each kind of refusal once. */
function createReport(observer: RedisObserver): Report {
  const refusals = new Set<string>();
  return {
    outage(cause) {
      // ioredis reports a lost connection with this error, whose message would not help operators.
      const { message } = cause.name === "MaxRetriesPerRequestError" ? connectionError(undefined) : cause;
      observer.outOfOrder({ what: REDIS, cause: message, meanwhile: MEANWHILE });
    },
    recovery: () => observer.backInOrder(REDIS),
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
