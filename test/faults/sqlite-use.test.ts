/**
 * The file in use: within its bound, and out of order.
 */
import { closeSync, openSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { StoreUnavailable } from "../../src/errors.ts";
import type { Entry } from "../../src/cache/entry.ts";
import { createRandom } from "../support/random.ts";
import { entryWith, keyOf } from "../support/entries.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { temporaryDirectory } from "../support/files.ts";
import { openSqliteStore, SQLITE_FILE } from "../support/sqlite.ts";

const HOUR_MS = 3_600_000;
const PICTURE = { contentType: "image/jpeg" };

function setup(maxBytes?: number, states: string[] = []) {
  const directory = temporaryDirectory();
  const clock = createFakeClock();
  const warnings: string[] = [];
  const backend = openSqliteStore(directory, {
    clock,
    warnings,
    onBreaker: (state) => void states.push(state),
    ...(maxBytes !== undefined && { maxBytes }),
  });
  onTestFinished(backend.close);
  return {
    backend,
    clock,
    warnings,
    file: join(directory, SQLITE_FILE),
    /** A picture of so many bytes, stored now. */
    picture: (bytes: number, changes?: Partial<Entry>) =>
      entryWith(Buffer.alloc(bytes, 7), clock.now(), { ...PICTURE, ...changes }),
  };
}

describe("the size limit", () => {
  it("holds for the file itself under random writes", async () => {
    const maxBytes = 2_000_000;
    const { backend, clock, file, picture } = setup(maxBytes);
    const random = createRandom(1);
    for (let round = 0; round < 1_000; round++) {
      await clock.advance(random.between(0, 20_000));
      const bytes = random.chance(0.1) ? random.between(30_000, 200_000) : random.between(1, 12_000);
      const key = keyOf(`${"k".repeat(random.pick([1, 1, 1, 4_000]))}/${random.between(1, 600)}`);
      await backend.set(key, picture(bytes, { keepUntil: clock.now() + random.between(1, HOUR_MS) }));
      if (random.chance(0.2)) await backend.remove(key);
      expect(backend.stats()?.bytes).toBeLessThanOrEqual(maxBytes);
    }
    expect(backend.stats()?.entries).toBeGreaterThan(50);
    await backend.close();
    expect(statSync(file).size).toBeLessThanOrEqual(maxBytes);
  });

  it("is kept by dropping first expired entries, then those stored longest ago", async () => {
    const { backend: store, clock, picture } = setup(1_000_000);
    await store.set(keyOf("cold"), picture(10_000));
    for (let index = 0; index < 40; index++) {
      await store.set(keyOf(`brief/${index}`), picture(10_000, { keepUntil: clock.now() + 60_000 }));
    }
    await clock.advance(120_000);
    // Room for all of these is in the place of the brief ones.
    for (let index = 0; index < 70; index++) await store.set(keyOf(`new/${index}`), picture(10_000));
    expect(store.stats()?.evictions).toBe(0);
    expect(await store.get(keyOf("cold"))).toBeDefined();
    for (let index = 70; index < 300; index++) {
      await clock.advance(10_000);
      await store.set(keyOf(`new/${index}`), picture(10_000));
    }
    expect(await store.get(keyOf("cold"))).toBeUndefined();
    expect(await store.get(keyOf("new/299"))).toBeDefined();
    expect(store.stats()?.evictions).toBeGreaterThan(100);
  });

  it("does not let one huge entry evict the others", async () => {
    const { backend, picture } = setup(1_000_000);
    await backend.set(keyOf("small"), picture(10_000));
    expect(await backend.set(keyOf("giant"), picture(200_000))).toBe("too-large");
    expect(await backend.get(keyOf("small"))).toBeDefined();
  });

  it("evicts nothing for an entry that is older than the stored one", async () => {
    const { backend: store, clock, picture } = setup(1_000_000);
    for (let index = 0; store.stats()?.evictions === 0; index++)
      await store.set(keyOf(`${index}`), picture(10_000));
    await clock.advance(1_000);
    await store.set(keyOf("newest"), picture(100_000));
    const before = store.stats();
    for (let round = 0; round < 20; round++) {
      const older = picture(100_000, { storedAt: clock.now() - 1 });
      expect(await store.set(keyOf("newest"), older)).toBe("newer-stored");
    }
    expect(store.stats()).toEqual(before);
  });

  it("is kept again after some writes when it was lowered", async () => {
    const directory = temporaryDirectory();
    const file = join(directory, SQLITE_FILE);
    const large = openSqliteStore(directory);
    for (let index = 0; index < 800; index++)
      await large.set(keyOf(`old/${index}`), entryWith(Buffer.alloc(10_000, 7), undefined, PICTURE));
    await large.close();
    expect(statSync(file).size).toBeGreaterThan(8_000_000);
    const small = openSqliteStore(directory, { maxBytes: 1_000_000 });
    for (let index = 0; index < 60; index++)
      await small.set(keyOf(`new/${index}`), entryWith(Buffer.alloc(10_000, 7), Date.now(), PICTURE));
    expect(await small.get(keyOf("new/59"))).toBeDefined();
    await small.close();
    expect(statSync(file).size).toBeLessThanOrEqual(1_000_000);
  });
});

it("a full disk refuses writes, still serves reads, and is logged once", async () => {
  const states: string[] = [];
  const { backend: store, clock, warnings, picture } = setup(undefined, states);
  await store.set(keyOf("sold/1"), picture(50_000));
  const pages = Number(store.database.prepare("PRAGMA page_count").get()?.["page_count"]);
  // SQLite then reports the same error as for a full disk.
  store.database.exec(`PRAGMA max_page_count = ${pages}`);
  for (let round = 0; round < 5; round++) {
    await expect(store.set(keyOf("sold/2"), picture(500_000))).rejects.toThrow(StoreUnavailable);
    expect(await store.get(keyOf("sold/1"))).toBeDefined();
    await clock.advance(90_000);
  }
  expect(warnings).toEqual([expect.stringMatching(/out of order: the cache on disk: .*full/)]);

  store.database.exec("PRAGMA max_page_count = 1000000");
  expect(await store.set(keyOf("sold/2"), picture(500_000))).toBe(true);
  expect(await store.get(keyOf("sold/2"))).toBeDefined();
  expect(warnings.slice(1)).toEqual(["back in order: the cache on disk"]);
  expect(states).toEqual(["open", "closed"]);
});

it("a file that is damaged while the process runs gives correct answers, misses or an outage, and is refused at the next start", async () => {
  const { backend: store, clock, warnings, file, picture } = setup();
  for (let index = 0; index < 300; index++) {
    await store.set(keyOf(`sold/${index}`), entryWith(Buffer.alloc(10_000, index), clock.now(), PICTURE));
  }
  store.database.exec("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA cache_size = 1; PRAGMA shrink_memory");
  const random = createRandom(1);
  const descriptor = openSync(file, "r+");
  for (let at = 4096 * 3; at < statSync(file).size; at += random.between(4096, 40_960))
    writeSync(descriptor, Buffer.alloc(64, 0xa5), 0, 64, at);
  closeSync(descriptor);

  const seen = { right: 0, missed: 0, refused: 0 };
  for (let index = 0; index < 300; index++) {
    const found = await store.get(keyOf(`sold/${index}`)).catch((error: unknown) => {
      expect(error).toBeInstanceOf(StoreUnavailable);
      return "refused" as const;
    });
    await clock.advance(2_000);
    if (found === "refused") seen.refused++;
    else if (found === undefined) seen.missed++;
    else {
      seen.right++;
      expect(found.bodies.identity?.equals(Buffer.alloc(10_000, index))).toBe(true);
    }
  }
  expect(seen.missed + seen.refused).toBeGreaterThan(20);
  await store.set(keyOf("new"), picture(1_000)).catch((error: unknown) => {
    expect(error).toBeInstanceOf(StoreUnavailable);
  });
  await store.close();
  expect(() => openSqliteStore(join(file, ".."), { warnings, clock })).toThrow(/damaged|cannot be read/);
});

it("a closed backend refuses everything without a log line", async () => {
  const { backend, warnings, picture } = setup();
  const late = backend.set(keyOf("sold/1"), entryWith("x".repeat(100_000)));
  await backend.close();
  await backend.close();
  await expect(late).rejects.toThrow(StoreUnavailable);
  await expect(backend.get(keyOf("sold/1"))).rejects.toThrow(StoreUnavailable);
  await expect(backend.set(keyOf("sold/1"), picture(1))).rejects.toThrow(StoreUnavailable);
  await expect(backend.remove(keyOf("sold/1"))).rejects.toThrow(StoreUnavailable);
  await expect(backend.purge({ kind: "all" }, true)).rejects.toThrow(StoreUnavailable);
  expect(backend.stats()).toBeUndefined();
  expect(warnings).toEqual([]);
});
