/**
 * What the gateway finds where its file should be, and makes of it.
 */
import fs from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

import { describe, expect, it } from "vitest";

import { entryWith, keyOf } from "../support/entries.ts";
import { UnusableData } from "../../src/sqlite/files.ts";
import { startFleet } from "../support/fleet.ts";
import { temporaryDirectory } from "../support/files.ts";
import { createSmallDisk } from "../support/small-disk.ts";
import { openSqliteStore, SQLITE_FILE } from "../support/sqlite.ts";

const KEY = keyOf("sold/1");
const NOW = Date.UTC(2026, 0, 15, 12);

/** A file of ours with more than a hundred pages in it. */
async function filledFile(directory: string): Promise<string> {
  const backend = openSqliteStore(directory);
  for (let index = 0; index < 60; index++) {
    const picture = { contentType: "image/jpeg", keepUntil: Number.MAX_SAFE_INTEGER };
    await backend.set(keyOf(`sold/${index}`), entryWith(Buffer.alloc(10_000, index), NOW, picture));
  }
  await backend.close();
  return join(directory, SQLITE_FILE);
}

/** Overwrites bytes in the middle, page after page: nothing a checksum of ours would have to find. */
function overwrite(file: string): void {
  const content = fs.readFileSync(file);
  for (let at = 4096; at < content.length; at += 4096) content.fill(0xa5, at, at + 64);
  fs.writeFileSync(file, content);
}

function withDatabase(file: string, sql: string): void {
  const database = new DatabaseSync(file);
  database.exec(sql);
  database.close();
}

/** What an operator reads if the gateway does not start. */
function refusalOf(dataDir: string): string {
  try {
    openSqliteStore(dataDir);
  } catch (error) {
    expect(error).toBeInstanceOf(UnusableData);
    return String(error);
  }
  throw new Error("it was opened");
}

it.each<[string, RegExp, (file: string, directory: string) => unknown]>([
  ["text", /cannot be read.*To begin a new one/, (file) => fs.writeFileSync(file, "räka ".repeat(1_000))],
  [
    "damaged in the middle",
    /damaged|malformed.*To begin a new one/,
    async (_, directory) => overwrite(await filledFile(directory)),
  ],
  ["cut", /damaged|malformed/, async (_, directory) => fs.truncateSync(await filledFile(directory), 409_600)],
  [
    "another application's",
    /another application\. Set another directory/,
    (file) => withDatabase(file, "CREATE TABLE letters (text TEXT); PRAGMA application_id = 7"),
  ],
  [
    "a newer version's",
    /a newer version .*layout 99.*Run that version again.*first wait for the longest window of BUDGET/,
    async (_, directory) => withDatabase(await filledFile(directory), "PRAGMA user_version = 99"),
  ],
  [
    "an older version's",
    /an older version .*layout 6.*To begin a new one, remove/,
    async (_, directory) => withDatabase(await filledFile(directory), "PRAGMA user_version = 6"),
  ],
  ["a link", /is a link.*Move it away/, (file, directory) => fs.symlinkSync(join(directory, "other"), file)],
  [
    "a hard link",
    /is a link.*Move it away/,
    (file, directory) => {
      fs.writeFileSync(join(directory, "other"), "");
      fs.linkSync(join(directory, "other"), file);
    },
  ],
  ["a link as its log", /-wal is a link/, (file, directory) => fs.symlinkSync(directory, `${file}-wal`)],
  ["a directory", /is a directory.*Move it away/, (file) => fs.mkdirSync(file)],
])("a file that cannot be used is refused and not touched: %s", async (_name, reason, prepare) => {
  const directory = temporaryDirectory();
  const file = join(directory, SQLITE_FILE);
  await prepare(file, directory);
  const isFile = fs.lstatSync(file, { throwIfNoEntry: false })?.isFile() === true;
  const before = isFile ? fs.readFileSync(file) : undefined;
  const refusal = refusalOf(directory);
  expect(refusal).toMatch(reason);
  expect(refusal).toContain(file);
  if (before !== undefined) expect(fs.readFileSync(file).equals(before)).toBe(true);
});

describe("a directory that cannot be used is refused:", () => {
  it.each<[string, (directory: string) => string]>([
    ["its parent is a file", (directory) => join(directory, "file", "data")],
    ["it is a file", (directory) => join(directory, "file")],
    ["its parent is a link to itself", (directory) => join(directory, "loop", "data")],
    ["it cannot be created", () => "/proc/none/data"],
  ])("%s", (_name, dataDirIn) => {
    const directory = temporaryDirectory();
    fs.writeFileSync(join(directory, "file"), "mine");
    fs.symlinkSync("loop", join(directory, "loop"));
    const dataDir = dataDirIn(directory);
    expect(refusalOf(dataDir)).toMatch(/cannot be used \(.*E[A-Z]+.*\)\. Mend it, or set DATA_DIR/);
    expect(refusalOf(dataDir)).toContain(dataDir);
    expect(fs.readFileSync(join(directory, "file"), "utf8")).toBe("mine");
  });

  it("its disk has little or no space, wherever that ends", () => {
    for (let leftBytes = 0; leftBytes <= 800_000; leftBytes += 50_000) {
      const { directory, fill } = createSmallDisk();
      fs.writeFileSync(join(directory, "left"), Buffer.alloc(leftBytes));
      fill();
      fs.rmSync(join(directory, "left"));
      try {
        void openSqliteStore(directory).close();
      } catch (error) {
        expect(String(error)).toMatch(/UnusableData: .* cannot be used \(.*full\)\. Mend it/);
      }
    }
  });

  it("every user can write to it, so the gateway ends with one line and exit code 1", async () => {
    const directory = temporaryDirectory();
    fs.chmodSync(directory, 0o777);
    const gateway = (await startFleet({ DATA_DIR: directory })).begin();
    expect(await gateway.ended).toBe(1);
    const line = /^.*\n +dataDir \(DATA_DIR\): every user can write to .*Run "chmod o-w .*\n$/;
    expect(gateway.output()).toMatch(line);
    expect(fs.readdirSync(directory)).toEqual([]);
  });
});

it("a usable file is kept: an empty one, and one with a write-ahead log from a crash", async () => {
  const directory = temporaryDirectory();
  fs.writeFileSync(join(directory, SQLITE_FILE), "");
  fs.appendFileSync(join(directory, `${SQLITE_FILE}-wal`), Buffer.alloc(5_000, 7));
  const warnings: string[] = [];
  const backend = openSqliteStore(directory, { warnings });
  expect(await backend.set(KEY, entryWith("1", Date.now()))).toBe(true);
  expect(await backend.get(KEY)).toBeDefined();
  expect(warnings).toEqual([]);
  await backend.close();
});

describe("the files on disk", () => {
  it("can be read only by their owner, and so can the new directories", async () => {
    const directory = temporaryDirectory();
    fs.chmodSync(directory, 0o755);
    const dataDir = join(directory, "var", "data");
    const backend = openSqliteStore(dataDir);
    await backend.set(KEY, entryWith("1", Date.now()));
    const modeOf = (path: string): string => (fs.statSync(path).mode & 0o777).toString(8);
    expect(modeOf(dataDir)).toBe("700");
    for (const suffix of ["", "-wal"]) expect(modeOf(join(dataDir, SQLITE_FILE + suffix))).toBe("600");
    await backend.close();
  });

  it("are one file after closing", async () => {
    const directory = temporaryDirectory();
    await filledFile(directory);
    expect(fs.readdirSync(directory)).toEqual([SQLITE_FILE]);
  });
});
