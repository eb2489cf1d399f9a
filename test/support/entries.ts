import { entryOf } from "../../src/cache/entry.ts";
import type { Entry } from "../../src/exchange.ts";
import { cacheKey } from "../../src/query/key.ts";

/** Where the tests' clocks begin. */
const START = Date.UTC(2026, 0, 15, 12);

/** A key like those the gateway makes. */
export function keyOf(text: string): string {
  return cacheKey("json", text);
}

/** An entry with a body, stored at an instant, fresh for a minute and kept for an hour. */
export function entryWith(body: Buffer | string, storedAt = START, changes: Partial<Entry> = {}): Entry {
  const query = { kind: "record", resource: "sold", serviceId: "4711", extras: [] } as const;
  const answer = {
    status: 200,
    contentType: "application/json",
    lastModified: undefined,
    recordIds: [],
  } as const;
  const times = { now: storedAt, lifetimeMs: 60_000, retentionMs: 3_600_000, purgeEpoch: 0 };
  return { ...entryOf(query, { ...answer, body: Buffer.from(body) }, times), ...changes };
}
