/**
 * Redis as one service for the whole process: a connection for commands behind a breaker, and a connection for messages. The
 * cache, the single flight and the rate limiter each add their own scripts and listeners.
 */
import { readFileSync } from "node:fs";

import type { CommandTimeout } from "./command-timeout.ts";
import { RedisCommands, type RedisCommandsOptions, type RunOnRedis } from "./commands.ts";
import { knownNodes, RedisFactory, type RedisScripts, type RedisSettings } from "./connect.ts";
import { Bus, type BusOptions } from "./messages.ts";
import { RedisSubscriber } from "./subscriber.ts";

export interface RedisServiceOptions
  extends BusOptions, Omit<RedisCommandsOptions, "factory" | "probeIntervalMs" | "onOutage" | "onRecovery"> {
  /** @returns the settings, for each new connection */
  readonly connect: () => RedisSettings;
  /** The interval of probes during an outage, and of checks of the connection for messages, in milliseconds; 1000 by default. */
  readonly probeIntervalMs?: number;
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

/** It does not wait for Redis. The constructor throws if the URL is malformed. */
export class RedisService {
  readonly run: RunOnRedis;
  readonly timeout: CommandTimeout;
  readonly bus: Bus;
  readonly #scripts: Record<string, RedisScripts[string]> = { ...PROBE };
  readonly #watchers: Watcher[] = [];
  readonly #commands: RedisCommands;
  readonly #subscriber: RedisSubscriber;

  constructor(options: RedisServiceOptions) {
    const { clock, connect, timeout, probeIntervalMs = PROBE_INTERVAL_MS } = options;
    const factory = new RedisFactory(connect, this.#scripts);
    const onDown = (): void => this.#tell("onDown");
    const onRecovery = (): void => {
      this.#subscriber.check();
      this.#tell("onRecovery");
    };
    const commands = new RedisCommands({
      ...options,
      factory,
      probeIntervalMs,
      onOutage: onDown,
      onRecovery,
    });
    const bus = new Bus(options, commands.run);
    this.#commands = commands;
    this.run = commands.run;
    this.timeout = timeout;
    this.bus = bus;
    this.#subscriber = new RedisSubscriber({
      factory,
      nodes: () => knownNodes(commands.client),
      clock,
      channel: bus.channel,
      checkIntervalMs: probeIntervalMs,
      onMessage: (text) => bus.receive(text),
      onUp: () => this.#tell("onGap"),
      onDown,
    });
  }

  #tell(event: keyof Watcher): void {
    for (const watcher of this.#watchers) watcher[event]?.();
  }

  /** Makes scripts callable as methods of the client. */
  defineScripts(scripts: RedisScripts): void {
    Object.assign(this.#scripts, scripts);
    this.#commands.defineScripts(scripts);
  }

  watch(watcher: Watcher): void {
    this.#watchers.push(watcher);
  }

  /** Whether commands work, as far as this process knows. */
  isUp(): boolean {
    return this.#commands.isUp;
  }

  /** Whether messages arrive, as far as this process knows. */
  isListening(): boolean {
    return this.#subscriber.isUp;
  }

  /** Replaces all connections, with the current credentials. */
  readonly renew = (): void => {
    this.#commands.renew();
    this.#subscriber.renew();
  };

  close(): void {
    this.#subscriber.close();
    this.#commands.close();
  }
}
