/**
 * Upgrades of files from older versions.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

import { describe, expect, it, onTestFinished } from "vitest";

import { createSqliteLedger } from "../../src/usage/sqlite-ledger.ts";
import { openDatabase, type Database, type DatabaseLayout } from "../../src/sqlite/database.ts";
import { LAYOUT } from "../../src/sqlite/layout.ts";
import { entryWith, keyOf } from "../support/entries.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { ledgerEntry, linesOf } from "../support/ledger.ts";
import { openSqliteBackend, SQLITE_FILE, temporaryDirectory } from "../support/sqlite.ts";

const NOW = Date.UTC(2026, 0, 15, 12);

/** As version 2 made its file, word for word. */
const VERSION_2 = `
    PRAGMA auto_vacuum = INCREMENTAL;
    PRAGMA journal_mode = WAL;
    BEGIN IMMEDIATE;
    CREATE TABLE entries (
      key TEXT PRIMARY KEY,
      stored_at INTEGER NOT NULL,
      keep_until INTEGER NOT NULL,
      used_at INTEGER NOT NULL,
      blob BLOB NOT NULL
    ) STRICT;
    CREATE INDEX entries_by_use ON entries (used_at);
    CREATE INDEX entries_by_end ON entries (keep_until);
    CREATE TABLE totals (entries INTEGER NOT NULL) STRICT;
    INSERT INTO totals VALUES (0);
    CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN UPDATE totals SET entries = entries + 1; END;
    CREATE TRIGGER entry_removed AFTER DELETE ON entries BEGIN UPDATE totals SET entries = entries - 1; END;
    CREATE TABLE purges (epoch INTEGER PRIMARY KEY, at INTEGER NOT NULL, purge TEXT NOT NULL) STRICT;
    CREATE TABLE sends (origin TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
    CREATE INDEX sends_by_instant ON sends (origin, at);
    PRAGMA application_id = 1346852657;
    PRAGMA user_version = 2;
    COMMIT`;

/** A file of version 2 with an answer, a purge and these sends in it. */
function makeVersion2(directory: string, sends: readonly (readonly [origin: string, at: number])[]): void {
  const database = new DatabaseSync(join(directory, SQLITE_FILE));
  database.exec(VERSION_2);
  const insert = database.prepare("INSERT INTO sends (origin, at) VALUES (?, ?)");
  for (const send of sends) insert.run(...send);
  database.exec(`INSERT INTO purges VALUES (7, ${NOW}, '{"scope":{"kind":"all"},"hard":false}')`);
  database.close();
}

/** Tables, indexes and triggers with their text. */
function schemaOf(database: Database): unknown[] {
  return database.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").all();
}

describe("a file of version 2", () => {
  it("is upgraded in place, and its calls still count", async () => {
    const directory = temporaryDirectory();
    makeVersion2(directory, [
      ["api", NOW - 100],
      ["images", NOW - 300],
      ["api", NOW - 200],
      ["api", NOW - 200],
    ]);
    const clock = createFakeClock(NOW);
    const warnings: string[] = [];
    const backend = openSqliteBackend(directory, { clock, warnings });
    const ledger = createSqliteLedger(backend.database, {
      retentionMs: 86_400_000,
      maxRecords: 1_000,
      now: clock.now,
    });
    const line = ledgerEntry({ id: expect.any(String), app: "other", query: "" });
    const api = { ...line, completion: undefined };
    expect(ledger.recent("api", NOW - 1_000)).toEqual([
      { ...api, at: NOW - 200 },
      { ...api, at: NOW - 200 },
      { ...api, at: NOW - 100 },
    ]);
    expect(ledger.recent("images", NOW - 1_000)).toEqual([
      { ...api, at: NOW - 300, origin: "images", resource: "images" },
    ]);
    expect(new Set((await linesOf(ledger)).map(({ id }) => id)).size).toBe(4);
    // Before that only what still counted was kept.
    expect(await ledger.completeSince()).toBe(NOW);
    expect(
      backend.database.prepare("SELECT at, arrived_at FROM ledger WHERE at <> arrived_at").all(),
    ).toEqual([]);

    const events: unknown[] = [];
    backend.onEvent((event) => events.push(event));
    expect(events).toMatchObject([{ kind: "purged", purges: [{ epoch: 7 }] }]);
    expect(await backend.store.set(keyOf("sold/1"), entryWith("new", NOW))).toBe(true);
    ledger.enter(ledgerEntry({ at: NOW }));
    await backend.close();
    expect(warnings).toEqual([]);
    expect(readdirSync(directory)).toEqual([SQLITE_FILE]);
  });

  it("has the same tables as a new file after the upgrade, and is not upgraded again", async () => {
    const [old, fresh] = [temporaryDirectory(), temporaryDirectory()];
    makeVersion2(old, [["api", NOW]]);
    const schemas = [];
    for (const directory of [old, fresh, old]) {
      const { database, close } = openSqliteBackend(directory);
      schemas.push(schemaOf(database));
      expect(database.prepare("PRAGMA user_version").get()).toEqual({ user_version: LAYOUT.version });
      expect(database.prepare("PRAGMA auto_vacuum").get()).toEqual({ auto_vacuum: 2 });
      await close();
    }
    expect(schemas[0]).toEqual(schemas[1]);
    expect(schemas[2]).toEqual(schemas[0]);
  });
});

describe("a file of version 3", () => {
  it("keeps its lines with unknown limits, and takes new lines", async () => {
    const directory = temporaryDirectory();
    makeVersion2(directory, [["api", NOW - 100]]);
    const { 3: _, ...upgrades } = LAYOUT.upgrades;
    // As version 3 upgraded it.
    const before = openDatabase({
      directory,
      layout: { ...LAYOUT, version: 3, upgrades },
      now: NOW,
      warn: (message) => expect.unreachable(message),
    });
    expect(before?.prepare("PRAGMA user_version").get()).toEqual({ user_version: 3 });
    before?.exec("UPDATE ledger SET id = 'old', status = '200', duration_ms = 3");
    before?.close();
    const { database, close } = openSqliteBackend(directory);
    const bounds = { retentionMs: 86_400_000, maxRecords: 1_000, now: () => NOW };
    const ledger = createSqliteLedger(database, bounds);
    ledger.enter(ledgerEntry({ id: "new", at: NOW, limits: "60/60000" }));
    expect((await linesOf(ledger)).map(({ id, limits, completion }) => [id, limits, completion])).toEqual([
      ["old", "", { status: 200, durationMs: 3, arrivedAt: NOW - 100 }],
      ["new", "60/60000", undefined],
    ]);
    await close();
  });
});

describe("upgrades", () => {
  const LAYOUTS: DatabaseLayout = {
    fileName: "test.sqlite",
    applicationId: 77,
    version: 4,
    schema: "CREATE TABLE words (word TEXT, length INTEGER)",
    upgrades: {
      2: "CREATE TABLE words (word TEXT); INSERT INTO words VALUES ('from 2')",
      3: "ALTER TABLE words ADD COLUMN length INTEGER; UPDATE words SET length = length(word)",
    },
  };

  /** The file as a version that made one table of its own has left it. */
  function makeVersion(directory: string, version: number, sql: string): void {
    const database = new DatabaseSync(join(directory, LAYOUTS.fileName));
    database.exec(`${sql}; PRAGMA application_id = 77; PRAGMA user_version = ${version}`);
    database.close();
  }

  function open(
    directory: string,
    layout: Partial<DatabaseLayout> = {},
  ): { readonly database: Database; readonly warnings: string[] } {
    const warnings: string[] = [];
    const database = openDatabase({
      directory,
      layout: { ...LAYOUTS, ...layout },
      now: NOW,
      warn: (message, fields) => void warnings.push(`${message} ${String(fields["reason"])}`),
    });
    if (database === undefined) throw new Error(warnings.join());
    onTestFinished(() => database.close());
    return { database, warnings };
  }

  it("run through every version in between", () => {
    const directory = temporaryDirectory();
    makeVersion(directory, 2, "CREATE TABLE old (word TEXT)");
    const { database, warnings } = open(directory);
    expect(database.prepare("SELECT * FROM words").all()).toEqual([{ word: "from 2", length: 6 }]);
    expect(database.prepare("PRAGMA user_version").get()).toEqual({ user_version: 4 });
    expect(warnings).toEqual([]);
  });

  it("begin at the file's version", () => {
    const directory = temporaryDirectory();
    makeVersion(directory, 3, "CREATE TABLE words (word TEXT); INSERT INTO words VALUES ('three')");
    const { database } = open(directory);
    expect(database.prepare("SELECT * FROM words").all()).toEqual([{ word: "three", length: 5 }]);
  });

  it.each([0, 1, 5, -1, 2_147_483_647])("do not exist for version %i: that file is set aside", (version) => {
    const directory = temporaryDirectory();
    makeVersion(directory, version, "CREATE TABLE words (word TEXT)");
    const { database, warnings } = open(directory);
    expect(warnings).toEqual([expect.stringMatching(`set aside.*a file of version ${version}, not 4`)]);
    expect(database.prepare("SELECT * FROM words").all()).toEqual([]);
    expect(existsSync(join(directory, `${LAYOUTS.fileName}.set-aside-${NOW}`))).toBe(true);
  });

  it("that fail change nothing: the file is set aside as it was", () => {
    const directory = temporaryDirectory();
    makeVersion(directory, 2, "CREATE TABLE old (word TEXT)");
    const { warnings } = open(directory, { upgrades: { ...LAYOUTS.upgrades, 3: "DROP TABLE nowhere" } });
    expect(warnings).toEqual([expect.stringMatching(/set aside.*no such table: nowhere/)]);
    const aside = new DatabaseSync(join(directory, `${LAYOUTS.fileName}.set-aside-${NOW}`));
    expect(aside.prepare("SELECT name FROM sqlite_schema").all()).toEqual([{ name: "old" }]);
    expect(aside.prepare("PRAGMA user_version").get()).toEqual({ user_version: 2 });
    aside.close();
  });
});
