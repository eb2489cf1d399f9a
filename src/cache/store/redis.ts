/**
 * The shared store: the entries and purges of all replicas, in Redis.
 *
 * Each entry is one value with a compressed body. Redis drops it after its `keepUntil`. The configuration of
 * Redis decides how much it holds and what it evicts. Each replica publishes what it stores or purges to the others.
 *
 * Purges are one stream, `<namespace>{purged}`. Redis numbers them, keeps them in order, and drops the oldest ones. A replica
 * reads what is new after each message, after a gap in the messages, and every ten seconds.
 */
import { readFileSync } from "node:fs";

import type { ClientContext, Result } from "ioredis";

import { every } from "../../process/clock.ts";
import type { RedisScripts } from "../../redis/connect.ts";
import type { RedisService } from "../../redis/redis.ts";
import { inOwnMemory } from "../../process/buffer-memory.ts";
import { keyIn } from "../../query/key.ts";
import type { WhyNotStored } from "../../telemetry/events.ts";
import { type Entry, isUsable } from "../entry.ts";
import { fromBlob, MAX_BLOB_BYTES, toBlob } from "./codec.ts";
import type { Store, StoreEvent } from "./port.ts";
import { type Purge, purgesIn, type PurgeScope } from "./purge-marks.ts";

declare module "ioredis" {
  interface RedisCommander<Context extends ClientContext> {
    setEntry(key: string, ...argv: (Buffer | number | string)[]): Result<number, Context>;
  }
}

/** Redis runs it as one step, so no other command sees an intermediate state. */
export const ENTRY_SCRIPTS: RedisScripts = {
  setEntry: { lua: readFileSync(new URL("./lua/set-entry.lua", import.meta.url), "utf8"), numberOfKeys: 1 },
};

/** The length of the stream. */
const MOST_PURGES = 1_000;
/** How often purges are read without a message. */
const REREAD_MS = 10_000;
/** No fetch takes longer. Purges outlive entries by this time, because a fetch may begin before a purge and end after it. */
const LONGEST_FETCH_MS = 10 * 60_000;

export class RedisStore implements Store {
  readonly tier = "redis";
  readonly #redis: RedisService;
  readonly #retentionMs: number;
  readonly #onUnreadable: () => void;
  /** The key of the stream. */
  readonly #stream: string;
  /** Stops reading purges; the Redis service stays open. */
  readonly close: () => void;
  #listener = (_event: StoreEvent): void => undefined;
  /** Where the next read of purges begins. */
  #from = "-";
  #latestEpoch = 0;
  /** One read after the other. */
  #reading: Promise<void> = Promise.resolve();

  /**
   * @param retentionMs the longest time that any entry is kept. Purges are kept at least as long
   * @param onUnreadable called for each value that is not an entry of this gateway
   */
  constructor(redis: RedisService, retentionMs: number, onUnreadable: () => void) {
    this.#redis = redis;
    this.#retentionMs = retentionMs;
    this.#onUnreadable = onUnreadable;
    this.#stream = `${redis.options.cache}{purged}`;
    redis.bus.on("stored", (stored) => this.#listener(stored));
    redis.bus.on("purged", this.#readNew);
    redis.on("gap", this.#onGap).on("recovery", this.#readNew);
    this.close = every(redis.options.clock, REREAD_MS, this.#readNew);
    this.#readNew();
  }

  readonly onEvent: Store["onEvent"] = (listener) => void (this.#listener = listener);

  readonly #onGap = (): void => {
    this.#listener({ kind: "gap" });
    this.#from = "-";
    this.#readNew();
  };

  /** A read that fails is made up for by the next one. */
  readonly #readNew = (): void => {
    this.#reading = this.#reading.then(() => this.#readOnce()).catch(() => undefined);
  };

  async #readOnce(): Promise<void> {
    const rows = await this.#redis.run("purges", this.#stream, (client) =>
      client.xrange(this.#stream, this.#from, "+", "COUNT", MOST_PURGES),
    );
    const last = rows.at(-1)?.[0];
    if (last === undefined) return;
    this.#from = `(${last}`;
    this.#latestEpoch = Math.max(this.#latestEpoch, epochOf(last));
    const purges = rows.flatMap(([id, [, text = ""]]) => purgesIn(epochOf(id), text));
    const first = rows.length < MOST_PURGES ? undefined : rows[0]?.[0];
    // The stream may have dropped older ones. To purge everything is safe.
    if (first !== undefined) purges.unshift({ epoch: epochOf(first), scope: { kind: "all" }, hard: true });
    this.#listener({ kind: "purged", purges });
  }

  readonly purge = async (scope: PurgeScope, hard: boolean): Promise<Purge> => {
    const text = JSON.stringify({ scope, hard });
    const knownEpoch = this.#latestEpoch;
    let epoch = await this.#addPurge("*", text);
    // Redis has lost its data, and its clock was set back. Entries remember later purges than this one.
    if (epoch <= knownEpoch) epoch = await this.#addPurge(idOf(knownEpoch + 1), text);
    this.#latestEpoch = Math.max(this.#latestEpoch, epoch);
    const keptForMs = this.#retentionMs + LONGEST_FETCH_MS;
    await this.#redis.run("purge", this.#stream, (client) => client.pexpire(this.#stream, keptForMs));
    await this.#redis.publish("purge", { kind: "purged" });
    return { epoch, scope, hard };
  };

  async #addPurge(id: string, text: string): Promise<number> {
    const added = await this.#redis.run("purge", this.#stream, (client) =>
      client.xadd(this.#stream, "MAXLEN", MOST_PURGES, id, "purge", text),
    );
    return epochOf(added ?? "");
  }

  readonly stats = (): undefined => undefined;

  readonly get = async (key: string): Promise<Entry | undefined> => {
    const { clock, seal } = this.#redis.options;
    const stored = this.#keyOf(key);
    const read = this.#redis.run("get", stored, (client) => client.getrangeBuffer(stored, 0, MAX_BLOB_BYTES));
    // After a start or a gap, this replica may not know yet that the entry was purged.
    const [blob] = await Promise.all([read, this.#reading]);
    if (blob.length === 0) return undefined;
    const entry = fromBlob(key, inOwnMemory(blob), seal);
    if (entry !== undefined && isUsable(entry, clock.now())) return entry;
    if (entry === undefined) this.#onUnreadable();
    // It is removed, because its `storedAt` could look newer than that of any entry.
    void this.remove(key).catch(() => undefined);
    return undefined;
  };

  readonly set = async (key: string, entry: Entry): Promise<true | WhyNotStored> => {
    const { bus, options } = this.#redis;
    const stored = this.#keyOf(key);
    const blob = await toBlob(key, entry, options.seal);
    const keptForMs = Math.max(1, Math.ceil(entry.keepUntil - options.clock.now()));
    const message = bus.textOf({ kind: "stored", key, storedAt: entry.storedAt });
    const isSet = await this.#redis.run("set", stored, (client) =>
      client.setEntry(stored, blob, keptForMs, bus.channel, message),
    );
    return isSet === 1 ? true : "newer-stored";
  };

  readonly remove = async (key: string): Promise<void> => {
    const stored = this.#keyOf(key);
    await this.#redis.run("remove", stored, (client) => client.unlink(stored));
  };

  #keyOf(key: string): string {
    return keyIn(this.#redis.options.cache, key);
  }
}

/** Ids of a stream are `<milliseconds>-<number>`. */
function epochOf(id: string): number {
  const [ms = "", nth = ""] = id.split("-");
  return Number(ms) * 1_000 + Number(nth);
}

const idOf = (epoch: number): string => `${Math.floor(epoch / 1_000)}-${epoch % 1_000}`;
