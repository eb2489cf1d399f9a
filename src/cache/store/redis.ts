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

import { type Clock, every } from "../../process/clock.ts";
import type { RedisScripts } from "../../redis/connect.ts";
import type { RedisService } from "../../redis/redis.ts";
import type { Seal } from "../../process/seal.ts";
import { inOwnMemory } from "../../process/buffer-memory.ts";
import { keyIn } from "../../query/key.ts";
import type { WhyNotStored } from "../../telemetry/events.ts";
import { inStoredCoding } from "../encoder.ts";
import { type Entry, isUsable } from "../entry.ts";
import { fromBlob, MAX_BLOB_BYTES, toBlob } from "./codec.ts";
import { MAX_BODY_BYTES, type Store, type StoreEvent } from "./port.ts";
import type { Purge, PurgeScope } from "./purges.ts";

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

/** Redis runs it as one step, so no other command sees an intermediate state. */
export const ENTRY_SCRIPTS: RedisScripts = {
  setEntry: { lua: readFileSync(new URL("./lua/set-entry.lua", import.meta.url), "utf8"), numberOfKeys: 1 },
};

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

/** `close` stops reading purges; the Redis service stays open. */
export function createRedisStore(options: RedisStoreOptions): Store & { readonly close: () => void } {
  const { redis } = options;
  let listener = (_event: StoreEvent): void => undefined;
  const purges = createPurgeStream(options, (news) => listener({ kind: "purged", purges: news }));
  const onGap = (): void => {
    listener({ kind: "gap" });
    purges.readAll();
  };
  redis.bus.on("stored", (stored) => listener(stored));
  redis.bus.on("purged", purges.readNew);
  redis.on("gap", onGap).on("recovery", purges.readNew);
  return {
    ...createEntries(options),
    purge: purges.declare,
    onEvent(listen) {
      listener = listen;
      if (redis.isListening()) onGap();
    },
    close: purges.close,
  };
}

/** The length of the stream. */
const MOST_PURGES = 1_000;
/** How often purges are read without a message. */
const REREAD_MS = 10_000;
/** No fetch takes longer. Purges outlive entries by this time, because a fetch may begin before a purge and end after it. */
const LONGEST_FETCH_MS = 10 * 60_000;

function createPurgeStream(
  { redis, namespace, clock, retentionMs }: RedisStoreOptions,
  onPurges: (purges: readonly Purge[]) => void,
) {
  const key = `${namespace}{purged}`;
  /** Where the next read begins. */
  let from = "-";
  let latestEpoch = 0;

  async function readOnce(): Promise<void> {
    const rows = await redis.run("purges", key, (client) =>
      client.xrange(key, from, "+", "COUNT", MOST_PURGES),
    );
    const last = rows.at(-1)?.[0];
    if (last === undefined) return;
    from = `(${last}`;
    latestEpoch = Math.max(latestEpoch, epochOf(last));
    const purges = rows.flatMap(([id, [, text = ""]]) => purgeIn(id, text));
    const first = rows.length < MOST_PURGES ? undefined : rows[0]?.[0];
    // The stream may have dropped older ones. To purge everything is safe.
    if (first !== undefined) purges.unshift({ epoch: epochOf(first), scope: { kind: "all" }, hard: true });
    onPurges(purges);
  }

  /** One read after the other. A read that fails is made up for by the next one. */
  let reading: Promise<void> = Promise.resolve();
  const readNew = (): void => void (reading = reading.then(readOnce).catch(() => undefined));

  async function add(id: string, text: string): Promise<number> {
    const added = await redis.run("purge", key, (client) =>
      client.xadd(key, "MAXLEN", MOST_PURGES, id, "purge", text),
    );
    return epochOf(added ?? "");
  }

  async function declare(scope: PurgeScope, hard: boolean): Promise<Purge> {
    const text = JSON.stringify({ scope, hard });
    const knownEpoch = latestEpoch;
    let epoch = await add("*", text);
    // Redis has lost its data, and its clock was set back. Entries remember later purges than this one.
    if (epoch <= knownEpoch) epoch = await add(idOf(knownEpoch + 1), text);
    latestEpoch = Math.max(latestEpoch, epoch);
    await redis.run("purge", key, (client) => client.pexpire(key, retentionMs + LONGEST_FETCH_MS));
    await redis.publish("purge", { kind: "purged" });
    return { epoch, scope, hard };
  }

  return {
    declare,
    readNew,
    readAll() {
      from = "-";
      readNew();
    },
    close: every(clock, REREAD_MS, readNew),
  };
}

/** Ids of a stream are `<milliseconds>-<number>`. */
function epochOf(id: string): number {
  const [ms = "", nth = ""] = id.split("-");
  return Number(ms) * 1_000 + Number(nth);
}

function idOf(epoch: number): string {
  return `${Math.floor(epoch / 1_000)}-${epoch % 1_000}`;
}

/** The admin port accepts no longer scopes. */
const MOST_CHARACTERS = 20_000;

/** @returns a list with the purge; an empty list if the text is not a purge of this gateway */
function purgeIn(id: string, text: string): Purge[] {
  if (text.length > MOST_CHARACTERS) return [];
  try {
    const purge: Omit<Purge, "epoch"> = JSON.parse(text);
    return "kind" in purge.scope ? [{ epoch: epochOf(id), scope: purge.scope, hard: purge.hard }] : [];
  } catch {
    return [];
  }
}

function createEntries({ redis, namespace, clock, seal, onUnreadable }: RedisStoreOptions) {
  const stored = (key: string): string => keyIn(namespace, key);

  async function remove(key: string): Promise<void> {
    await redis.run("remove", stored(key), (client) => client.unlink(stored(key)));
  }

  return {
    tier: "redis" as const,
    stats: () => undefined,
    async get(key: string): Promise<Entry | undefined> {
      const blob = await redis.run("get", stored(key), (client) =>
        client.getrangeBuffer(stored(key), 0, MAX_BLOB_BYTES),
      );
      if (blob.length === 0) return undefined;
      const entry = fromBlob(key, inOwnMemory(blob), seal);
      if (entry !== undefined && isUsable(entry, clock.now())) return entry;
      if (entry === undefined) onUnreadable();
      // It is removed, because its `storedAt` could look newer than that of any entry.
      void remove(key).catch(() => undefined);
      return undefined;
    },
    async set(key: string, entry: Entry): Promise<true | WhyNotStored> {
      if (entry.bodyBytes > MAX_BODY_BYTES) return "too-large";
      const blob = toBlob(key, await inStoredCoding(entry), seal);
      const keptForMs = Math.max(1, Math.ceil(entry.keepUntil - clock.now()));
      const message = redis.bus.textOf({ kind: "stored", key, storedAt: entry.storedAt });
      const isSet = await redis.run("set", stored(key), (client) =>
        client.setEntry(stored(key), blob, keptForMs, redis.bus.channel, message),
      );
      return isSet === 1 ? true : "newer-stored";
    },
    remove,
  };
}
