/** Reads the ledger of all replicas from the streams that the limiter's script writes (shared-purse.lua). */
import { LRUCache } from "lru-cache";

import { CAUSES, UPSTREAM_FAULTS } from "../../telemetry/events.ts";
import { RESOURCES, ORIGINS, type OriginName } from "../../interface/resources.ts";
import type { LedgerCompletion, LedgerLine, LedgerReader } from "../../usage/ledger-line.ts";
import type { RunOnRedis } from "../../redis/redis.ts";
import { appIn, RedisPurse, type StreamEntry } from "./redis-script.ts";

/** The end of a call, and calls that a replica sent without Redis, are in the stream at most this long after the call. */
const LATEST_MS = 26 * 3_600_000;

/** How many calls are remembered after their end, because a replica may have entered a call twice. */
const MOST_ENDED = 10_000;

export function createLimiterLedger(run: RunOnRedis, namespace: string): LedgerReader {
  const purses = ORIGINS.map((origin) => ({ origin, purse: new RedisPurse(run, namespace, origin) }));
  return {
    async *read(from, to) {
      for (const { origin, purse } of purses) yield* linesOf(origin, purse, from, to);
    },
    completeSince: async () =>
      Math.max(...(await Promise.all(purses.map(({ purse }) => purse.completeSince())))),
  };
}

/** Joins each call with its end, which comes later in the stream. Only the calls that wait for their end are in memory. */
async function* linesOf(
  origin: OriginName,
  purse: RedisPurse,
  from: number,
  to: number,
): AsyncIterable<LedgerLine[]> {
  const waiting = new Map<string, LedgerLine>();
  const ended = new LRUCache<string, true>({ max: MOST_ENDED });
  for await (const entries of purse.ledger(String(from), String(to + LATEST_MS))) {
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
