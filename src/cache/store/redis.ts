/**
 * The shared store: the entries and purges of all replicas, in Redis.
 *
 * Each entry is one value with a compressed body. Redis drops it after its `keepUntil`. The configuration of
 * Redis decides how much it holds and what it evicts. Each replica publishes what it stores or purges to the others.
 */
import type { ClientContext, Result } from "ioredis";

import type { Clock } from "../../process/clock.ts";
import { RedisRefusal } from "../../redis/commands.ts";
import { readScript, type RedisService } from "../../redis/service.ts";
import type { Seal } from "../../process/seal.ts";
import { inOwnMemory } from "../../own-memory.ts";
import { keyIn } from "../../query/key.ts";
import { inStoredCoding } from "../encoder.ts";
import { fromBlob, MAX_BLOB_BYTES, toBlob } from "./codec.ts";
import { type Backend, type BackendEvent, MAX_BODY_BYTES, type Store, StoreUnavailable } from "./port.ts";
import { countEntries } from "./redis-count.ts";
import { eventsChannel, readEvent, type RedisEvent } from "./redis-events.ts";
import { createRedisPurges } from "./redis-purges.ts";

declare module "ioredis" {
  interface RedisCommander<Context extends ClientContext> {
    setEntry(
      key: string,
      blob: Buffer,
      keptForMs: number,
      channel: string,
      message: string,
    ): Result<number, Context>;
  }
}

const SCRIPTS = { setEntry: readScript(new URL("./lua/set-entry.lua", import.meta.url)) };

export interface RedisBackendOptions {
  readonly redis: RedisService;
  /** The prefix of all keys and channels. */
  readonly namespace: string;
  readonly clock: Clock;
  /** The name of this replica, which ignores its own messages. */
  readonly replica: string;
  /** The longest time that any entry is kept, in milliseconds. Purges are kept at least as long. */
  readonly retentionMs: number;
  /** Authenticates entries, because others may write to Redis, too. */
  readonly seal: Seal;
  /** Called for each value that is not an entry of this gateway. */
  readonly onUnreadable: () => void;
}

export interface RedisBackend extends Backend {
  /** Stops reading purges; the Redis service stays open. */
  readonly close: () => void;
}

export function createRedisBackend(options: RedisBackendOptions): RedisBackend {
  const { redis, namespace, clock, replica, retentionMs } = options;
  let listener = (_event: BackendEvent): void => undefined;
  const purges = createRedisPurges({
    redis,
    namespace,
    clock,
    retentionMs,
    onPurges: (news) => listener({ kind: "purged", purges: news }),
  });

  function onMessage(text: string): void {
    const event = readEvent(text);
    if (event?.kind === "purged") {
      purges.learn(event.purges);
      listener(event);
    } else if (event !== undefined && event.from !== replica)
      listener({ kind: "stored", key: event.key, storedAt: event.storedAt });
  }

  function onGap(): void {
    listener({ kind: "gap" });
    purges.readAll();
  }

  redis.defineScripts(SCRIPTS);
  redis.subscribe({
    channels: [eventsChannel(namespace)],
    onMessage: (_channel, text) => onMessage(text),
    onGap,
    onRecovery: purges.readDue,
  });

  return {
    store: createRedisStore(options),
    purge: (scope, hard) => purges.declare(scope, hard).catch(asUnavailable),
    count: (resource) => countEntries(redis, namespace, resource),
    onEvent(listen) {
      listener = listen;
      if (redis.isListening()) onGap();
    },
    close: purges.close,
  };
}

function createRedisStore(options: RedisBackendOptions): Store {
  const { redis, namespace, clock, replica, seal, onUnreadable } = options;
  const stored = (key: string): string => keyIn(namespace, key);

  async function unlink(key: string): Promise<void> {
    await redis.run("remove", stored(key), (client) => client.unlink(stored(key)));
  }

  return {
    tier: "redis",
    stats: () => undefined,
    close: async () => undefined,
    async get(key) {
      const blob = await redis
        .run("get", stored(key), (client) => client.getrangeBuffer(stored(key), 0, MAX_BLOB_BYTES))
        .catch(asMiss);
      if (blob === undefined || blob.length === 0) return undefined;
      const entry = fromBlob(key, inOwnMemory(blob), seal);
      if (entry === undefined) {
        onUnreadable();
        // It is removed, because its `storedAt` could look newer than that of any entry.
        void unlink(key).catch(() => undefined);
      }
      return entry !== undefined && clock.now() < entry.keepUntil ? entry : undefined;
    },
    async set(key, entry) {
      if (entry.bodyBytes > MAX_BODY_BYTES) return "too-large";
      const blob = toBlob(key, await inStoredCoding(entry), seal);
      const keptForMs = Math.max(1, Math.ceil(entry.keepUntil - clock.now()));
      const event: RedisEvent = { kind: "stored", from: replica, key, storedAt: entry.storedAt };
      try {
        const isSet = await redis.run("set", stored(key), (client) =>
          client.setEntry(stored(key), blob, keptForMs, eventsChannel(namespace), JSON.stringify(event)),
        );
        return isSet === 1 ? true : "newer-stored";
      } catch (error) {
        // Refused, for example because Redis is out of memory. Other commands still work.
        if (error instanceof RedisRefusal) return "store-unavailable";
        throw error;
      }
    },
    // Redis removes expired entries itself.
    sweep: async () => undefined,
    remove: (key) => unlink(key).catch(asUnavailable),
  };
}

function asMiss(error: unknown): undefined {
  if (error instanceof RedisRefusal) return undefined;
  throw error;
}

function asUnavailable(error: unknown): never {
  if (error instanceof RedisRefusal) throw new StoreUnavailable(error.message, { cause: error });
  throw error;
}
