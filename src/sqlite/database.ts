/**
 * The SQLite file: opened, or, where what is there cannot be used, set aside and begun anew.
 */
import { closeSync, mkdirSync, openSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";

export type Database = DatabaseSync;

/** What is in the file. */
export interface DatabaseLayout {
  readonly fileName: string;
  /** Marks the file as ours (`PRAGMA application_id`): no other application's file is ever written to. */
  readonly applicationId: number;
  /** Raised whenever the tables change; a file of another version is upgraded, or else set aside. */
  readonly version: number;
  /** Statements that make the tables in an empty file. */
  readonly schema: string;
  /** By version: statements that bring a file of it to the next one. Without them it is set aside. */
  readonly upgrades: Readonly<Partial<Record<number, string>>>;
}

export interface OpenDatabaseOptions {
  /** Made where it is not there yet. */
  readonly directory: string;
  readonly layout: DatabaseLayout;
  /** Epoch milliseconds, for the name of what is set aside. */
  readonly now: number;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
}

/** How long another process on the same file is waited for while opening it. */
const OPENING_TIMEOUT_MS = 2_000;
/** The same later on, where every millisecond of waiting holds up all callers. */
const BUSY_TIMEOUT_MS = 250;
/** What the log of writes is cut down to when it has been worked off, in bytes. */
const WRITE_LOG_BYTES = 8 * 1024 * 1024;

/**
 * Opens the database, and begins a new one where what is there is damaged or not ours.
 * @returns `undefined` where nothing can be kept on disk; either way the log says why
 */
export function openDatabase(options: OpenDatabaseOptions): Database | undefined {
  const file = join(options.directory, options.layout.fileName);
  try {
    return tryOpen(file, options);
  } catch (error) {
    if (!isFaultOfFile(error) || !setAside(file, error, options)) return giveUp(file, error, options);
  }
  try {
    return tryOpen(file, options);
  } catch (error) {
    return giveUp(file, error, options);
  }
}

/** What is in the file is of no use to this version of this application. */
class UnusableFile extends Error {}

/** @throws where the file cannot be opened, is damaged, is somebody else's, or has other tables */
function tryOpen(file: string, { directory, layout }: OpenDatabaseOptions): Database {
  makeDirectory(directory);
  createPrivately(file);
  const database = new DatabaseSync(file);
  try {
    database.exec(`PRAGMA busy_timeout = ${OPENING_TIMEOUT_MS}`);
    const { isNew } = stateOf(database, layout);
    // Free pages can be given back only where this is said before the first table is made.
    if (isNew) database.exec("PRAGMA auto_vacuum = INCREMENTAL");
    database.exec(
      `PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = ${WRITE_LOG_BYTES}`,
    );
    if (!isNew && database.prepare("PRAGMA quick_check(1)").get()?.["quick_check"] !== "ok")
      throw new UnusableFile("a damaged file");
    bringUpToDate(database, layout);
    database.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Not Node's `recursive`: where the system says that a parent is missing which is there, as in /proc, that never ends. */
function makeDirectory(directory: string): void {
  try {
    mkdirSync(directory, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) === "EEXIST") return;
    const parent = dirname(directory);
    if (codeOf(error) !== "ENOENT" || parent === directory) throw error;
    makeDirectory(parent);
    mkdirSync(directory, { mode: 0o700 });
  }
}

/** SQLite itself would let everybody read the file; its companions get the same mode as the file. */
function createPrivately(file: string): void {
  try {
    closeSync(openSync(file, "wx", 0o600));
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
}

interface FileState {
  /** There is nothing in it yet. */
  readonly isNew: boolean;
  /** What brings its tables to this version, in this order; none where they are of this version. */
  readonly steps: readonly string[];
}

/** @throws where the file is neither empty, nor ours and of a version that can be used */
function stateOf(database: Database, layout: DatabaseLayout): FileState {
  // One statement, and so one moment: another process may be making the tables.
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

/**
 * Makes the tables, or brings them from an older version to this one. All or nothing: a process that is
 * killed here, or two that begin at once, leave no half of it behind.
 */
function bringUpToDate(database: Database, layout: DatabaseLayout): void {
  if (stateOf(database, layout).steps.length === 0) return;
  database.exec("BEGIN IMMEDIATE");
  try {
    // Another process may have done it since this one looked.
    const { steps } = stateOf(database, layout);
    for (const step of steps) database.exec(step);
    if (steps.length > 0) {
      const { applicationId, version } = layout;
      database.exec(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${version}`);
    }
    database.exec("COMMIT");
  } catch (error) {
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
}

/**
 * Primary result codes that say nothing against the file: BUSY, LOCKED, NOMEM, INTERRUPT, IOERR, FULL,
 * PROTOCOL. To set it aside for one of these would throw away what is sound, or in use elsewhere.
 */
const FAULTS_ELSEWHERE: ReadonlySet<number> = new Set([5, 6, 7, 9, 10, 13, 15]);

/** BUSY and LOCKED: another connection has it. */
const HELD_ELSEWHERE: ReadonlySet<number> = new Set([5, 6]);

/** @returns whether something failed because another process did not let go of the file for long enough */
export function isHeldElsewhere(error: unknown): boolean {
  const code = primaryCodeOf(error);
  return code !== undefined && HELD_ELSEWHERE.has(code);
}

function isFaultOfFile(error: unknown): boolean {
  if (error instanceof UnusableFile) return true;
  const code = primaryCodeOf(error);
  return code !== undefined && !FAULTS_ELSEWHERE.has(code);
}

/** @returns SQLite's primary result code, where the error is SQLite's */
function primaryCodeOf(error: unknown): number | undefined {
  const hasCode = error instanceof Error && "errcode" in error && typeof error.errcode === "number";
  // The lower byte of an extended code is the primary one.
  return hasCode ? Number(error.errcode) & 0xff : undefined;
}

/** @returns whether there is room for a new file now */
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
      // There is no such part.
    }
  }
  warn("What is kept on disk cannot be used: it was set aside and a new file begun.", {
    file,
    setAside: aside,
    reason: reasonOf(error),
  });
  return true;
}

function giveUp(file: string, error: unknown, { warn }: OpenDatabaseOptions): undefined {
  warn("Nothing can be kept on disk: answers are kept in memory only, until the next start.", {
    file,
    reason: reasonOf(error),
  });
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
