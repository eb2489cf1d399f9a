/** Counts the entries in Redis by the names of their keys. */
import { Cluster } from "ioredis";

import { resourceOfKey } from "../../query/key.ts";
import type { RedisService } from "../../redis/service.ts";

/** SCAN visits every key of the database. In small steps: each one holds up the other commands. */
const KEYS_PER_SCAN = 500;
/** A database with more keys than this many steps visit is not counted. */
const MOST_SCANS = 100;

/**
 * @param namespace the prefix of all keys
 * @param resource counts the entries of this resource only
 * @returns `undefined` if the database has too many keys, if Redis refuses, or for a Cluster, whose keys are on many nodes
 */
export async function countEntries(
  redis: Pick<RedisService, "run">,
  namespace: string,
  resource: string | undefined,
): Promise<number | undefined> {
  // Other keys have no colon between the braces, or text after them.
  const pattern = `${escaped(namespace)}{*:${resource ?? ""}*}`;
  const isCounted = (key: string): boolean =>
    resource === undefined || resourceOfKey(key.slice(namespace.length)) === resource;
  // SCAN may return a key twice.
  const found = new Set<string>();
  let cursor = "0";
  for (let scans = 0; scans < MOST_SCANS; scans++) {
    const from = cursor;
    const scanned = await redis.run("count", namespace, async (client) =>
      client instanceof Cluster
        ? undefined
        : await client.scan(from, "MATCH", pattern, "COUNT", KEYS_PER_SCAN).catch(asUncounted),
    );
    if (scanned === undefined) return undefined;
    for (const key of scanned[1]) if (isCounted(key)) found.add(key);
    cursor = scanned[0];
    if (cursor === "0") return found.size;
  }
  return undefined;
}

/** A user of Redis may lack the right to SCAN. That is no outage. */
function asUncounted(error: unknown): undefined {
  if (error instanceof Error && error.name === "ReplyError") return undefined;
  throw error;
}

/** Escapes what has a meaning in a pattern of Redis. */
function escaped(text: string): string {
  return text.replaceAll(/[\\*?[\]^-]/g, String.raw`\$&`);
}
