/**
 * Purges in Redis: one stream, `<namespace>{purged}`. Redis numbers the purges, keeps them in order, and drops the oldest
 * ones. A replica reads what is new after each message on the channel, after a gap in the messages, and every ten seconds.
 */
import { type Clock, every } from "../../process/clock.ts";
import type { RedisService } from "../../redis/service.ts";
import type { Purge, PurgeScope } from "./purges.ts";

/** The length of the stream. */
const MOST_PURGES = 1_000;
/** How often purges are read without a message. */
const REREAD_MS = 10_000;
/** No fetch takes longer. Purges outlive entries by this time, because a fetch may begin before a purge and end after it. */
const LONGEST_FETCH_MS = 10 * 60_000;

export interface RedisPurges {
  /** Rejects with `StoreUnavailable` or `RedisRefusal`. */
  readonly declare: (scope: PurgeScope, hard: boolean) => Promise<Purge>;
  /** Reads and reports the purges that are not known yet. */
  readonly readNew: () => void;
  /** Reads and reports all purges. */
  readonly readAll: () => void;
  readonly close: () => void;
}

export interface RedisPurgesOptions {
  readonly redis: Pick<RedisService, "run">;
  /** The prefix of the key and the channel. */
  readonly namespace: string;
  readonly clock: Clock;
  /** The longest time that any entry is kept, in milliseconds. */
  readonly retentionMs: number;
  /** Tells all replicas that there is a purge. */
  readonly announce: () => Promise<unknown>;
  readonly onPurges: (purges: readonly Purge[]) => void;
}

export function createRedisPurges(options: RedisPurgesOptions): RedisPurges {
  const { redis, clock, announce, onPurges } = options;
  const key = `${options.namespace}{purged}`;
  const keptForMs = options.retentionMs + LONGEST_FETCH_MS;
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
  const stopReading = every(clock, REREAD_MS, readNew);

  return {
    async declare(scope, hard) {
      const text = JSON.stringify({ scope, hard });
      const add = async (id: string): Promise<number> => {
        const added = await redis.run("purge", key, (client) =>
          client.xadd(key, "MAXLEN", MOST_PURGES, id, "purge", text),
        );
        return epochOf(added ?? "");
      };
      const knownEpoch = latestEpoch;
      let epoch = await add("*");
      // Redis has lost its data, and its clock was set back. Entries remember later purges than this one.
      if (epoch <= knownEpoch) epoch = await add(idOf(knownEpoch + 1));
      latestEpoch = Math.max(latestEpoch, epoch);
      await redis.run("purge", key, (client) => client.pexpire(key, keptForMs));
      await announce();
      return { epoch, scope, hard };
    },
    readNew,
    readAll() {
      from = "-";
      readNew();
    },
    close: stopReading,
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
