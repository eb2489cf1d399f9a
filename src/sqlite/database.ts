/**
 * Opens the SQLite file for this process alone. If the file is unusable, it is renamed and a new one is created.
 */
import { renameSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

import { withBallast } from "./ballast.ts";
import { isFaultOfContent, isInUse } from "./faults.ts";
import { createPrivately, makeDirectory } from "./files.ts";

export type Database = DatabaseSync;

/** Steps that free space on a full disk. */
export interface DatabaseSpace {
  /**
   * Moves the content of the write-ahead log to the file, so that SQLite writes the log from its beginning again. Throws if
   * the disk has no space for that.
   */
  readonly checkpoint: () => void;
  /** Evicts some cached answers and frees their space as far as possible. @returns whether there were any */
  readonly evict: () => boolean;
}

/** The tables in the file. */
export interface DatabaseLayout {
  readonly fileName: string;
  /** Marks the file as ours (`PRAGMA application_id`). The gateway never writes to the file of another application. */
  readonly applicationId: number;
  /** Increase it when the tables change. An older file is upgraded; a newer one is set aside. */
  readonly version: number;
  /** Creates the tables in an empty file. */
  readonly schema: string;
  /** Statements that upgrade a file from this version to the next one. Without them, the file is set aside. */
  readonly upgrades: Readonly<Partial<Record<number, string>>>;
}

export interface OpenDatabaseOptions {
  /** Created if it does not exist. */
  readonly directory: string;
  readonly layout: DatabaseLayout;
  /** Epoch milliseconds, for the name of a file that is set aside. */
  readonly now: number;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
}

/** Another process uses the file. */
export class DatabaseInUse extends Error {
  override readonly name = "DatabaseInUse";
}

/** In a rolling restart, the other process ends within this time. The event loop is blocked during the wait. */
const WAIT_FOR_RELEASE_MS = 5_000;
/** The write-ahead log is truncated to this size, in bytes. */
const WRITE_LOG_BYTES = 8 * 1024 * 1024;

/**
 * Opens the database. If another process uses it, waits for that process to end.
 * @returns `undefined` if nothing can be kept on disk; the log says why
 * @throws {DatabaseInUse} if the other process does not end in time
 */
export function openDatabase(options: OpenDatabaseOptions): Database | undefined {
  const file = join(options.directory, options.layout.fileName);
  try {
    return withBallast(options.directory, () => openAlone(file, options));
  } catch (error) {
    if (error instanceof DatabaseInUse) throw error;
    if (!isFaultOfFile(error) || !setAside(file, error, options)) return giveUp(file, error, options);
  }
  try {
    return tryOpen(file, options, 0);
  } catch (error) {
    return giveUp(file, error, options);
  }
}

function openAlone(file: string, options: OpenDatabaseOptions): Database {
  try {
    return tryOpen(file, options, 0);
  } catch (error) {
    if (!isInUse(error)) throw error;
  }
  options.warn("Another process uses the file: waiting for it to end.", {
    file,
    waitMs: WAIT_FOR_RELEASE_MS,
  });
  try {
    return tryOpen(file, options, WAIT_FOR_RELEASE_MS);
  } catch (error) {
    throw isInUse(error) ? new DatabaseInUse(`another process uses ${file}`, { cause: error }) : error;
  }
}

/** This version of the gateway cannot use the content of the file. */
class UnusableFile extends Error {}

/** @throws if the file cannot be opened, is in use, is damaged, or has other tables */
function tryOpen(file: string, { directory, layout }: OpenDatabaseOptions, waitMs: number): Database {
  makeDirectory(directory);
  createPrivately(file);
  const database = new DatabaseSync(file);
  try {
    // With the exclusive mode, this connection keeps the file locked from its first transaction until it closes.
    database.exec(`PRAGMA busy_timeout = ${waitMs}; PRAGMA locking_mode = EXCLUSIVE`);
    const { isNew } = stateOf(database, layout);
    // Without this before the first table, free pages could not be returned to the disk.
    if (isNew) database.exec("PRAGMA auto_vacuum = INCREMENTAL");
    database.exec(
      `PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = ${WRITE_LOG_BYTES}`,
    );
    if (!isNew && database.prepare("PRAGMA quick_check(1)").get()?.["quick_check"] !== "ok")
      throw new UnusableFile("a damaged file");
    bringUpToDate(database, layout);
    // No other process can have a lock now, so a wait would only delay all callers.
    database.exec("PRAGMA busy_timeout = 0");
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

interface FileState {
  /** The file is empty. */
  readonly isNew: boolean;
  /** The statements that create or upgrade the tables, in order. */
  readonly steps: readonly string[];
}

/** @throws if the file is neither empty nor ours in a usable version */
function stateOf(database: Database, layout: DatabaseLayout): FileState {
  const found = database
    .prepare(
      `SELECT (SELECT application_id FROM pragma_application_id) AS owner,
         (SELECT user_version FROM pragma_user_version) AS version, count(*) AS tables FROM sqlite_schema`,
    )
    .get();
  if (found?.["owner"] === 0 && found["tables"] === 0) return { isNew: true, steps: [layout.schema] };
  if (found?.["owner"] !== layout.applicationId) throw new UnusableFile("a file of another application");
  return { isNew: false, steps: upgradesFrom(Number(found["version"]), layout) };
}

function upgradesFrom(found: number, { version, upgrades }: DatabaseLayout): string[] {
  const unusable = new UnusableFile(`a file of version ${found}, not ${version}`);
  if (found > version) throw unusable;
  const steps: string[] = [];
  for (let from = found; from < version; from++) {
    const step = upgrades[from];
    if (step === undefined) throw unusable;
    steps.push(step);
  }
  return steps;
}

/** Creates or upgrades the tables in one transaction, so that a killed process leaves no partial change. */
function bringUpToDate(database: Database, layout: DatabaseLayout): void {
  const { steps } = stateOf(database, layout);
  if (steps.length === 0) return;
  database.exec("BEGIN IMMEDIATE");
  try {
    for (const step of steps) database.exec(step);
    const { applicationId, version } = layout;
    database.exec(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${version}; COMMIT`);
  } catch (error) {
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
}

function isFaultOfFile(error: unknown): boolean {
  if (error instanceof UnusableFile) return true;
  return isFaultOfContent(error);
}

/** @returns whether a new file can be created now */
function setAside(file: string, error: unknown, { now, warn }: OpenDatabaseOptions): boolean {
  const aside = `${file}.set-aside-${now}`;
  try {
    renameSync(file, aside);
  } catch {
    return false;
  }
  for (const suffix of ["-wal", "-shm"]) {
    try {
      renameSync(file + suffix, aside + suffix);
    } catch {
      // The file does not exist.
    }
  }
  warn("The file on disk cannot be used: it was set aside and a new one is begun.", {
    file,
    setAside: aside,
    reason: reasonOf(error),
  });
  return true;
}

function giveUp(file: string, error: unknown, { warn }: OpenDatabaseOptions): undefined {
  warn("Nothing can be kept on disk: answers are kept in memory only until the next start.", {
    file,
    reason: reasonOf(error),
  });
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
