/**
 * Redis as one service for the whole process: a connection for commands behind a breaker, and a connection for messages. The
 * cache, the single flight and the rate limiter each add their own scripts and channels.
 */
import { readFileSync } from "node:fs";

import type { Clock } from "../process/clock.ts";
import type { CircuitState, StoreOperation } from "../telemetry/events.ts";
import type { CommandTimeout } from "./command-timeout.ts";
import { createRedisCommands, type RedisCommandsOptions, type RunOnRedis } from "./commands.ts";
import { type RedisScripts, type RedisSettings, redisFactory } from "./connect.ts";
import { type Bus, type BusOptions, createBus } from "./bus.ts";
import { createRedisSubscriber } from "./subscriber.ts";

export interface RedisServiceOptions extends BusOptions {
  /** @returns the settings, for each new connection */
  readonly connect: () => RedisSettings;
  readonly clock: Clock;
  /** The timeout of commands. */
  readonly timeout: CommandTimeout;
  /** The interval of probes during an outage, and of checks of the connection for messages, in milliseconds; 1000 by default. */
  readonly probeIntervalMs?: number;
  readonly observer: RedisCommandsOptions["observer"];
  readonly onOperation: (operation: StoreOperation, durationMs: number) => void;
  readonly onBreaker: (state: CircuitState) => void;
}

/** What a part of the gateway does when Redis fails and comes back. */
interface Watcher {
  /** Messages may have been lost. From now on they arrive. */
  readonly onGap?: () => void;
  /** Messages may be lost from now on, or Redis has an outage. */
  readonly onDown?: () => void;
  /** Commands work again after an outage. */
  readonly onRecovery?: () => void;
}

export interface RedisService {
  readonly run: RunOnRedis;
  readonly timeout: CommandTimeout;
  /** Makes scripts callable as methods of the client. */
  readonly defineScripts: (scripts: RedisScripts) => void;
  readonly bus: Bus;
  readonly watch: (watcher: Watcher) => void;
  /** Whether messages arrive, as far as this process knows. */
  readonly isListening: () => boolean;
  /** Replaces all connections, with the current credentials. */
  readonly renew: () => void;
  readonly close: () => void;
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

const PROBE_INTERVAL_MS = 1_000;

/**
 * Creates the service. It does not wait for Redis.
 * @throws if the URL is malformed
 */
export function createRedisService(options: RedisServiceOptions): RedisService {
  const { connect, clock, onOperation, onBreaker, observer } = options;
  const { timeout, probeIntervalMs = PROBE_INTERVAL_MS } = options;
  const scripts: Record<string, RedisScripts[string]> = { ...PROBE };
  const watchers: Watcher[] = [];
  const factory = redisFactory(connect, scripts);
  const tell = (event: keyof Watcher) => () => watchers.forEach((watcher) => watcher[event]?.());

  const commands = createRedisCommands({
    factory,
    clock,
    timeout,
    probeIntervalMs,
    observer,
    onOperation,
    onBreaker,
    onOutage: tell("onDown"),
    onRecovery() {
      subscriber.check();
      tell("onRecovery")();
    },
  });
  const { receive, ...bus } = createBus(options, commands.run);
  const subscriber = createRedisSubscriber({
    factory,
    nodes: commands.nodes,
    clock,
    channel: bus.channel,
    checkIntervalMs: probeIntervalMs,
    onMessage: receive,
    onUp: tell("onGap"),
    onDown: tell("onDown"),
  });

  return {
    run: commands.run,
    timeout,
    defineScripts(more) {
      Object.assign(scripts, more);
      commands.defineScripts(more);
    },
    bus,
    watch: (watcher) => void watchers.push(watcher),
    isListening: subscriber.isUp,
    renew() {
      commands.renew();
      subscriber.renew();
    },
    close() {
      subscriber.close();
      commands.close();
    },
  };
}
