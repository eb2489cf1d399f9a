/**
 * Redis as one service for the whole process: a connection for commands behind a breaker, and a connection for messages. The
 * cache, the single flight and the rate limiter each add their own scripts and channels.
 */
import { readFileSync } from "node:fs";

import type { ClientContext, Result } from "ioredis";

import type { BreakerState } from "./breaker.ts";
import type { Clock } from "../process/clock.ts";
import type { StoreOperation } from "../types.ts";
import { createRedisCommands, type RedisObserver, type RunOnRedis } from "./commands.ts";
import { type RedisScripts, type RedisSettings, redisFactory } from "./connect.ts";
import { connectRedis } from "./connection.ts";
import { createRedisSubscriber, type Subscription } from "./subscriber.ts";

export interface RedisServiceOptions {
  /** @returns the settings, for each new connection */
  readonly connect: () => RedisSettings;
  readonly clock: Clock;
  /** The prefix of all keys and channels. */
  readonly namespace: string;
  /** A unique name for this process. */
  readonly replica: string;
  /** The longest wait for a command, in milliseconds; 50 by default. */
  readonly commandTimeoutMs?: number;
  /** The interval of probes during an outage and of heartbeats, in milliseconds; 1000 by default. */
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
  /** Whether messages arrive, as far as this process knows. */
  readonly isListening: () => boolean;
  /** Replaces all connections, with the current credentials. */
  readonly renew: () => void;
  readonly close: () => void;
}

declare module "ioredis" {
  interface RedisCommander<Context extends ClientContext> {
    probe(key: string): Result<number, Context>;
  }
}

/**
 * Reads a Lua script from the folder of the code that calls it. Redis runs a script as one step, so no other command sees an
 * intermediate state. All keys of a script are in one slot of a Cluster.
 * @returns a script with one key
 */
export function readScript(url: URL): RedisScripts[string] {
  return { lua: readFileSync(url, "utf8"), numberOfKeys: 1 };
}

/** The script with which the breaker probes Redis. */
const PROBE: RedisScripts = { probe: readScript(new URL("./lua/probe.lua", import.meta.url)) };

const COMMAND_TIMEOUT_MS = 50;
const PROBE_INTERVAL_MS = 1_000;

/**
 * Creates the service. It does not wait for Redis.
 * @throws if the URL is malformed
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
