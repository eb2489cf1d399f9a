/** The ledger in memory and in a file: random operations beside a plain list, ages over restarts, and its bounds. */
import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { StoreUnavailable } from "../../src/errors.ts";
import {
  instantOf,
  type LedgerBounds,
  type LedgerLine,
  type OwnLedger,
} from "../../src/usage/ledger-line.ts";
import { createMemoryLedger, createSqliteLedger } from "../../src/usage/sqlite-ledger.ts";
import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";
import { ledgerEntry, ledgerLine, linesOf, piecesOf } from "../support/ledger.ts";
import { createRandom } from "../support/random.ts";
import { temporaryDirectory } from "../support/files.ts";
import { openSqliteStore } from "../support/sqlite.ts";

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

/** One life of a process on the file of a directory. */
async function during<T>(
  directory: string,
  clock: LedgerBounds["clock"],
  work: (ledger: OwnLedger) => T,
  bounds: Partial<LedgerBounds> = {},
): Promise<Awaited<T>> {
  const { database, close } = openSqliteStore(directory);
  try {
    return await work(
      createSqliteLedger(database, { retentionMs: 35 * DAY_MS, maxRecords: 10_000, clock, ...bounds }),
    );
  } finally {
    await close();
  }
}

const byInstant = (one: LedgerLine, other: LedgerLine): number => instantOf(one) - instantOf(other);
const byId = (one: LedgerLine, other: LedgerLine): number => (one.id < other.id ? -1 : 1);
const idsOf = (lines: readonly LedgerLine[]): string[] => lines.map(({ id }) => id).toSorted();

describe.each(["in memory", "in a file"])("a ledger %s", (kind) => {
  function open(clock: FakeClock): OwnLedger {
    const bounds = { retentionMs: 35 * DAY_MS, maxRecords: 100_000, clock };
    if (kind === "in memory") return createMemoryLedger(bounds);
    return createSqliteLedger(openSqliteStore(temporaryDirectory()).database, bounds);
  }

  it("returns what was entered and completed, as a plain list does", async () => {
    const random = createRandom(1);
    const clock = createFakeClock();
    const start = clock.now();
    const ledger = open(clock);
    expect((await ledger.completeness()).since).toBe(start);
    const list = new Map<string, LedgerLine>();
    for (let step = 0; step < 2_000; step++) {
      await clock.advance(random.between(0, 20));
      // Some ids come twice, and some are unknown.
      const id = `räk smörgås 🦐 "' ${random.between(0, 2_000)}`;
      if (random.chance(0.6)) {
        const origin = random.pick(["api", "images"] as const);
        const entry = ledgerEntry({ id, at: clock.now(), origin, limits: random.pick(["", "60/60000"]) });
        ledger.enter(entry);
        if (!list.has(id)) list.set(id, { ...entry, completion: undefined });
      } else {
        const status = random.pick([200, 404, 503, "reset", "header-timeout", "unsent"] as const);
        const completion = { status, durationMs: 12, arrivedAt: clock.now() - random.between(0, 9) };
        ledger.complete(id, completion);
        const line = list.get(id);
        if (line !== undefined) list.set(id, { ...line, completion });
      }
      if (step % 500 !== 0) continue;
      const [from, to] = [start + random.between(0, 10_000), start + random.between(10_000, 30_000)];
      const expected = [...list.values()].filter(({ at }) => from <= at && at < to);
      expect((await linesOf(ledger, from, to)).toSorted(byId)).toEqual(expected.toSorted(byId));
      const sent = [...list.values()].filter(
        (line) => line.origin === "api" && line.completion?.status !== "unsent" && instantOf(line) >= from,
      );
      const recent = ledger.recent("api", from);
      expect(recent.toSorted(byId)).toEqual(sent.toSorted(byId));
      expect(recent.toSorted(byInstant)).toEqual(recent);
    }
    const pieces = await piecesOf(ledger);
    expect(pieces.length).toBeGreaterThan(1);
    expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThanOrEqual(500);
    expect(idsOf(pieces.flat())).toEqual([...list.keys()].toSorted());
  });
});

it.each<[string, number, string, number]>([
  ["the clock was set forward before the kill", DAY_MS, "same", MINUTE_MS],
  ["the clock was set forward further than the ledger keeps lines", 40 * DAY_MS, "same", MINUTE_MS],
  ["the clock was set back before the kill", -DAY_MS, "same", MINUTE_MS],
  ["the machine started again: the time of day counts", 0, "new", MINUTE_MS],
  ["the machine started again, and a line of the future was corrected meanwhile", -DAY_MS, "new", 30_000],
])("the age of a call after a restart: %s", async (_title, setByMs, boot, ageMs) => {
  const directory = temporaryDirectory();
  const clock = createFakeClock();
  await during(directory, clock, async (ledger) => {
    ledger.enter(ledgerEntry({ id: "under way", at: clock.now() }));
    ledger.enter(ledgerEntry({ id: "arrived", at: clock.now() - 1_000 }));
    ledger.complete("arrived", { status: 200, durationMs: 1_000, arrivedAt: clock.now() });
    await clock.advance(30_000);
    clock.set(clock.now() + setByMs);
    // The ledger drops old lines at intervals.
    for (let each = 0; each < 300; each++)
      ledger.enter(ledgerEntry({ id: `later ${each}`, at: clock.now(), origin: "images" }));
    await clock.advance(30_000);
  });
  const machine = boot === "same" ? clock.machine : { boot, up: () => 1_000 };
  await during(directory, { ...clock, machine }, (ledger) => {
    const lines = ledger.recent("api", 0);
    expect(idsOf(lines)).toEqual(["arrived", "under way"]);
    for (const line of lines) expect(clock.now() - instantOf(line)).toBe(ageMs);
    expect(ledger.recent("api", clock.now() - ageMs)).toHaveLength(2);
    expect(ledger.recent("api", clock.now() - ageMs + 1)).toHaveLength(0);
  });
});

describe("the ledger in a file", () => {
  it("waits until a call is on the disk; what belongs to answers does not wait", async () => {
    const { database, close } = openSqliteStore(temporaryDirectory());
    const clock = createFakeClock();
    const ledger = createSqliteLedger(database, { retentionMs: DAY_MS, maxRecords: 10, clock });
    const levels: unknown[] = [];
    // 2 is FULL: SQLite waits for the disk at each transaction. 1 is NORMAL.
    const level = (): unknown => database.prepare("PRAGMA synchronous").get()?.["synchronous"];
    database.function("note_level", () => {
      levels.push(level());
      return null;
    });
    database.exec("CREATE TEMP TRIGGER watch AFTER INSERT ON ledger BEGIN SELECT note_level(); END");
    ledger.enter(ledgerEntry({ at: clock.now() }));
    expect([levels, level()]).toEqual([[2], 1]);
    await close();
  });

  it("is read in pieces that begin where the last one ended, not at the beginning of the period", async () => {
    const { database } = openSqliteStore(temporaryDirectory());
    const ledger = createSqliteLedger(database, { retentionMs: 1, maxRecords: 1, clock: createFakeClock() });
    // With few pages in memory, the system counts what SQLite reads.
    database.exec(`PRAGMA cache_size = 10;
      WITH RECURSIVE lines (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM lines LIMIT 40000)
      INSERT INTO ledger (id, origin, at, app, resource, cause, query, limits, boot, up)
      SELECT n, 'api', n, 'web', 'listings', 'miss', '', '', '', 0 FROM lines`);
    const bytesRead = (): number => Number(/^rchar: (\d+)/.exec(readFileSync("/proc/self/io", "utf8"))?.[1]);
    const before = bytesRead();
    expect(await linesOf(ledger)).toHaveLength(40_000);
    expect(bytesRead() - before).toBeLessThan(5_000_000);
  });

  it("drops lines older than the retention, and says since when it is complete, over restarts", async () => {
    const directory = temporaryDirectory();
    const clock = createFakeClock();
    const start = clock.now();
    for (let day = 0; day < 40; day++) {
      clock.set(start + day * DAY_MS);
      const machine = { boot: String(day), up: () => 1_000 };
      await during(directory, { ...clock, machine }, (ledger) => {
        for (let each = 0; each < 10; each++)
          ledger.enter(ledgerEntry({ id: `${day}/${each}`, at: clock.now() + each }));
      });
    }
    await during(directory, clock, async (ledger) => {
      const oldest = clock.now() - 35 * DAY_MS;
      const { since } = await ledger.completeness();
      expect(since).toBeGreaterThan(start);
      expect(since).toBeLessThanOrEqual(oldest + DAY_MS);
      // Nothing that is young enough is gone.
      expect(await linesOf(ledger, oldest + 1)).toHaveLength(10 * 35 + 10 - 1);
    });
  });

  it("drops the oldest lines beyond its maximum", async () => {
    const clock = createFakeClock();
    const start = clock.now();
    let overflows = 0;
    const bounds = { maxRecords: 100, onOverflow: () => void overflows++ };
    const fill = async (ledger: OwnLedger): Promise<void> => {
      for (let each = 0; each < 800; each++) {
        await clock.advance(1);
        ledger.enter(ledgerEntry({ id: String(each), at: clock.now() }));
      }
      const held = await linesOf(ledger);
      expect(held.length).toBeGreaterThanOrEqual(100);
      expect(held.length).toBeLessThanOrEqual(100 + 256);
      const { since } = await ledger.completeness();
      expect(since).toBe(Math.min(...held.map(({ at }) => at)));
      expect(since).toBeGreaterThan(start + 300);
      expect(overflows).toBeGreaterThan(0);
    };
    await during(temporaryDirectory(), clock, fill, bounds);
  });

  it("stores whole milliseconds", async () => {
    const clock = createFakeClock();
    const start = clock.now();
    await during(temporaryDirectory(), clock, async (ledger) => {
      ledger.enter(ledgerEntry({ at: start + 0.25 }));
      ledger.complete("send-1", { status: 200, durationMs: 12.5001, arrivedAt: start + 3.75 });
      const completion = { status: 200, durationMs: 13, arrivedAt: start + 4 };
      expect(await linesOf(ledger)).toEqual([ledgerLine({ at: start, completion })]);
    });
  });

  it("that cannot be read fails as every store does", async () => {
    const ledger = await during(temporaryDirectory(), createFakeClock(), (opened) => opened);
    await expect(linesOf(ledger)).rejects.toThrow(StoreUnavailable);
    await expect(ledger.completeness()).rejects.toThrow(StoreUnavailable);
    expect(() => ledger.enter(ledgerEntry())).toThrow();
    expect(() => ledger.recent("api", 0)).toThrow();
  });
});
