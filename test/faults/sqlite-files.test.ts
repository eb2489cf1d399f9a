/**
 * What the gateway finds where its file should be, and makes of it.
 */
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

import { describe, expect, it } from "vitest";

import { createFakeClock } from "../support/fake-clock.ts";
import { entryWith, keyOf } from "../support/entries.ts";
import {
  openSqliteBackend,
  SQLITE_FILE,
  temporaryDirectory,
  tryOpenSqliteBackend,
} from "../support/sqlite.ts";

const KEY = keyOf("sold/1");
const NOW = Date.UTC(2026, 0, 15, 12);
const ASIDE = `${SQLITE_FILE}.set-aside-${NOW}`;

/** A file of ours with a few hundred pages in it. */
async function filledFile(directory: string): Promise<string> {
  const backend = openSqliteBackend(directory);
  for (let index = 0; index < 200; index++) {
    const picture = { contentType: "image/jpeg", keepUntil: Number.MAX_SAFE_INTEGER };
    await backend.store.set(keyOf(`sold/${index}`), entryWith(Buffer.alloc(10_000, index), NOW, picture));
  }
  await backend.close();
  return join(directory, SQLITE_FILE);
}

/** Overwrites bytes in the middle, page after page: nothing a checksum of ours would have to find. */
function overwrite(file: string): void {
  const content = readFileSync(file);
  for (let at = 4096; at < content.length; at += 4096) content.fill(0xa5, at, at + 64);
  writeFileSync(file, content);
}

function withDatabase(file: string, sql: string): void {
  const database = new DatabaseSync(file);
  database.exec(sql);
  database.close();
}

describe("an unusable file is set aside, and a new one is created:", () => {
  it.each<[string, RegExp, (directory: string) => unknown]>([
    [
      "text",
      /not a database/,
      (directory) => writeFileSync(join(directory, SQLITE_FILE), "räksmörgås ".repeat(1_000)),
    ],
    [
      "damaged in the middle",
      /malformed|damaged/,
      async (directory) => overwrite(await filledFile(directory)),
    ],
    [
      "damaged in its first page",
      /not a database|malformed|damaged/,
      async (directory) => {
        const file = await filledFile(directory);
        writeFileSync(file, readFileSync(file).fill(0xff, 0, 200));
      },
    ],
    [
      "cut off",
      /malformed|damaged/,
      async (directory) => truncateSync(await filledFile(directory), 100 * 4096),
    ],
    [
      "cut off within its header",
      /not a database|malformed/,
      async (directory) => truncateSync(await filledFile(directory), 60),
    ],
    [
      "another application's",
      /another application/,
      (directory) =>
        withDatabase(
          join(directory, SQLITE_FILE),
          "CREATE TABLE letters (text TEXT); INSERT INTO letters VALUES ('dear'); PRAGMA application_id = 7",
        ),
    ],
    [
      "another application's that gives no name",
      /another application/,
      (directory) => withDatabase(join(directory, SQLITE_FILE), "CREATE TABLE entries (key TEXT)"),
    ],
    [
      "a newer version's",
      /version 99/,
      async (directory) => withDatabase(await filledFile(directory), "PRAGMA user_version = 99"),
    ],
    ["a directory", /unable to open/, (directory) => mkdirSync(join(directory, SQLITE_FILE))],
  ])("%s", async (_name, reason, prepare) => {
    const directory = temporaryDirectory();
    await prepare(directory);
    const file = join(directory, SQLITE_FILE);
    const isDirectory = statSync(file).isDirectory();
    const before = isDirectory ? undefined : readFileSync(file);

    const warnings: string[] = [];
    const backend = openSqliteBackend(directory, { warnings, clock: createFakeClock(NOW) });
    expect(warnings).toEqual([expect.stringContaining("set aside")]);
    expect(warnings[0]).toMatch(reason);
    expect(warnings[0]).toContain(ASIDE);
    expect(await backend.store.get(KEY)).toBeUndefined();
    expect(await backend.store.set(KEY, entryWith("new", NOW))).toBe(true);
    await backend.close();

    // An operator may want to inspect it, or it may belong to another program.
    if (isDirectory) expect(statSync(join(directory, ASIDE)).isDirectory()).toBe(true);
    else expect(readFileSync(join(directory, ASIDE)).equals(before ?? Buffer.alloc(0))).toBe(true);
    const again = openSqliteBackend(directory, { warnings, clock: createFakeClock(NOW) });
    expect(await again.store.get(KEY)).toBeDefined();
    expect(warnings).toHaveLength(1);
    await again.close();
  });

  it("together with its write-ahead log", async () => {
    const directory = temporaryDirectory();
    // The log of a process that was killed: copied while that process still runs.
    const running = new DatabaseSync(await filledFile(directory));
    running.exec("PRAGMA user_version = 99; DELETE FROM entries WHERE key LIKE '%1%'");
    const left = running.prepare("SELECT count(*) AS n FROM entries").get();
    const copy = temporaryDirectory();
    for (const suffix of ["", "-wal"])
      copyFileSync(join(directory, SQLITE_FILE + suffix), join(copy, SQLITE_FILE + suffix));
    running.close();

    const backend = openSqliteBackend(copy, { clock: createFakeClock(NOW) });
    expect(await backend.store.get(KEY)).toBeUndefined();
    const aside = new DatabaseSync(join(copy, ASIDE));
    expect(aside.prepare("PRAGMA user_version").get()).toEqual({ user_version: 99 });
    expect(aside.prepare("SELECT count(*) AS n FROM entries").get()).toEqual(left);
    aside.close();
    await backend.close();
  });
});

describe("a usable file is kept:", () => {
  it("an empty one, and one with a write-ahead log from a crash", async () => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, SQLITE_FILE), "");
    appendFileSync(join(directory, `${SQLITE_FILE}-wal`), Buffer.alloc(5_000, 7));
    const warnings: string[] = [];
    const backend = openSqliteBackend(directory, { warnings });
    expect(await backend.store.set(KEY, entryWith("1", Date.now()))).toBe(true);
    expect(await backend.store.get(KEY)).toBeDefined();
    expect(warnings).toEqual([]);
    await backend.close();
  });
});

describe("without a usable directory there is no backend, and the log says why once:", () => {
  it("its parent is a file", () => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, "file"), "");
    const warnings: string[] = [];
    expect(tryOpenSqliteBackend(join(directory, "file", "data"), { warnings })).toBeUndefined();
    expect(warnings).toEqual([expect.stringMatching(/in memory only.*ENOTDIR/)]);
  });

  it("it is a file", () => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, "data"), "mine");
    const warnings: string[] = [];
    expect(tryOpenSqliteBackend(join(directory, "data"), { warnings })).toBeUndefined();
    expect(warnings).toEqual([expect.stringContaining("in memory only")]);
    expect(readFileSync(join(directory, "data"), "utf8")).toBe("mine");
  });

  it("it cannot be created", () => {
    const directory = temporaryDirectory();
    symlinkSync("loop", join(directory, "loop"));
    for (const dataDir of [join(directory, "loop", "data"), "/proc/none/data"]) {
      const warnings: string[] = [];
      expect(tryOpenSqliteBackend(dataDir, { warnings })).toBeUndefined();
      expect(warnings).toEqual([expect.stringMatching(/in memory only.*E[A-Z]+/)]);
    }
  });
});

describe("the files on disk", () => {
  it("can be read only by their owner, and so can the new directories", async () => {
    const directory = temporaryDirectory();
    chmodSync(directory, 0o755);
    const dataDir = join(directory, "var", "data");
    const backend = openSqliteBackend(dataDir);
    await backend.store.set(KEY, entryWith("1", Date.now()));
    const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);
    expect(modeOf(dataDir)).toBe("700");
    for (const suffix of ["", "-wal"]) expect(modeOf(join(dataDir, SQLITE_FILE + suffix))).toBe("600");
    await backend.close();
  });

  it("are one file after closing", async () => {
    const directory = temporaryDirectory();
    await filledFile(directory);
    expect(readdirSync(directory)).toEqual([SQLITE_FILE]);
  });

  it("are created again after they were deleted", async () => {
    const directory = temporaryDirectory();
    rmSync(await filledFile(directory));
    const warnings: string[] = [];
    const backend = openSqliteBackend(directory, { warnings });
    expect(await backend.store.get(KEY)).toBeUndefined();
    expect(existsSync(join(directory, SQLITE_FILE))).toBe(true);
    expect(warnings).toEqual([]);
    await backend.close();
  });
});
