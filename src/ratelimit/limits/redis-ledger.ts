/** Reads the ledger of all replicas from the streams that the limiter's script writes (shared-purse.lua). */
import { LRUCache } from "lru-cache";

import { CAUSES, UPSTREAM_FAULTS } from "../../telemetry/events.ts";
import { RESOURCES, ORIGINS, type OriginName } from "../../interface/resources.ts";
import type { LedgerCompletion, LedgerLine, LedgerReader } from "../../usage/ledger-line.ts";
import type { RunOnRedis } from "../../redis/commands.ts";
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
      for (const { origin, purse } of purses)
        yield* joined(origin, parts(purse, from, to + LATEST_MS), { from, to });
    },
    completeSince: async () =>
      Math.max(...(await Promise.all(purses.map(({ purse }) => purse.completeSince())))),
  };
}

export type Fields = Readonly<Record<string, string | undefined>>;

/** The entries of a stream, some at a time. */
async function* parts(purse: RedisPurse, from: number, to: number): AsyncIterable<Fields[]> {
  let start = String(from);
  for (;;) {
    const part = await purse.ledger(start, String(to), LINES_AT_ONCE);
    yield part.map(([, fields]) => fieldsIn(fields.map(String)));
    const last = part.at(-1)?.[0];
    if (last === undefined || part.length < LINES_AT_ONCE) return;
    start = `(${last}`;
  }
}

/** Joins each call with its end, which comes later in the stream. Only the calls that wait for their end are in memory. */
async function* joined(
  origin: OriginName,
  stream: AsyncIterable<Fields[]>,
  { from, to }: { readonly from: number; readonly to: number },
): AsyncIterable<LedgerLine[]> {
  const waiting = new Map<string, LedgerLine>();
  const ended = new LRUCache<string, true>({ max: MOST_ENDED });
  for await (const part of stream) {
    const lines: LedgerLine[] = [];
    for (const fields of part) {
      const line = lineOf(origin, fields);
      if (line !== undefined) {
        if (line.at >= from && line.at < to && !ended.has(line.id)) waiting.set(line.id, line);
        continue;
      }
      const call = waiting.get(fields["i"] ?? "");
      if (call === undefined || fields["k"] !== "e") continue;
      waiting.delete(call.id);
      ended.set(call.id, true);
      lines.push({ ...call, completion: completionOf(fields) });
    }
    yield lines;
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

function completionOf({ s = "", d, t }: Fields): LedgerCompletion {
  return { status: statusOf(s), durationMs: Number(d), arrivedAt: Number(t) };
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
