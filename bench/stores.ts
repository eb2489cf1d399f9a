import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createMemoryStore } from "../src/cache/store/memory.ts";
import type { Store } from "../src/cache/store/port.ts";
import { systemClock } from "../src/process/clock.ts";
import { entryWith, keyOf } from "../test/support/entries.ts";
import { openRedisBackend } from "../test/support/redis-backend.ts";
import { startRedis } from "../test/support/redis.ts";
import { openSqliteBackend } from "../test/support/sqlite.ts";
import { measure, type Measured } from "./measure.ts";
import { micros, printTable, ratio } from "./table.ts";

const SIZES_KB = [1, 15, 150];
const KEYS = 100;

/** A body that compresses like JSON, to about a fifth. */
function bodyOf(kilobytes: number): Buffer {
  const noise = randomBytes(Math.ceil((kilobytes * 1024) / 8)).toString("hex");
  return Buffer.from(noise.replaceAll(/(.{8})/g, '$1,"name":"Nacka","x":1,').slice(0, kilobytes * 1024));
}

/** Measures lookups in each tier: their rate, their CPU time, and the latency that they add to a lookup in memory. */
export async function benchStores(forMs: number): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), "property-gateway-bench-"));
  const redis = await startRedis();
  const sqlite = openSqliteBackend(dataDir);
  const shared = openRedisBackend(redis.settings);
  const stores: Store[] = [createMemoryStore(1_000_000_000, systemClock), sqlite.store, shared.store];
  const rows: string[][] = [];
  for (const kilobytes of SIZES_KB) {
    let inMemory: Measured | undefined;
    for (const store of stores) {
      const result = await benchStore(store, kilobytes, forMs);
      inMemory ??= result;
      rows.push([
        `${store.tier} ${kilobytes} KB`,
        Math.round(result.perSecond).toLocaleString("en"),
        micros(result.cpuMs),
        ratio(result.cpuMs, inMemory.cpuMs),
        micros(result.wallMs - inMemory.wallMs),
      ]);
    }
  }
  printTable("Lookups", ["tier and body", "per second", "CPU each", "of memory's", "added latency"], rows);
  await sqlite.close();
  await shared.close();
  await redis.close();
  rmSync(dataDir, { recursive: true });
}

/** Measures throughput and CPU time with sixteen lookups at a time, and latency with one at a time. */
async function benchStore(store: Store, kilobytes: number, forMs: number): Promise<Measured> {
  const body = bodyOf(kilobytes);
  for (let index = 0; index < KEYS; index++) {
    await store.set(keyOf(`sold/${kilobytes}-${index}`), entryWith(body, Date.now()));
  }
  let next = 0;
  const lookup = async (): Promise<void> => {
    const entry = await store.get(keyOf(`sold/${kilobytes}-${next++ % KEYS}`));
    if (entry === undefined) throw new Error(`${store.tier} lost an entry`);
  };
  await measure(forMs / 4, 16, lookup);
  const busy = await measure(forMs, 16, lookup);
  const alone = await measure(forMs / 2, 1, lookup);
  return { ...busy, wallMs: alone.wallMs };
}
