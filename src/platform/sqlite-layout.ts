import type { DatabaseLayout } from "./sqlite.ts";

/** The gateway's one file: the tables of the cache (src/cache/sqlite-*.ts) and of the budget (src/budget/sqlite-sends.ts). */
export const LAYOUT: DatabaseLayout = {
  fileName: "property-gateway.sqlite",
  /** `PGW1` */
  applicationId: 0x50475731,
  version: 2,
  schema: `
    CREATE TABLE entries (
      key TEXT PRIMARY KEY,
      stored_at INTEGER NOT NULL,
      keep_until INTEGER NOT NULL,
      used_at INTEGER NOT NULL,
      blob BLOB NOT NULL
    ) STRICT;
    CREATE INDEX entries_by_use ON entries (used_at);
    CREATE INDEX entries_by_end ON entries (keep_until);
    -- Counting is too slow to be done at each write.
    CREATE TABLE totals (entries INTEGER NOT NULL) STRICT;
    INSERT INTO totals VALUES (0);
    CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN UPDATE totals SET entries = entries + 1; END;
    CREATE TRIGGER entry_removed AFTER DELETE ON entries BEGIN UPDATE totals SET entries = entries - 1; END;
    CREATE TABLE purges (epoch INTEGER PRIMARY KEY, at INTEGER NOT NULL, purge TEXT NOT NULL) STRICT;
    CREATE TABLE sends (origin TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
    CREATE INDEX sends_by_instant ON sends (origin, at)`,
};
