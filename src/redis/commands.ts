/**
 * Runs every command to Redis, behind a circuit breaker: in an outage, one timeout passes for all callers together, not one
 * for each.
 *
 * | what happens                                            | what it means                                   |
 * |---------------------------------------------------------|-------------------------------------------------|
 * | no answer in time, connection refused, lost, login failed | an outage: the breaker opens                  |
 * | LOADING, READONLY, MASTERDOWN, CLUSTERDOWN, NOAUTH …    | an outage: this server cannot be used now       |
 * | OOM, MISCONF, NOREPLICAS                                | this write is refused; reads still work         |
 * | anything else, e.g. WRONGTYPE, BUSY                     | this command fails; others are not affected     |
 *
 * The first fault opens the breaker and releases every waiting caller. While it is open, every command is refused at once,
 * and Redis is probed at intervals, so no caller waits for a probe.
 *
 * ioredis reconnects after a lost connection. It cannot notice a frozen server, a half-open socket or a master that became a
 * replica, because the socket stays open. In these cases the client is replaced (test/faults/redis.test.ts).
 */
import type { ClientContext, Result } from "ioredis";

import type { Clock } from "../process/clock.ts";
import { StoreUnavailable } from "../errors.ts";
import type { CommandTimeout } from "./command-timeout.ts";
import type { CircuitState, Observer, StoreOperation } from "../telemetry/events.ts";
import {
  knownNodes,
  type RedisAddress,
  type RedisClient,
  type RedisFactory,
  type RedisScripts,
} from "./connect.ts";

/** Redis is reachable, but refused this command. */
export class RedisRefusal extends Error {
  override readonly name = "RedisRefusal";
}

/**
 * Runs a command.
 * Rejects with `StoreUnavailable` during an outage, and with `RedisRefusal` if Redis refuses the command.
 * @param operation the metric label
 * @param key the key of the command. If the command fails, the server that owns this key is probed.
 */
export type RunOnRedis = <T>(
  operation: StoreOperation,
  key: string,
  command: (client: RedisClient) => Promise<T>,
) => Promise<T>;

export interface RedisCommandsOptions {
  readonly factory: Pick<RedisFactory, "client" | "lastError">;
  readonly clock: Clock;
  /** A command that takes longer is a fault. */
  readonly timeout: CommandTimeout;
  readonly probeIntervalMs: number;
  readonly observer: Pick<Observer, "outOfOrder" | "backInOrder" | "warn">;
  readonly onOperation: (operation: StoreOperation, durationMs: number) => void;
  readonly onBreaker: (state: CircuitState) => void;
  /** Redis cannot be used from now on. */
  readonly onOutage: () => void;
  /** Redis can be used again. */
  readonly onRecovery: () => void;
}

export interface RedisCommands {
  readonly run: RunOnRedis;
  /** Adds scripts to the current client. */
  readonly defineScripts: (scripts: RedisScripts) => void;
  /** The known nodes of a Cluster. */
  readonly nodes: () => readonly RedisAddress[];
  /** Replaces the client with a new one, in any state. */
  readonly renew: () => void;
  readonly close: () => void;
}

declare module "ioredis" {
  interface RedisCommander<Context extends ClientContext> {
    probe(key: string): Result<number, Context>;
  }
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

const REDIS = "Redis";
const MEANWHILE =
  "This replica serves callers from its memory. It makes calls to the API only within its own part of the budget, and " +
  "refuses all others. Replicas do not share calls.";

/** Starts to connect. Does not throw if the server is down. */
export function createRedisCommands(options: RedisCommandsOptions): RedisCommands {
  const { factory, observer, timeout } = options;
  const refusal = createRefusal(observer);
  const breaker = createBreaker(options, {
    probe: async (key) => await measured((client) => client.probe(`${key}:probe`)),
    describe: (cause) => messageOf(cause, factory.lastError()),
    // A new connection may help: the server has become a replica, or no longer answers.
    mayBeStuck: renew,
  });
  let client = begin();

  function begin(): RedisClient {
    const next = factory.client();
    next.on("ready", () => {
      if (next === client) breaker.connected();
    });
    return next;
  }

  /** Also measures replies after the timeout, so that the timeout grows when Redis gets slower. */
  async function measured<T>(command: (client: RedisClient) => Promise<T>): Promise<T> {
    const isConnected = client.status === "ready";
    const startedAt = performance.now();
    const reply = await command(client);
    if (isConnected) timeout.replied(performance.now() - startedAt);
    return reply;
  }

  function renew(): void {
    const old = client;
    client = begin();
    old.disconnect();
  }

  return {
    renew,
    nodes: () => knownNodes(client),
    defineScripts(scripts) {
      for (const [name, definition] of Object.entries(scripts)) client.defineCommand(name, definition);
    },
    async run(operation, key, command) {
      // Most commands take less than a millisecond.
      const startedAt = performance.now();
      try {
        return await breaker.run(key, () => measured(command));
      } catch (error) {
        throw error instanceof Outage
          ? new StoreUnavailable(error.message, { cause: error })
          : refusal(operation, error);
      } finally {
        options.onOperation(operation, performance.now() - startedAt);
      }
    },
    close() {
      breaker.close();
      client.disconnect();
    },
  };
}

interface Breaker {
  /** Rejects with the error of the command, or with an `Outage`. */
  readonly run: <T>(key: string, command: () => Promise<T>) => Promise<T>;
  /** Probes at once, unless a probe has already failed. */
  readonly connected: () => void;
  readonly close: () => void;
}

interface BreakerParts {
  readonly probe: (key: string) => Promise<unknown>;
  readonly describe: (cause: Error) => string;
  readonly mayBeStuck: () => void;
}

function createBreaker(
  { clock, timeout, probeIntervalMs, observer, ...on }: RedisCommandsOptions,
  { probe, describe, mayBeStuck }: BreakerParts,
): Breaker {
  const underWay = createUnderWay({ clock, timeout, onFault: fail });
  let state: CircuitState | "closed for good" = "closed";
  /** The error for callers while it is open. */
  let outage = new Outage("closed");
  /** The key of the command that opened it. */
  let suspect = "";
  let hasProbeFailed = false;
  let cancelProbe = (): void => undefined;

  function become(next: CircuitState): void {
    state = next;
    on.onBreaker(next);
  }

  function fail(cause: Error, key: string): void {
    hasProbeFailed = state === "half-open";
    outage = new Outage(describe(cause), { cause });
    suspect = key;
    become("open");
    underWay.releaseAll(outage);
    cancelProbe = clock.after(probeIntervalMs, () => void probeNow());
    if (hasProbeFailed || isReply(cause)) mayBeStuck();
    if (hasProbeFailed) return;
    observer.outOfOrder({ what: REDIS, cause: outage.message, meanwhile: MEANWHILE });
    on.onOutage();
  }

  async function probeNow(): Promise<void> {
    cancelProbe();
    become("half-open");
    try {
      await underWay.run(suspect, () => probe(suspect));
    } catch (error) {
      if (error instanceof Outage) return;
      // Another error shows that the server works.
    }
    become("closed");
    observer.backInOrder(REDIS);
    on.onRecovery();
  }

  return {
    run: (key, command) => (state === "closed" ? underWay.run(key, command) : Promise.reject(outage)),
    connected() {
      if (state === "open" && !hasProbeFailed) void probeNow();
    },
    close() {
      state = "closed for good";
      cancelProbe();
      outage = new Outage("closed");
      underWay.releaseAll(outage);
    },
  };
}

interface UnderWay {
  /** Settles with the command, or when it is released. */
  readonly run: <T>(key: string, command: () => Promise<T>) => Promise<T>;
  readonly releaseAll: (error: Error) => void;
}

/** The commands under way, each with its timeout. */
function createUnderWay({
  clock,
  timeout,
  onFault,
}: {
  readonly clock: Clock;
  readonly timeout: CommandTimeout;
  /** Called for a command that is not released. */
  readonly onFault: (cause: Error, key: string) => void;
}): UnderWay {
  const rejections = new Set<(error: Error) => void>();
  return {
    async run<T>(key: string, command: () => Promise<T>) {
      const { promise, resolve, reject } = Promise.withResolvers<T>();
      rejections.add(reject);
      const timeoutMs = timeout.ms();
      // In two parts: if this process was blocked, answers may wait unread in its sockets. They are read between the two.
      let cancel = clock.after(timeoutMs / 2, () => {
        cancel = clock.after(timeoutMs / 2, () =>
          onFault(new Error(`no answer within ${timeoutMs} ms`), key),
        );
      });
      command().then(resolve, (error: unknown) => {
        if (rejections.has(reject) && isFault(error)) onFault(error, key);
        reject(error);
      });
      return await promise.finally(() => {
        cancel();
        rejections.delete(reject);
      });
    },
    releaseAll(error) {
      for (const reject of rejections) reject(error);
      rejections.clear();
    },
  };
}

/** Redis does not work, so the command was refused or ended early. */
class Outage extends Error {
  override readonly name = "Outage";
}

function isFault(error: unknown): error is Error {
  return error instanceof Error && (!isReply(error) || OUTAGES.has(codeOf(error)));
}

/** @returns whether it is an error that Redis itself replied */
export function isReply({ name }: Error): boolean {
  return name === "ReplyError";
}

function codeOf({ message }: Error): string {
  return /^[A-Z]+/.exec(message)?.[0] ?? "";
}

/** ioredis identifies this error only by its text. */
const CONNECTION_CLOSED = "Connection is closed.";

/** @param lastError why the last connection failed. The messages of ioredis about lost commands do not say it. */
function messageOf(
  error: Error & { lastNodeError?: Error },
  lastError: (Error & { code?: string }) | undefined,
): string {
  const { name, message } = error.lastNodeError ?? error;
  // When every address of a host fails, Node's error has a code but no message.
  const why = lastError?.message || lastError?.code;
  if (name === "MaxRetriesPerRequestError" || message === CONNECTION_CLOSED)
    return why ?? "the connection was closed";
  return why === undefined || why === message || isReply(error) ? message : `${message}: ${why}`;
}

/** Logs each kind of refusal once. */
function createRefusal(
  observer: RedisCommandsOptions["observer"],
): (operation: StoreOperation, error: unknown) => RedisRefusal {
  const known = new Set<string>();
  return (operation, error) => {
    const cause = error instanceof Error ? error : new Error(String(error));
    const kind = `${operation} ${codeOf(cause)}`;
    if (!known.has(kind)) {
      known.add(kind);
      observer.warn("Redis refused a command; further refusals of this kind are not logged", {
        operation,
        cause: cause.message,
      });
    }
    return new RedisRefusal(cause.message, { cause });
  };
}
