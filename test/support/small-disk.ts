/**
 * A disk of 900 KiB that can be filled to the last byte. Where the tests may not mount one, only the database is kept
 * from growing: SQLite reports the same error then.
 */
import { spawnSync } from "node:child_process";
import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";

import { onTestFinished } from "vitest";

import type { Database } from "../../src/sqlite/database.ts";
import { temporaryDirectory } from "./files.ts";

export interface SmallDisk {
  readonly directory: string;
  /** Takes all the space that is left. */
  readonly fill: (database?: Database) => void;
  /** Gives that space back. */
  readonly empty: (database: Database) => void;
}

export function createSmallDisk(): SmallDisk {
  const directory = temporaryDirectory();
  if (!mountDisk(directory, "900k")) return { directory, fill: stopGrowth, empty: allowGrowth };
  onTestFinished(() => void spawnSync("umount", ["--lazy", directory]));
  const filler = join(directory, "filler");
  return { directory, fill: () => fillDisk(filler), empty: () => rmSync(filler, { force: true }) };
}

/** @returns whether a disk of that size is there now */
export function mountDisk(directory: string, size: string): boolean {
  return spawnSync("mount", ["-t", "tmpfs", "-o", `size=${size},mode=700`, "tmpfs", directory]).status === 0;
}

/** Writes a file until its disk is full. */
export function fillDisk(file: string): void {
  const descriptor = openSync(file, "a");
  for (let bytes = 65_536; bytes >= 1;) {
    try {
      writeSync(descriptor, Buffer.alloc(bytes));
    } catch {
      bytes = Math.floor(bytes / 2);
    }
  }
  closeSync(descriptor);
}

function stopGrowth(database?: Database): void {
  if (!database?.isOpen) return;
  const pages = Number(database.prepare("PRAGMA page_count").get()?.["page_count"]);
  database.exec(`PRAGMA max_page_count = ${pages}`);
}

function allowGrowth(database: Database): void {
  database.exec("PRAGMA max_page_count = 1000000");
}
