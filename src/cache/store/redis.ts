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
import { inOwnMemory } from "../../process/buffer-memory.ts";
import { keyIn } from "../../query/key.ts";
import { inStoredCoding } from "../encoder.ts";
import { fromBlob, MAX_BLOB_BYTES, toBlob } from "./codec.ts";
import { MAX_BODY_BYTES, type Store, type StoreEvent, StoreUnavailable } from "./port.ts";
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

export interface RedisStoreOptions {
  readonly redis: RedisService;
  /** The prefix of all keys. */
  readonly namespace: string;
  readonly clock: Clock;
  /** The longest time that any entry is kept, in milliseconds. Purges are kept at least as long. */
  readonly retentionMs: number;
  /** Authenticates entries, because others may write to Redis, too. */
  readonly seal: Seal;
  /** Called for each value that is not an entry of this gateway. */
  readonly onUnreadable: () => void;
}

export interface RedisStore extends Store {
  /** Stops reading purges; the Redis service stays open. */
  readonly close: () => void;
}

export function createRedisStore(options: RedisStoreOptions): RedisStore {
  const { redis, namespace, clock, retentionMs } = options;
  let listener = (_event: StoreEvent): void => undefined;
  const purges = createRedisPurges({
    redis,
    namespace,
    clock,
    retentionMs,
    announce: () => redis.bus.publish("purge", { kind: "purged" }),
    onPurges: (news) => listener({ kind: "purged", purges: news }),
  });

  function onGap(): void {
    listener({ kind: "gap" });
    purges.readAll();
  }

  redis.defineScripts(SCRIPTS);
  redis.bus.on("stored", (stored) => listener(stored));
  redis.bus.on("purged", purges.readNew);
  redis.watch({ onGap, onRecovery: purges.readNew });

  return {
    ...createEntries(options),
    purge: (scope, hard) => purges.declare(scope, hard).catch(asUnavailable),
    onEvent(listen) {
      listener = listen;
      if (redis.isListening()) onGap();
    },
    close: purges.close,
  };
}

function createEntries(
  options: RedisStoreOptions,
): Pick<Store, "tier" | "get" | "set" | "remove" | "sweep" | "stats"> {
  const { redis, namespace, clock, seal, onUnreadable } = options;
  const stored = (key: string): string => keyIn(namespace, key);

  async function unlink(key: string): Promise<void> {
    await redis.run("remove", stored(key), (client) => client.unlink(stored(key)));
  }

  return {
    tier: "redis",
    stats: () => undefined,
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
      const message = redis.bus.textOf({ kind: "stored", key, storedAt: entry.storedAt });
      try {
        const isSet = await redis.run("set", stored(key), (client) =>
          client.setEntry(stored(key), blob, keptForMs, redis.bus.channel, message),
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
