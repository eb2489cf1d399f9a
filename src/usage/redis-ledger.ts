/** Reads the ledger of all replicas from the streams that the limiter's script writes (lua/limiter.lua). */
import { CAUSES, ORIGINS, UPSTREAM_FAULTS, type OriginName } from "../types.ts";
import { RESOURCES } from "../interface/resources.ts";
import type { LedgerCompletion, LedgerLine, LedgerReader } from "./ledger.ts";
import { limiterKeys, type RunLimiter } from "../ratelimit/redis-limiter.ts";

const LINES_AT_ONCE = 1_000;
/** The end of a call, and calls that a replica sent without Redis, are in the stream at most this long after the call. */
const LATEST_MS = 26 * 3_600_000;

/** The key of an origin's ledger, and the instant from which it is complete. */
interface LedgerSource {
  readonly keyOf: (origin: OriginName) => string;
  readonly completeSince: (origin: OriginName) => Promise<number>;
}

export function createLimiterLedger(run: RunLimiter, namespace: string): LedgerReader {
  return createReader(run, {
    keyOf: (origin) => limiterKeys(namespace, origin).ledger,
    async completeSince(origin) {
      const { state } = limiterKeys(namespace, origin);
      const text = await run("ledger", state, (client) => client.get(state));
      // Only the script writes this value.
      const { since }: { readonly since: number } = text === null ? { since: 0 } : JSON.parse(text);
      return since;
    },
  });
}

function createReader(run: RunLimiter, { keyOf, completeSince }: LedgerSource): LedgerReader {
  async function readOrigin(origin: OriginName, from: number, to: number): Promise<LedgerLine[]> {
    const lines = new Map<string, LedgerLine>();
    for await (const fields of entries(run, keyOf(origin), from, to + LATEST_MS)) {
      const line = lineOf(origin, fields);
      const known = lines.get(fields["i"] ?? "");
      if (line === undefined) {
        if (known !== undefined && fields["k"] === "e")
          lines.set(known.id, { ...known, completion: completionOf(fields) });
      } else if (line.at >= from && line.at < to) lines.set(line.id, line);
    }
    return [...lines.values()];
  }

  return {
    async *read(from, to) {
      const lines = await Promise.all(ORIGINS.map((origin) => readOrigin(origin, from, to)));
      yield lines.flat().toSorted((a, b) => a.at - b.at);
    },
    async completeSince() {
      const since = await Promise.all(ORIGINS.map(completeSince));
      return Math.max(...since);
    },
  };
}

type Fields = Readonly<Record<string, string | undefined>>;

async function* entries(run: RunLimiter, key: string, from: number, to: number): AsyncIterable<Fields> {
  let start = String(from);
  for (;;) {
    const part = await run("ledger", key, (client) =>
      client.xrange(key, start, String(to), "COUNT", LINES_AT_ONCE),
    );
    for (const [, fields] of part) yield fieldsIn(fields.map(String));
    const last = part.at(-1)?.[0];
    if (last === undefined || part.length < LINES_AT_ONCE) return;
    start = `(${last}`;
  }
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
function appIn(id: string): string {
  return id.slice(id.lastIndexOf("@") + 1);
}

/** Turns the flat list of a stream entry's fields into a record. */
function fieldsIn(flat: readonly string[]): Fields {
  const fields: Record<string, string> = {};
  for (let index = 0; index + 1 < flat.length; index += 2) fields[flat[index] ?? ""] = flat[index + 1] ?? "";
  return fields;
}
