/**
 * The embedded backend: one SQLite file, so that a restart empties nothing. There are no other
 * replicas, so there are no events but past purges, and no claims.
 */
import type { Clock } from "../platform/clock.ts";
import { openDatabase, type Database } from "../platform/sqlite.ts";
import type { Backend } from "./backend.ts";
import type { Purge } from "./purges.ts";
import { createSqlitePurges } from "./sqlite-purges.ts";
import { createSqliteStore } from "./sqlite-store.ts";
import { StoreUnavailable } from "./store.ts";

export interface SqliteBackendOptions {
  readonly dataDir: string;
  /** The bound on stored bodies and their headers. */
  readonly maxBytes: number;
  /** Purges older than this, in milliseconds, concern no entry any more. */
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly log: { readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void };
  readonly onOperation: (operation: string, durationMs: number) => void;
}

/** `PGW1`: no other application's file is ever written to. */
const APPLICATION_ID = 0x50475731;
const SCHEMA_VERSION = 1;
const SCHEMA = `
  CREATE TABLE entries (
    key TEXT PRIMARY KEY,
    stored_at INTEGER NOT NULL,
    keep_until INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    blob BLOB NOT NULL
  ) STRICT;
  CREATE INDEX entries_by_use ON entries (used_at);
  CREATE INDEX entries_by_end ON entries (keep_until);
  CREATE TABLE totals (entries INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;
  INSERT INTO totals VALUES (0, 0);
  CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN
    UPDATE totals SET entries = entries + 1, bytes = bytes + new.bytes;
  END;
  CREATE TRIGGER entry_removed AFTER DELETE ON entries BEGIN
    UPDATE totals SET entries = entries - 1, bytes = bytes - old.bytes;
  END;
  CREATE TRIGGER entry_replaced AFTER UPDATE OF bytes ON entries BEGIN
    UPDATE totals SET bytes = bytes + new.bytes - old.bytes;
  END;
  CREATE TABLE purges (epoch INTEGER PRIMARY KEY, at INTEGER NOT NULL, purge TEXT NOT NULL) STRICT
`;

/** @returns the backend, or `undefined` where nothing can be kept on disk; the log says why */
export function createSqliteBackend(options: SqliteBackendOptions): Backend | undefined {
  const { dataDir, clock, log } = options;
  const database = openDatabase({
    directory: dataDir,
    fileName: "property-gateway.sqlite",
    applicationId: APPLICATION_ID,
    version: SCHEMA_VERSION,
    schema: SCHEMA,
    now: clock.now(),
    warn: log.warn,
  });
  if (database === undefined) return undefined;

  const run = createRun(options);
  const store = createSqliteStore({ ...options, database, run });
  const purges = createSqlitePurges(database, clock, options.retentionMs);
  return {
    store,
    purge: (scope, hard): Promise<Purge> => run("purge", () => purges.add(scope, hard)),
    onEvent: (listener) => {
      const past = purges.all();
      if (past.length > 0) listener({ kind: "purged", purges: past });
    },
    claims: undefined,
    close: async () => close(database),
  };
}

/** Runs an operation on the database: timed, and in the terms of the port where it fails. */
export type Run = <T>(operation: string, work: () => T | Promise<T>) => Promise<T>;

function createRun({ clock, log, onOperation }: SqliteBackendOptions): Run {
  let isBroken = false;
  return async (operation, work) => {
    const startedAt = clock.now();
    try {
      const result = await work();
      if (isBroken) log.warn("The database on disk works again.", { operation });
      isBroken = false;
      return result;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      // Once, not for every request: a full disk stays full for a while.
      if (!isBroken)
        log.warn("The database on disk failed; answers are kept in memory meanwhile.", { operation, reason });
      isBroken = true;
      throw new StoreUnavailable(reason);
    } finally {
      onOperation(operation, clock.now() - startedAt);
    }
  };
}

function close(database: Database): void {
  if (!database.isOpen) return;
  try {
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } catch {
    // Another process reads it: the log of writes stays beside the file, and loses nothing.
  }
  database.close();
}
