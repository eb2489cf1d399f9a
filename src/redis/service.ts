/**
 * Redis as one service for the whole process: a connection for commands behind a breaker, and a connection
 * for messages. The cache, the single flight and the rate limiter each add their own scripts and channels.
 */
import type { BreakerState } from "./breaker.ts";
import type { Clock } from "../process/clock.ts";
import type { StoreOperation } from "../types.ts";
import { createRedisCommands, type RedisObserver, type RunOnRedis } from "./commands.ts";
import { type RedisScripts, type RedisSettings, redisFactory } from "./connect.ts";
import { connectRedis } from "./connection.ts";
import { PROBE } from "./scripts.ts";
import { createRedisSubscriber, type Subscription } from "./subscriber.ts";

export interface RedisServiceOptions {
  /** Read each time a connection is opened. */
  readonly connect: () => RedisSettings;
  readonly clock: Clock;
  /** The prefix of all keys and channels. */
  readonly namespace: string;
  /** A name for this process that no other has. */
  readonly replica: string;
  /** The longest a caller waits for Redis, in milliseconds; 50 by default. */
  readonly commandTimeoutMs?: number;
  /** How often Redis is probed during an outage, and how often a heartbeat is sent; 1000 ms by default. */
  readonly probeIntervalMs?: number;
  readonly observer: RedisObserver;
  readonly onOperation: (operation: StoreOperation, durationMs: number) => void;
  readonly onBreaker: (state: BreakerState) => void;
}

export interface RedisService {
  readonly run: RunOnRedis;
  /** Makes scripts callable as methods of the client. */
  readonly defineScripts: (scripts: RedisScripts) => void;
  readonly subscribe: (subscription: Subscription) => void;
  /** Whether messages arrive, as far as is known. */
  readonly isListening: () => boolean;
  /** Opens all connections anew, with the credentials of now. */
  readonly renew: () => void;
  readonly close: () => void;
}

const COMMAND_TIMEOUT_MS = 50;
const PROBE_INTERVAL_MS = 1_000;

/**
 * @returns at once, whether Redis is up or not
 * @throws when the settings cannot be used: a malformed URL, an unreadable CA file
 */
export function createRedisService(options: RedisServiceOptions): RedisService {
  const { connect, clock, namespace, replica } = options;
  const { commandTimeoutMs = COMMAND_TIMEOUT_MS, probeIntervalMs = PROBE_INTERVAL_MS } = options;
  const scripts: Record<string, RedisScripts[string]> = { ...PROBE };
  const subscriptions: Subscription[] = [];
  const factory = redisFactory(connect, scripts);

  const commands = createRedisCommands({
    ...options,
    connection: () => connection,
    commandTimeoutMs,
    probeIntervalMs,
    onOutage() {
      for (const { onDown } of subscriptions) onDown?.();
    },
    onRecovery() {
      subscriber.check();
      for (const { onRecovery } of subscriptions) onRecovery?.();
    },
  });
  const connection = connectRedis(factory.client, commands.connected);
  const subscriber = createRedisSubscriber({
    factory,
    nodes: connection.nodes,
    clock,
    heartbeatChannel: `${namespace}beat:${replica}`,
    publish: (channel, text) => commands.run("beat", channel, (client) => client.publish(channel, text)),
    commandTimeoutMs,
    heartbeatIntervalMs: probeIntervalMs,
  });

  return {
    run: commands.run,
    defineScripts(more) {
      Object.assign(scripts, more);
      connection.defineScripts(more);
    },
    subscribe(subscription) {
      subscriptions.push(subscription);
      subscriber.subscribe(subscription);
    },
    isListening: subscriber.isUp,
    renew() {
      connection.renew();
      subscriber.renew();
    },
    close() {
      subscriber.close();
      commands.close();
      connection.close();
    },
  };
}
