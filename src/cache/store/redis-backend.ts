/**
 * The shared store: entries, purges and flights of all replicas, in Redis.
 *
 * Two connections: one for commands, behind a breaker, and one that listens. What one replica tells the
 * others goes by ordinary PUBLISH, which is alike on a single server, on a Cluster and behind Sentinel.
 * PUBLISH promises nothing, so it is not relied on: after every interruption the listeners are told that
 * they may have missed something, and purges are read again now and then in any case.
 */
import type { BreakerState } from "../../redis/breaker.ts";
import type { Clock } from "../../process/clock.ts";
import type { Random } from "../../process/random.ts";
import { redisFactory, type RedisScripts, type RedisSettings } from "../../redis/connect.ts";
import type { Backend, BackendEvent } from "./backend.ts";
import {
  createRedisCalls,
  type RedisCalls,
  type RedisObserver,
  type RedisOperation,
} from "../../redis/commands.ts";
import { createRedisClaims, type RedisClaims } from "../../singleflight/redis-claims.ts";
import { createRedisListener } from "../../redis/listener.ts";
import { CHANNEL, readMessage } from "./redis-messages.ts";
import { createRedisPurges, type RedisPurges } from "./redis-purges.ts";
import { SCRIPTS } from "../../redis/scripts.ts";
import { asUnavailable, createRedisStore } from "./redis.ts";

export interface RedisBackendOptions {
  readonly connect: RedisSettings;
  readonly clock: Clock;
  /** For the name of this replica and its claims. */
  readonly random: Pick<Random, "unique16">;
  /** The longest a caller waits for Redis, in milliseconds; 50 by default. */
  readonly commandTimeoutMs?: number;
  /** How often Redis is asked whether it is back, in milliseconds; 1000 by default. */
  readonly probeIntervalMs?: number;
  /** The longest time that any entry is kept, in milliseconds: purges are remembered for it. */
  readonly retentionMs: number;
  readonly observer: RedisObserver;
  readonly onOperation: (operation: RedisOperation, durationMs: number) => void;
  readonly onBreaker: (state: BreakerState) => void;
  /** Others who share the connections. */
  readonly guest?: Guest;
}

/** Who shares the connections: the budget, which is none of the cache's business. */
interface Guest {
  readonly scripts: RedisScripts;
  readonly channels: readonly string[];
  readonly onMessage: (channel: string, text: string) => void;
  /** Messages may have been missed, or Redis may be there again. */
  readonly onGap: () => void;
}

const NOBODY: Guest = { scripts: {}, channels: [], onMessage: () => undefined, onGap: () => undefined };

export interface RedisBackend extends Backend {
  /** Gives Redis a command, behind the same breaker. */
  readonly run: RedisCalls["run"];
}

const COMMAND_TIMEOUT_MS = 50;
const PROBE_INTERVAL_MS = 1_000;

/**
 * @returns at once, whether Redis is up or not
 * @throws where the settings cannot be used at all: a malformed URL, a CA file that cannot be read
 */
export function createRedisBackend(options: RedisBackendOptions): RedisBackend {
  const { connect, clock, random, retentionMs, guest = NOBODY } = options;
  const { commandTimeoutMs = COMMAND_TIMEOUT_MS, probeIntervalMs = PROBE_INTERVAL_MS } = options;
  const factory = redisFactory(connect, { ...SCRIPTS, ...guest.scripts });
  const replica = random.unique16();
  let tell = (_event: BackendEvent): void => undefined;

  const calls = createRedisCalls({
    ...options,
    factory,
    commandTimeoutMs,
    probeIntervalMs,
    onOutage: () => claims.vacateAll(),
    onRecovery: both(() => listener.check(), guest.onGap),
  });
  const purges = createRedisPurges(calls, retentionMs);
  const listener = createRedisListener({
    factory,
    calls,
    clock,
    replica,
    commandTimeoutMs,
    intervalMs: probeIntervalMs,
    channels: guest.channels,
    onMessage: (channel, text) =>
      channel === CHANNEL
        ? dispatch(text, { replica, purges, claims, tell })
        : guest.onMessage(channel, text),
    onGap: both(() => tell({ kind: "gap" }), guest.onGap),
    onDown: () => claims.vacateAll(),
    async readPurges(which) {
      const { all, news } = await purges.read();
      const toTell = which === "all" ? all : news;
      if (toTell.length > 0) tell({ kind: "purged", purges: toTell });
    },
  });
  const claims = createRedisClaims({
    calls,
    clock,
    replica,
    newHolder: random.unique16,
    isListening: listener.isUp,
  });

  async function close(): Promise<void> {
    for (const part of [claims, listener, calls]) part.close();
  }

  return {
    store: createRedisStore({ calls, clock, replica, close }),
    claims,
    run: calls.run,
    close,
    purge: (scope, hard) => purges.declare(scope, hard).catch(asUnavailable),
    onEvent(listen) {
      tell = listen;
      listener.replay();
    },
  };
}

function both(one: () => void, other: () => void): () => void {
  return () => {
    one();
    other();
  };
}

interface Addressees {
  readonly replica: string;
  readonly purges: RedisPurges;
  readonly claims: RedisClaims;
  readonly tell: (event: BackendEvent) => void;
}

function dispatch(text: string, { replica, purges, claims, tell }: Addressees): void {
  const message = readMessage(text);
  switch (message?.kind) {
    case undefined:
      return;
    case "stored": {
      const { from, key, storedAt } = message;
      if (from !== replica) tell({ kind: "stored", key, storedAt });
      return;
    }
    case "purged":
      purges.heard(message.purges);
      tell({ kind: "purged", purges: message.purges });
      return;
    case "ended": {
      const { key, end } = message;
      claims.onEnded(message);
      if (end.kind === "failed") tell({ kind: "failed", key, problem: end.problem });
      return;
    }
    case "waiting":
      claims.onWaiting(message);
  }
}
