/**
 * Redis as one service for the whole process: a connection for commands behind a circuit breaker, and a connection for messages
 * (subscriber.ts). In an outage, one timeout passes for all callers together, not one for each.
 *
 * | what happens                                              | what it means                               |
 * |-----------------------------------------------------------|---------------------------------------------|
 * | no answer in time; connection refused or lost             | an outage: the breaker opens                |
 * | LOADING, READONLY, CLUSTERDOWN, NOAUTH, WRONGPASS …       | the same: this server cannot be used now    |
 * | OOM, MISCONF, NOREPLICAS                                  | this write is refused; reads still work     |
 * | anything else, e.g. WRONGTYPE, BUSY, NOPERM               | this command fails; others are not affected |
 *
 * The first fault opens the breaker and releases every waiting caller. While it is open, every command is refused at once,
 * and Redis is probed at intervals, so no caller waits for a probe.
 *
 * ioredis reconnects after a lost connection. It cannot notice a frozen server, a half-open socket or a master that became a
 * replica, because the socket stays open. In these cases the client is replaced (test/faults/redis.test.ts).
 */
import { EventEmitter, once } from "node:events";

import { type Clock, every, pause } from "../process/clock.ts";
import { RedisRefusal, StoreUnavailable } from "../errors.ts";
import type { CommandTimeout } from "./command-timeout.ts";
import type { CircuitState, Observer, StoreOperation } from "../telemetry/events.ts";
import {
  createRedisClients,
  type RedisClient,
  type RedisClients,
  type RedisScripts,
  type RedisSettings,
} from "./connect.ts";
import { type Bus, type BusOptions, createBus, type Message } from "./messages.ts";
import { createSubscriber, type RedisEvents } from "./subscriber.ts";

/**
 * Runs a command.
 * Rejects with `StoreUnavailable` during an outage, and with its subclass `RedisRefusal` if Redis refuses the command.
 * @param operation the metric label
 * @param key the key of the command. If the command fails, the server that owns this key is probed.
 */
export type RunOnRedis = <T>(
  operation: StoreOperation,
  key: string,
  command: (client: RedisClient) => Promise<T>,
) => Promise<T>;

export interface RedisServiceOptions extends BusOptions {
  /** @returns the settings, for each new connection */
  readonly connect: () => RedisSettings;
  readonly scripts: RedisScripts;
  readonly clock: Clock;
  /** A command that takes longer is a fault. */
  readonly timeout: CommandTimeout;
  /** The interval of probes during an outage, and of checks of the connection for messages. */
  readonly probeIntervalMs: number;
  readonly observer: Pick<Observer, "outOfOrder" | "backInOrder" | "warn">;
  readonly onOperation: (operation: StoreOperation, durationMs: number) => void;
  readonly onBreaker: (state: CircuitState) => void;
}

/** Error replies that mean an outage of the server or of the Cluster. */
const OUTAGE = /^(?:LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|NOAUTH|WRONGPASS)\b/;

const REDIS = "Redis";
const MEANWHILE =
  "This process uses only its own memory, and spends at most its own part of the budget (unless budget.mode is observe). " +
  "Repair Redis; the gateway recovers by itself. Do not restart the gateway meanwhile.";

/** It starts to connect at once, and does not throw if the server is down. The constructor throws if the URL is malformed. */
export class RedisService extends EventEmitter<RedisEvents> {
  readonly bus: Bus;
  readonly options: RedisServiceOptions;
  readonly #clients: RedisClients;
  readonly #subscriber: ReturnType<typeof createSubscriber>;
  readonly #stopChecking: () => void;
  /** Reject the commands under way. */
  readonly #underWay = new Set<(error: Error) => void>();
  /** The kinds of refusals that were logged. */
  readonly #refusals = new Set<string>();
  #client: RedisClient;
  #state: CircuitState = "closed";
  /** The error for callers while the breaker is open. */
  #outage = new StoreUnavailable("closed");
  /** The key of the command that opened the breaker. */
  #suspect = "";
  #hasProbeFailed = false;
  #cancelProbe = (): void => undefined;

  constructor(options: RedisServiceOptions) {
    super();
    this.options = options;
    this.bus = createBus(options);
    this.#clients = createRedisClients(options.connect, options.scripts);
    this.#client = this.#begin();
    const connect = (attempt: number) => this.#clients.forMessages(this.#client, attempt);
    this.#subscriber = createSubscriber(this.bus, connect, this);
    const { check } = this.#subscriber;
    this.on("recovery", check);
    this.#stopChecking = every(options.clock, options.probeIntervalMs, check);
  }

  #begin(): RedisClient {
    const client = this.#clients.forCommands();
    return client.on("ready", () => {
      // Probe at once, unless a probe has already failed.
      if (client === this.#client && this.#state === "open" && !this.#hasProbeFailed) void this.#probe();
    });
  }

  /** Whether commands work, as far as this process knows. */
  isUp(): boolean {
    return this.#state === "closed";
  }

  /** Whether messages arrive, as far as this process knows. */
  isListening(): boolean {
    return this.#subscriber.isUp();
  }

  /** Replaces all connections, with the current credentials. Commands use the old connection until the new one is ready. */
  readonly renew = async (): Promise<void> => {
    const { clock, probeIntervalMs, timeout } = this.options;
    this.#subscriber.renew();
    const old = this.#client;
    const next = this.#begin();
    const signal = AbortSignal.timeout(probeIntervalMs);
    // If it cannot connect, commands use it all the same, and the outage says why.
    if (this.isUp()) await once(next, "ready", { signal }).catch(() => undefined);
    // It was renewed meanwhile, or this service is closed.
    if (this.#client !== old || old.status === "end") return next.disconnect();
    this.#client = next;
    // Commands under way end on the old connection.
    await pause(clock, timeout.ms());
    old.disconnect();
  };

  #renewClient(): void {
    const old = this.#client;
    this.#client = this.#begin();
    old.disconnect();
  }

  /** Sends a message to the other replicas. Rejects with `StoreUnavailable`. */
  async publish(operation: StoreOperation, message: Message): Promise<void> {
    const { channel } = this.bus;
    await this.run(operation, channel, (client) => client.publish(channel, this.bus.textOf(message)));
  }

  readonly run: RunOnRedis = async (operation, key, command) => {
    // Most commands take less than a millisecond.
    const startedAt = performance.now();
    try {
      if (!this.isUp()) throw this.#outage;
      return await this.#attempt(key, command);
    } catch (error) {
      throw error instanceof StoreUnavailable ? error : this.#refusal(operation, error);
    } finally {
      this.options.onOperation(operation, performance.now() - startedAt);
    }
  };

  /** Settles with the command, or rejects with `StoreUnavailable` when the breaker opens. */
  async #attempt<T>(key: string, command: (client: RedisClient) => Promise<T>): Promise<T> {
    const { clock, timeout } = this.options;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const timeoutMs = timeout.ms();
    const late = (): void => this.#fail(new Error(`no answer within ${timeoutMs} ms`), key);
    // Two timers: if this process was blocked, answers may wait unread in its sockets. Node reads them between the two.
    let cancel = clock.after(timeoutMs / 2, () => {
      cancel = clock.after(timeoutMs / 2, late);
    });
    this.#underWay.add(reject);
    this.#measured(command).then(resolve, (error: unknown) => {
      if (this.#underWay.has(reject) && isFault(error)) this.#fail(error, key);
      reject(error);
    });
    return await promise.finally(() => {
      cancel();
      this.#underWay.delete(reject);
    });
  }

  /** Also measures replies after the timeout, so that the timeout grows when Redis gets slower. */
  async #measured<T>(command: (client: RedisClient) => Promise<T>): Promise<T> {
    const isConnected = this.#client.status === "ready";
    const startedAt = performance.now();
    const reply = await command(this.#client);
    if (isConnected) this.options.timeout.replied(performance.now() - startedAt);
    return reply;
  }

  /** Opens the breaker. */
  #fail(cause: Error, key: string): void {
    const { clock, observer, probeIntervalMs } = this.options;
    this.#hasProbeFailed = this.#state === "half-open";
    this.#outage = new StoreUnavailable(messageOf(cause, this.#clients.lastError()), { cause });
    this.#suspect = key;
    this.#become("open");
    this.#releaseAll();
    this.#cancelProbe = clock.after(probeIntervalMs, () => void this.#probe());
    // A new connection may help: the server has become a replica, or no longer answers.
    if (this.#hasProbeFailed || isReply(cause)) this.#renewClient();
    if (this.#hasProbeFailed) return;
    observer.outOfOrder({ what: REDIS, cause: this.#outage.message, meanwhile: MEANWHILE });
    this.emit("down");
  }

  /** Checks that the server, or on a Cluster the owner of the suspected key, accepts writes. */
  async #probe(): Promise<void> {
    const key = `${this.#suspect}:probe`;
    this.#cancelProbe();
    this.#become("half-open");
    try {
      await this.#attempt(this.#suspect, (client) => client.set(key, "", "PX", 1));
    } catch (error) {
      if (error instanceof StoreUnavailable) return;
      // Another error shows that the server works.
    }
    this.#become("closed");
    this.options.observer.backInOrder(REDIS);
    this.emit("recovery");
  }

  #become(state: CircuitState): void {
    this.#state = state;
    this.options.onBreaker(state);
  }

  #releaseAll(): void {
    for (const reject of this.#underWay) reject(this.#outage);
    this.#underWay.clear();
  }

  /**
   * Logs each kind of refusal once. A server that is full, or cannot save its data, refuses every write for the same reason. That
   * is one kind, whatever the operation.
   */
  #refusal(operation: StoreOperation, error: unknown): RedisRefusal {
    const cause = textOf(error);
    const kind = /^(?:OOM|MISCONF|NOREPLICAS)/.exec(cause)?.[0] ?? `${operation} ${cause.split(" ", 1)[0]}`;
    const message = "Redis refused a command; further refusals of this kind are not logged";
    if (!this.#refusals.has(kind)) this.options.observer.warn(message, { operation, cause });
    this.#refusals.add(kind);
    return new RedisRefusal(cause, { cause: error });
  }

  close(): void {
    this.#stopChecking();
    this.#subscriber.close();
    this.#state = "open";
    this.#cancelProbe();
    this.#outage = new StoreUnavailable("closed");
    this.#releaseAll();
    this.#client.disconnect();
  }
}

function isFault(error: unknown): error is Error {
  return error instanceof Error && (!isReply(error) || OUTAGE.test(error.message));
}

/** @returns whether Redis itself replied with the error */
export const isReply = ({ name }: Error): boolean => name === "ReplyError";

/** @returns the text of an error, without the place in the script that Redis appends */
function textOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/ script: \w+, on \S+$/, "");
}

/** @param lastError why the last connection failed. The messages of ioredis about lost commands do not say it. */
function messageOf(
  error: Error & { lastNodeError?: Error },
  lastError: (Error & { code?: string }) | undefined,
): string {
  if (isReply(error)) return textOf(error);
  // When every address of a host fails, Node's error has a code but no message.
  const why = lastError?.message || lastError?.code;
  const { name, message } = error.lastNodeError ?? error;
  return why ?? (name === "MaxRetriesPerRequestError" ? "Connection is closed." : message);
}
