/** Reads the ledger of all replicas from the streams that the limiter's script writes (shared-purse.lua). */
import { LRUCache } from "lru-cache";

import { CAUSES, UPSTREAM_FAULTS } from "../../telemetry/events.ts";
import { RESOURCES, ORIGINS, type OriginName } from "../../interface/resources.ts";
import type { LedgerCompletion, LedgerLine, LedgerReader } from "../../usage/ledger-line.ts";
import type { RunOnRedis } from "../../redis/redis.ts";
import { RedisPurse } from "./redis-script.ts";

const LINES_AT_ONCE = 1_000;
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

export type Fields = Readonly<Record<string, string | undefined>>;

/** Joins each call with its end, which comes later in the stream. Only the calls that wait for their end are in memory. */
async function* linesOf(
  origin: OriginName,
  purse: RedisPurse,
  from: number,
  to: number,
): AsyncIterable<LedgerLine[]> {
  const waiting = new Map<string, LedgerLine>();
  const ended = new LRUCache<string, true>({ max: MOST_ENDED });
  let start = String(from);
  for (;;) {
    const part = await purse.ledger(start, String(to + LATEST_MS), LINES_AT_ONCE);
    const lines: LedgerLine[] = [];
    for (const [, flat] of part) {
      const fields = fieldsIn(flat.map(String));
      const line = lineOf(origin, fields);
      if (line !== undefined && line.at >= from && line.at < to && !ended.has(line.id))
        waiting.set(line.id, line);
      const call = waiting.get(fields["i"] ?? "");
      if (call === undefined || fields["k"] !== "e") continue;
      waiting.delete(call.id);
      ended.set(call.id, true);
      const { s: status = "", d, t } = fields;
      const completion = { status: statusOf(status), durationMs: Number(d), arrivedAt: Number(t) };
      lines.push({ ...call, completion });
    }
    yield lines;
    const last = part.at(-1)?.[0];
    if (last === undefined || part.length < LINES_AT_ONCE) break;
    start = `(${last}`;
  }
  yield [...waiting.values()];
}

function lineOf(origin: OriginName, { k, i, t, r, c, q, l }: Fields): LedgerLine | undefined {
  const [resource, cause] = [oneOf(RESOURCES, r), oneOf(CAUSES, c)];
  if (k !== "s" || i === undefined || resource === undefined || cause === undefined) return undefined;
  return {
    id: i,
    origin,
    at: Number(t),
    app: appIn(i),
    resource,
    cause,
    query: q ?? "",
    limits: l ?? "",
    completion: undefined,
  };
}

/** @returns the text, if it is one of the values */
function oneOf<T extends string>(values: readonly T[], text: string | undefined): T | undefined {
  return values.find((value) => value === text);
}

function statusOf(text: string): LedgerCompletion["status"] {
  return oneOf([...UPSTREAM_FAULTS, "unsent"] as const, text) ?? Number(text);
}

/** The app at the end of an id. */
export function appIn(id: string): string {
  return id.slice(id.lastIndexOf("@") + 1);
}

/** Turns the flat list of a stream entry's fields into a record. */
export function fieldsIn(flat: readonly string[]): Fields {
  return Object.fromEntries(flat.flatMap((name, at) => (at % 2 === 0 ? [[name, flat[at + 1]]] : [])));
}
