import type { Clock } from "../../process/clock.ts";
import { fromBlob, toBlob } from "./codec.ts";
import { inStoredCoding } from "../encoder.ts";
import { type RedisCalls, RedisRefusal } from "../../redis/commands.ts";
import { CHANNEL, type RedisMessage } from "./redis-messages.ts";
import { MAX_BODY_BYTES, type Store, StoreUnavailable } from "./port.ts";

export interface RedisStoreOptions {
  readonly calls: RedisCalls;
  readonly clock: Clock;
  /** Who announces what is stored here. */
  readonly replica: string;
  readonly close: () => Promise<void>;
}

/**
 * Entries in Redis, one value each, its body compressed. Redis drops it when it is past its `keepUntil`;
 * how much it holds, and what it evicts, is Redis' own affair.
 */
export function createRedisStore({ calls, clock, replica, close }: RedisStoreOptions): Store {
  async function drop(key: string): Promise<void> {
    await calls.run("remove", key, (client) => client.unlink(key));
  }

  return {
    tier: "redis",
    stats: () => undefined,
    close,
    async get(key) {
      const blob = await calls.run("get", key, (client) => client.getBuffer(key)).catch(asMiss);
      if (!blob) return undefined;
      const entry = fromBlob(ownMemory(blob));
      // When it says it was stored cannot be relied on either, and it may pass for newer than any other.
      if (entry === undefined) void drop(key).catch(() => undefined);
      return entry !== undefined && clock.now() < entry.keepUntil ? entry : undefined;
    },
    async set(key, entry) {
      if (entry.bodyBytes > MAX_BODY_BYTES) return "too-large";
      const blob = toBlob(await inStoredCoding(entry));
      const keptForMs = Math.max(1, Math.ceil(entry.keepUntil - clock.now()));
      const message: RedisMessage = { kind: "stored", from: replica, key, storedAt: entry.storedAt };
      try {
        const isSet = await calls.run("set", key, (client) =>
          client.setEntry(key, blob, keptForMs, CHANNEL, JSON.stringify(message)),
        );
        return isSet === 1 ? true : "newer-stored";
      } catch (error) {
        // Refused: out of memory, say. The entry is not stored, and the rest goes on.
        if (error instanceof RedisRefusal) return "store-unavailable";
        throw error;
      }
    },
    // Redis does that by itself.
    sweep: async () => undefined,
    remove: (key) => drop(key).catch(asUnavailable),
  };
}

function asMiss(error: unknown): undefined {
  if (error instanceof RedisRefusal) return undefined;
  throw error;
}

/** For what has no other way to fail. */
export function asUnavailable(error: unknown): never {
  if (error instanceof RedisRefusal) throw new StoreUnavailable(error.message, { cause: error });
  throw error;
}

/** A reply is a part of what was read from the socket, and would keep all of that in memory with it. */
function ownMemory(reply: Buffer): Buffer {
  if (reply.length === reply.buffer.byteLength) return reply;
  const copy = Buffer.allocUnsafeSlow(reply.length);
  reply.copy(copy);
  return copy;
}
