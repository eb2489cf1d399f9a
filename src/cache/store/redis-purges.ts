/**
 * Purges in Redis. Redis numbers them, keeps them as long as an older entry can exist, and publishes them to every
 * replica. Replicas also read all of them every few seconds, in case a message was lost.
 *
 * Each replica remembers the purges that it knows, and restores those that Redis has lost. After such a loss,
 * replicas store entries again from their memory. Without the purges, a new replica would serve purged entries.
 */
import type { ClientContext, Result } from "ioredis";

import type { Clock } from "../../process/clock.ts";
import { readScript, type RedisService } from "../../redis/service.ts";
import type { Purge, PurgeScope } from "./purges.ts";
import { eventsChannel, readPurge } from "./redis-events.ts";

declare module "ioredis" {
  interface RedisCommander<Context extends ClientContext> {
    declarePurge(
      key: string,
      scope: string,
      hard: string,
      latestEpoch: number,
      keptForMs: number,
      channel: string,
    ): Result<string, Context>;
    readPurges(key: string, keptForMs: number, most: number): Result<string[], Context>;
    restorePurges(
      key: string,
      keptForMs: number,
      channel: string,
      ...pairs: (string | number)[]
    ): Result<number, Context>;
  }
}

const SCRIPTS = {
  declarePurge: readScript(new URL("./lua/declare-purge.lua", import.meta.url)),
  readPurges: readScript(new URL("./lua/read-purges.lua", import.meta.url)),
  restorePurges: readScript(new URL("./lua/restore-purges.lua", import.meta.url)),
};

/** If there are more, the oldest are folded into one. */
const MOST_PURGES = 500;
/** How often purges are read without an announcement. */
const REREAD_MS = 10_000;
/** The pause after a read that failed. */
const RETRY_MS = 1_000;
/** No fetch takes longer. Purges outlive entries by this time, because a fetch may begin before a purge and end after it. */
const LONGEST_FETCH_MS = 10 * 60_000;

export interface RedisPurges {
  /** Rejects with `StoreUnavailable` or `RedisRefusal`. */
  readonly declare: (scope: PurgeScope, hard: boolean) => Promise<Purge>;
  /** Remembers purges from a message. */
  readonly learn: (purges: readonly Purge[]) => void;
  /** Reads all purges and reports all of them, also those that are known. */
  readonly readAll: () => void;
  /** Reads and reports all purges if the last attempt to do so failed. */
  readonly readDue: () => void;
  readonly close: () => void;
}

export interface RedisPurgesOptions {
  readonly redis: RedisService;
  /** The prefix of the key and the channel. */
  readonly namespace: string;
  readonly clock: Clock;
  /** The longest time that any entry is kept, in milliseconds. */
  readonly retentionMs: number;
  readonly onPurges: (purges: readonly Purge[]) => void;
}

export function createRedisPurges(options: RedisPurgesOptions): RedisPurges {
  const { redis, namespace, clock, onPurges } = options;
  const purgesKey = `${namespace}{purges}`;
  const channel = eventsChannel(namespace);
  const keptForMs = options.retentionMs + LONGEST_FETCH_MS;
  const known = createKnownPurges();
  redis.defineScripts(SCRIPTS);

  /** Reads all purges, and restores those that Redis has lost. */
  async function read(): Promise<{ readonly all: readonly Purge[]; readonly news: readonly Purge[] }> {
    const [forgotten, ...texts] = await redis.run("purges", purgesKey, (client) =>
      client.readPurges(purgesKey, keptForMs, MOST_PURGES),
    );
    let forgottenUpTo = Number(forgotten);
    const all: Purge[] = [];
    const news: Purge[] = [];
    for (const text of texts) {
      for (const purge of readPurge(text)) {
        if (text.endsWith(FOLDED)) forgottenUpTo = Math.max(forgottenUpTo, purge.epoch);
        all.push(purge);
        if (known.add(text, purge)) news.push(purge);
      }
    }
    await restore(known.missingIn(texts, forgottenUpTo));
    return { all, news };
  }

  async function restore(lost: readonly (readonly [text: string, purge: Purge])[]): Promise<void> {
    if (lost.length === 0) return;
    const pairs = lost.flatMap(([text, { epoch }]) => [epoch, text]);
    await redis.run("purges", purgesKey, (client) =>
      client.restorePurges(purgesKey, keptForMs, channel, ...pairs),
    );
  }

  const reader = createReader(clock, async (isAllDue) => {
    const { all, news } = await read();
    const purges = isAllDue ? all : news;
    if (purges.length > 0) onPurges(purges);
  });

  return {
    async declare(scope, hard) {
      const text = await redis.run("purge", purgesKey, (client) =>
        client.declarePurge(
          purgesKey,
          JSON.stringify(scope),
          String(hard),
          known.latestEpoch(),
          keptForMs,
          channel,
        ),
      );
      const [purge] = readPurge(text);
      if (purge === undefined) throw new Error(`Redis returned a purge as ${text}`);
      known.add(text, purge);
      return purge;
    },
    learn(purges) {
      for (const purge of purges) known.add(textOf(purge), purge);
    },
    ...reader,
  };
}

/** Calls `read` every `REREAD_MS`, at once if `readAll` is called, and `RETRY_MS` after a failure. */
function createReader(
  clock: Clock,
  read: (isAllDue: boolean) => Promise<void>,
): Pick<RedisPurges, "readAll" | "readDue" | "close"> {
  let isAllDue = false;
  let isClosed = false;
  let cancel = clock.after(REREAD_MS, () => void readNow());

  async function readNow(): Promise<void> {
    const isAll = isAllDue;
    isAllDue = false;
    schedule(REREAD_MS);
    try {
      await read(isAll);
    } catch {
      // Redis is out of order. The next attempt reads what this one should have read.
      isAllDue ||= isAll;
      schedule(RETRY_MS);
    }
  }

  function schedule(afterMs: number): void {
    cancel();
    if (!isClosed) cancel = clock.after(afterMs, () => void readNow());
  }

  return {
    readAll() {
      isAllDue = true;
      void readNow();
    },
    readDue() {
      if (isAllDue) void readNow();
    },
    close() {
      isClosed = true;
      cancel();
    },
  };
}

interface KnownPurges {
  /** @returns whether it is new */
  readonly add: (text: string, purge: Purge) => boolean;
  readonly latestEpoch: () => number;
  /** The known purges that are not among these texts, and that Redis has not forgotten on purpose. */
  readonly missingIn: (
    texts: readonly string[],
    forgottenUpTo: number,
  ) => readonly (readonly [text: string, purge: Purge])[];
}

function createKnownPurges(): KnownPurges {
  /** By the text in Redis. */
  const known = new Map<string, Purge>();
  let latestEpoch = 0;
  return {
    add(text, purge) {
      const isNew = !known.has(text);
      known.set(text, purge);
      latestEpoch = Math.max(latestEpoch, purge.epoch);
      for (const oldest of known.keys()) {
        if (known.size <= 2 * MOST_PURGES) break;
        known.delete(oldest);
      }
      return isNew;
    },
    latestEpoch: () => latestEpoch,
    missingIn(texts, forgottenUpTo) {
      const present = new Set(texts);
      return [...known].filter(([text, { epoch }]) => !present.has(text) && epoch > forgottenUpTo);
    },
  };
}

/** The text of a purge that replaces several others ends with this (lua/read-purges.lua). */
const FOLDED = ',"folded":true}';

/** The text of a purge, exactly as lua/declare-purge.lua writes it. */
function textOf({ epoch, scope, hard }: Purge): string {
  return JSON.stringify({ epoch, scope, hard });
}
