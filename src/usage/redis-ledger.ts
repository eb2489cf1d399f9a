/** Reads the ledger of all replicas from the streams that the limiter's script writes (ratelimit/limits/shared-purse.lua). */
import { LRUCache } from "lru-cache";

import { CAUSES, UPSTREAM_FAULTS } from "../telemetry/events.ts";
import { RESOURCES, ORIGINS, type OriginName } from "../interface/resources.ts";
import type { RedisClient } from "../redis/connect.ts";
import type { RunOnRedis } from "../redis/redis.ts";
import type { Completeness, LedgerCompletion, LedgerLine, LedgerReader } from "./ledger-line.ts";

/** The stream of an origin. Its methods reject when Redis does not answer. */
export interface LedgerStream {
  /** Reads the stream in parts, oldest entry first. The arguments are those of XRANGE. */
  readonly ledger: (start: string, end: string) => AsyncIterable<readonly StreamEntry[]>;
  readonly completeness: () => Promise<Completeness>;
}

/** An entry of the ledger: its place, and its fields by name. */
export interface StreamEntry {
  readonly at: string;
  readonly fields: Readonly<Record<string, string | undefined>>;
}

/** Entries in one reply. */
const MOST_AT_ONCE = 500;
/** The end of a call, and calls that a replica sent without Redis, are in the stream at most this long after the call. */
const LATEST_MS = 26 * 3_600_000;
/** How many calls are remembered after their end, because a replica may have entered a call twice. */
const MOST_ENDED = 10_000;

/** See `LedgerStream.ledger`. */
export async function* readStream(
  run: RunOnRedis,
  key: string,
  start: string,
  end: string,
): AsyncIterable<readonly StreamEntry[]> {
  let from = start;
  for (let count = MOST_AT_ONCE; count === MOST_AT_ONCE;) {
    const command = (client: RedisClient) => client.xrange(key, from, end, "COUNT", MOST_AT_ONCE);
    const entries = await run("ledger", key, command);
    yield entries.map(([at, flat]) => ({ at, fields: fieldsIn(flat) }));
    count = entries.length;
    from = `(${entries.at(-1)?.[0]}`;
  }
}

/** Turns the flat list of a stream entry's fields into a record. */
function fieldsIn(flat: readonly string[]): StreamEntry["fields"] {
  return Object.fromEntries(flat.flatMap((name, at) => (at % 2 === 0 ? [[name, flat[at + 1]]] : [])));
}

/** The app at the end of a call's id. */
export const appIn = (id: string): string => id.slice(id.lastIndexOf("@") + 1);

export function createRedisLedger(streamOf: (origin: OriginName) => LedgerStream): LedgerReader {
  const streams = ORIGINS.map((origin) => ({ origin, stream: streamOf(origin) }));
  return {
    async *read(from, to) {
      for (const { origin, stream } of streams) yield* linesOf(origin, stream, from, to);
    },
    async completeness() {
      const all = await Promise.all(streams.map(({ stream }) => stream.completeness()));
      return {
        since: Math.max(...all.map(({ since }) => since)),
        hasLost: all.some(({ hasLost }) => hasLost),
      };
    },
  };
}

/** Joins each call with its end, which comes later in the stream. Only the calls that wait for their end are in memory. */
async function* linesOf(
  origin: OriginName,
  stream: LedgerStream,
  from: number,
  to: number,
): AsyncIterable<LedgerLine[]> {
  const waiting = new Map<string, LedgerLine>();
  const ended = new LRUCache<string, true>({ max: MOST_ENDED });
  for await (const entries of stream.ledger(String(Math.max(0, from)), String(to + LATEST_MS))) {
    const lines: LedgerLine[] = [];
    for (const { fields } of entries) {
      const line = lineOf(origin, fields);
      if (line !== undefined && line.at >= from && line.at < to && !ended.has(line.id))
        waiting.set(line.id, line);
      const { i = "", k, s: status = "", d, t } = fields;
      const call = waiting.get(i);
      if (call === undefined || k !== "e") continue;
      waiting.delete(i);
      ended.set(i, true);
      const completion = { status: statusOf(status), durationMs: Number(d), arrivedAt: Number(t) };
      lines.push({ ...call, completion });
    }
    yield lines;
  }
  yield [...waiting.values()];
}

function lineOf(origin: OriginName, { k, i, t, r, c, q, l }: StreamEntry["fields"]): LedgerLine | undefined {
  const [resource, cause] = [oneOf(RESOURCES, r), oneOf(CAUSES, c)];
  if (k !== "s" || i === undefined || resource === undefined || cause === undefined) return undefined;
  const call = { id: i, origin, at: Number(t), app: appIn(i), resource, cause };
  return { ...call, query: q ?? "", limits: l ?? "", completion: undefined };
}

/** @returns the text, if it is one of the values */
function oneOf<T extends string>(values: readonly T[], text: string | undefined): T | undefined {
  return values.find((value) => value === text);
}

function statusOf(text: string): LedgerCompletion["status"] {
  return oneOf([...UPSTREAM_FAULTS, "unsent"] as const, text) ?? Number(text);
}
