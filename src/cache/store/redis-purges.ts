/**
 * Purges in Redis: numbered there, kept there for as long as an entry from before them can be, told to
 * every replica by message, and read again now and then in case a message was lost.
 *
 * Every replica holds what it knows in memory as well and gives it back where Redis has lost it: after a
 * restart without its data, entries may be stored again from a replica's memory, and must not come back
 * from the dead for a replica that has never heard of the purge.
 */
import type { Purge, PurgeScope } from "./purges.ts";
import type { RedisCalls } from "../../redis/commands.ts";
import { CHANNEL, readPurge } from "./redis-messages.ts";
import { NAMESPACE } from "../../query/key.ts";

const PURGES_KEY = `${NAMESPACE}{purges}`;

/** More than this are folded into fewer. */
const MOST_PURGES = 500;

/** An answer can be stored after a purge although its fetch began before: no fetch takes longer. */
const LONGEST_FETCH_MS = 10 * 60_000;

export interface RedisPurges {
  /** Rejects with `StoreUnavailable` or `RedisRefusal`. */
  readonly declare: (scope: PurgeScope, hard: boolean) => Promise<Purge>;
  /** Takes note of purges that a message told of. */
  readonly heard: (purges: readonly Purge[]) => void;
  /** Reads all purges, says which are not yet known here, restores what was lost. Rejects as `declare`. */
  readonly read: () => Promise<{ readonly all: readonly Purge[]; readonly news: readonly Purge[] }>;
}

/** @param retentionMs the longest time that any entry is kept */
export function createRedisPurges(calls: RedisCalls, retentionMs: number): RedisPurges {
  const keptForMs = retentionMs + LONGEST_FETCH_MS;
  /** What is known here, by its text in Redis. */
  const known = new Map<string, Purge>();
  let latestEpoch = 0;

  function learn(text: string, purge: Purge): void {
    known.set(text, purge);
    latestEpoch = Math.max(latestEpoch, purge.epoch);
    for (const oldest of known.keys()) {
      if (known.size <= 2 * MOST_PURGES) break;
      known.delete(oldest);
    }
  }

  async function restore(lost: readonly (readonly [string, Purge])[]): Promise<void> {
    if (lost.length === 0) return;
    const pairs = lost.flatMap(([text, purge]) => [purge.epoch, text]);
    await calls.run("purges", PURGES_KEY, (client) =>
      client.restorePurges(PURGES_KEY, keptForMs, CHANNEL, ...pairs),
    );
  }

  return {
    async declare(scope, hard) {
      const text = await calls.run("purge", PURGES_KEY, (client) =>
        client.declarePurge(PURGES_KEY, JSON.stringify(scope), String(hard), latestEpoch, keptForMs, CHANNEL),
      );
      const [purge] = readPurge(text);
      if (purge === undefined) throw new Error(`Redis gave a purge back as ${text}`);
      learn(text, purge);
      return purge;
    },
    heard(purges) {
      for (const purge of purges) learn(textOf(purge), purge);
    },
    async read() {
      const [forgotten, ...texts] = await calls.run("purges", PURGES_KEY, (client) =>
        client.readPurges(PURGES_KEY, keptForMs, MOST_PURGES),
      );
      let forgottenUpTo = Number(forgotten);
      const all: Purge[] = [];
      const news: Purge[] = [];
      for (const text of texts) {
        for (const purge of readPurge(text)) {
          if (text.endsWith(FOLDED)) forgottenUpTo = Math.max(forgottenUpTo, purge.epoch);
          if (!known.has(text)) news.push(purge);
          all.push(purge);
          learn(text, purge);
        }
      }
      const there = new Set(texts);
      await restore([...known].filter(([text, { epoch }]) => !there.has(text) && epoch > forgottenUpTo));
      return { all, news };
    },
  };
}

/** What the text of a purge ends with that stands for others (read-purges.lua). */
const FOLDED = ',"folded":true}';

/** The text of a purge, as declare-purge.lua writes it. */
function textOf({ epoch, scope, hard }: Purge): string {
  return JSON.stringify({ epoch, scope, hard });
}
