/**
 * The SQLite file: opened, or, where what is there cannot be used, set aside and begun anew.
 */
import { mkdirSync, renameSync, existsSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

export type Database = DatabaseSync;
export type { StatementSync } from "node:sqlite";

export interface OpenDatabaseOptions {
  readonly directory: string;
  readonly fileName: string;
  /** Marks the file as ours (`PRAGMA application_id`). */
  readonly applicationId: number;
  /** Raised whenever the tables change; a file of another version is set aside. */
  readonly version: number;
  /** Statements that make the tables in an empty file. */
  readonly schema: string;
  /** Epoch milliseconds, for the name of what is set aside. */
  readonly now: number;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
}

/** @returns the database, or `undefined` where not even a new file can be made; either way the log says why */
export function openDatabase(options: OpenDatabaseOptions): Database | undefined {
  const file = join(options.directory, options.fileName);
  try {
    mkdirSync(options.directory, { recursive: true, mode: 0o700 });
    return tryOpen(file, options);
  } catch (error) {
    if (!existsSync(file)) return withoutFile(file, error, options);
    setAside(file, error, options);
  }
  try {
    return tryOpen(file, options);
  } catch (error) {
    return withoutFile(file, error, options);
  }
}

function withoutFile(file: string, error: unknown, { warn }: OpenDatabaseOptions): undefined {
  warn("Nothing can be kept on disk: answers are kept in memory only, until the next start.", {
    file,
    reason: reasonOf(error),
  });
}

/** @throws where the file is no database, is damaged, is somebody else's, or has other tables */
function tryOpen(file: string, { applicationId, version, schema }: OpenDatabaseOptions): Database {
  const database = new DatabaseSync(file);
  try {
    // Another process on the same file is waited for, not failed on.
    database.exec("PRAGMA busy_timeout = 2000; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;");
    const isNew = numberIn(database, "SELECT count(*) AS value FROM sqlite_schema") === 0;
    if (isNew)
      database.exec(`${schema}; PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${version};`);
    else if (numberIn(database, "PRAGMA application_id") !== applicationId)
      throw new Error("a file of another application");
    else if (numberIn(database, "PRAGMA user_version") !== version)
      throw new Error("a file of another version");
    else if (textIn(database, "PRAGMA quick_check(1)") !== "ok") throw new Error("a damaged file");
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

function firstValue(database: Database, sql: string): unknown {
  const row = database.prepare(sql).get();
  return row === undefined ? undefined : Object.values(row)[0];
}

function numberIn(database: Database, sql: string): number {
  return Number(firstValue(database, sql));
}

function textIn(database: Database, sql: string): string {
  return String(firstValue(database, sql));
}

function setAside(file: string, error: unknown, { now, warn }: OpenDatabaseOptions): void {
  const aside = `${file}.set-aside-${now}`;
  for (const suffix of ["", "-wal", "-shm"]) {
    try {
      renameSync(file + suffix, aside + suffix);
    } catch {
      // There may be no such part; where the file itself cannot be moved, opening it again says why.
    }
  }
  warn("What is kept on disk cannot be used: it was set aside and a new file begun.", {
    file,
    setAside: aside,
    reason: reasonOf(error),
  });
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
