export const FILE_NAME = "property-gateway.sqlite";
/**
 * `PGW1`. It marks the file as ours (`PRAGMA application_id`). The gateway never writes to the file of another application.
 */
export const APPLICATION_ID = 0x50475731;
/** Increase it when the tables change. A file of another version is refused. */
export const VERSION = 7;

/** The gateway's one file: the tables of the cache (src/cache/store/sqlite.ts) and of the ledger (src/usage/sqlite-ledger.ts). */
export const TABLES = `
  CREATE TABLE entries (
    key TEXT PRIMARY KEY,
    stored_at INTEGER NOT NULL,
    keep_until INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    blob BLOB NOT NULL
  ) STRICT;
  CREATE INDEX entries_by_use ON entries (used_at);
  CREATE INDEX entries_by_end ON entries (keep_until);
  -- Triggers keep this count, because counting all rows at each write is too slow.
  CREATE TABLE totals (entries INTEGER NOT NULL) STRICT;
  INSERT INTO totals VALUES (0);
  CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN UPDATE totals SET entries = entries + 1; END;
  CREATE TRIGGER entry_removed AFTER DELETE ON entries BEGIN UPDATE totals SET entries = entries - 1; END;
  CREATE TABLE purges (epoch INTEGER PRIMARY KEY, at INTEGER NOT NULL, purge TEXT NOT NULL) STRICT;
  CREATE TABLE ledger (
    id TEXT PRIMARY KEY,
    origin TEXT NOT NULL,
    at INTEGER NOT NULL,
    app TEXT NOT NULL,
    resource TEXT NOT NULL,
    cause TEXT NOT NULL,
    query TEXT NOT NULL,
    limits TEXT NOT NULL,
    -- The same instant without the time of day: which start of the machine, and the milliseconds since then.
    boot TEXT NOT NULL,
    up INTEGER NOT NULL,
    status TEXT,
    duration_ms INTEGER,
    arrived_at INTEGER,
    arrived_up INTEGER
  ) STRICT;
  CREATE INDEX ledger_by_instant ON ledger (at);
  -- One row, written at the first use: the instant since which the ledger is complete.
  CREATE TABLE ledger_since (at INTEGER NOT NULL) STRICT;
  CREATE TRIGGER ledger_dropped AFTER DELETE ON ledger BEGIN
    UPDATE ledger_since SET at = old.at + 1 WHERE at <= old.at;
  END;
  -- One row: the owner of the data (src/config/data-owner.ts).
  CREATE TABLE owner (account TEXT NOT NULL, upstream TEXT NOT NULL) STRICT`;
