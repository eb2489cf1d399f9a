/**
 * Opens the SQLite file for this process alone. The file contains the ledger, so a file that this version cannot read is
 * refused: a new one would silently give the whole budget again.
 */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

import { createPrivately, openDirectory, refuseLink, UnusableData } from "./files.ts";
import { APPLICATION_ID, FILE_NAME, TABLES, VERSION } from "./tables.ts";

export type Database = DatabaseSync;

type Claim = (database: Database) => void;

/** In a rolling restart, the other process ends within this time. The event loop is blocked during the wait. */
const WAIT_FOR_RELEASE_MS = 5_000;
/** The write-ahead log is truncated to this size, in bytes. */
const WRITE_LOG_BYTES = 8 * 1024 * 1024;

/**
 * Opens the database. If another process uses it, waits for that process to end.
 * @param directory created if it does not exist
 * @param claim makes sure that the file belongs to this account (src/sqlite/owner.ts)
 * @throws {UnusableData} if the directory or the file cannot be used
 */
export function openDatabase(directory: string, claim: Claim): Database {
  const file = join(directory, FILE_NAME);
  try {
    openDirectory(directory);
    for (const suffix of ["", "-wal", "-shm", "-journal"]) refuseLink(file + suffix);
    createPrivately(file);
    return open(file, WAIT_FOR_RELEASE_MS, claim);
  } catch (error) {
    if (error instanceof UnusableData) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    if (isInUse(error))
      throw new UnusableData(`another process uses ${file}: each gateway needs a directory of its own`);
    if (isDamaged(error)) throw new UnusableData(`${file} cannot be read (${reason}). ${beginAnew(file)}`);
    throw new UnusableData(
      `${directory} cannot be used (${reason}). Mend it, or set DATA_DIR to another directory. With an empty DATA_DIR, ` +
        "answers and calls are kept in memory only",
    );
  }
}

/** A database of the same tables that is lost when the process ends. */
export function openInMemory(): Database {
  return open(":memory:", 0);
}

function open(file: string, waitMs: number, claim?: Claim): Database {
  const database = new DatabaseSync(file, { timeout: waitMs });
  try {
    // With the exclusive mode, this connection keeps each lock until it closes. So no other process can write after this read.
    database.exec("PRAGMA locking_mode = EXCLUSIVE");
    const isNew = isEmpty(database, file);
    // Without this before the first table, free pages could not be returned to the disk.
    if (isNew) database.exec("PRAGMA auto_vacuum = INCREMENTAL");
    database.exec(
      `PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = ${WRITE_LOG_BYTES}`,
    );
    if (!isNew && database.prepare("PRAGMA quick_check(1)").get()?.["quick_check"] !== "ok")
      throw new UnusableData(`${file} is damaged. ${beginAnew(file)}`);
    const create = `${TABLES}; PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${VERSION};`;
    // No other process can have a lock now, so a wait would only delay all callers.
    database.exec(`BEGIN IMMEDIATE; ${isNew ? create : ""} COMMIT; PRAGMA busy_timeout = 0`);
    allocateLog(database);
    claim?.(database);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** The space that the write-ahead log has from the start, in bytes, and how many pages of it are used before they are moved. */
const LOG_BYTES = 256 * 1024;
const LOG_PAGES_USED = 16;

/**
 * Gives the write-ahead log its space, which SQLite writes again and again. So answers can be evicted when the disk is full:
 * that needs space in the log first.
 */
function allocateLog(database: Database): void {
  try {
    database.exec(
      `PRAGMA wal_autocheckpoint = ${LOG_PAGES_USED};
       CREATE TABLE room (bytes BLOB); INSERT INTO room VALUES (zeroblob(${LOG_BYTES})); DROP TABLE room;
       PRAGMA wal_checkpoint(RESTART)`,
    );
  } catch (error) {
    if (!isDiskFull(error)) throw error;
  }
}

/** @throws {UnusableData} if the file is neither empty nor ours in this version */
function isEmpty(database: Database, file: string): boolean {
  const found = database
    .prepare(
      `SELECT (SELECT application_id FROM pragma_application_id) AS owner,
         (SELECT user_version FROM pragma_user_version) AS version, count(*) AS tables FROM sqlite_schema`,
    )
    .get();
  if (found?.["owner"] === 0 && found["tables"] === 0) return true;
  if (found?.["owner"] !== APPLICATION_ID)
    throw new UnusableData(`${file} belongs to another application. Set another directory`);
  const written = Number(found["version"]);
  if (written === VERSION) return false;
  const [by, instead] =
    written > VERSION ? ["a newer version", "Run that version again. "] : ["an older version", ""];
  throw new UnusableData(
    `${by} of the gateway wrote ${file} (layout ${written}, this version reads ${VERSION}). ${instead}${beginAnew(file)}`,
  );
}

function beginAnew(file: string): string {
  return (
    `To begin a new one, remove ${file} and ${file}-wal. Its answers and its calls are then forgotten: first wait for ` +
    "the longest window of BUDGET, or the limit can be exceeded"
  );
}

/** SQLite's extended result code of an error. Its lowest byte is the primary code. */
const codeOf = (error: unknown): number => Number(Object(error)["errcode"]);
const isOneOf = (error: unknown, ...primary: number[]): boolean => primary.includes(codeOf(error) & 0xff);

/** A write failed, for example because a disk quota is used up. */
const IOERR_WRITE = 778;

/** @returns whether there is no space on the disk (FULL) */
const isDiskFull = (error: unknown): boolean => isOneOf(error, 13) || codeOf(error) === IOERR_WRITE;

/** @returns whether another process locks the file (BUSY, LOCKED) */
const isInUse = (error: unknown): boolean => isOneOf(error, 5, 6);

/** @returns whether the file is damaged, or no database at all (CORRUPT, NOTADB) */
const isDamaged = (error: unknown): boolean => isOneOf(error, 11, 26);
