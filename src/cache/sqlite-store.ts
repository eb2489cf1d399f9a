import type { Entry } from "../exchange.ts";
import type { Clock } from "../platform/clock.ts";
import type { Database, StatementSync } from "../platform/sqlite.ts";
import { fromBlob, toBlob } from "./blob.ts";
import { inStoredCoding } from "./encoder.ts";
import type { Run } from "./sqlite-backend.ts";
import { MAX_BODY_BYTES, type Store } from "./store.ts";

export interface SqliteStoreOptions {
  readonly database: Database;
  readonly maxBytes: number;
  readonly clock: Clock;
  readonly run: Run;
}

/** A use is noted at most this often per entry: a hit is a read, not a write. */
const USE_NOTED_EVERY_MS = 60_000;
/** Room is made in steps of this share of the bound, so that not every write has to make some. */
const EVICTION_SHARE = 0.05;
const ROW_OVERHEAD_BYTES = 200;

/** Entries in a table, the least recently used ones leaving first. */
export function createSqliteStore({ database, maxBytes, clock, run }: SqliteStoreOptions): Store {
  const statements = prepare(database);
  let evictions = 0;

  /** What is past its end goes first, then what was used longest ago. */
  function makeRoom(): void {
    statements.expire.run(clock.now());
    for (
      let held = statements.totals();
      held.bytes > maxBytes && held.entries > 0;
      held = statements.totals()
    ) {
      evictions += Number(
        statements.evict.run(Math.max(1, Math.ceil(held.entries * EVICTION_SHARE))).changes,
      );
    }
  }

  function write(key: string, entry: Entry): true | "newer-stored" {
    const blob = toBlob(entry);
    const size = blob.length + key.length + ROW_OVERHEAD_BYTES;
    const { storedAt, keepUntil } = entry;
    if (statements.put.run(key, storedAt, keepUntil, clock.now(), size, blob).changes === 0)
      return "newer-stored";
    if (statements.totals().bytes > maxBytes) makeRoom();
    return true;
  }

  return {
    tier: "sqlite",
    stats: () => (database.isOpen ? { ...statements.totals(), evictions } : undefined),
    get: (key) =>
      run("get", () => {
        const row = statements.get.get(key, clock.now());
        if (row === undefined) return undefined;
        if (Number(row["used_at"]) < clock.now() - USE_NOTED_EVERY_MS) statements.use.run(clock.now(), key);
        const blob = row["blob"];
        return blob instanceof Uint8Array
          ? fromBlob(Buffer.from(blob.buffer, blob.byteOffset, blob.length))
          : undefined;
      }),
    set: (key, entry) =>
      run("set", async () => {
        if (entry.bodyBytes > MAX_BODY_BYTES) return "too-large";
        return write(key, await inStoredCoding(entry));
      }),
    remove: (key) => run("remove", () => void statements.remove.run(key)),
    close: async () => undefined,
  };
}

interface Statements {
  readonly get: StatementSync;
  readonly put: StatementSync;
  readonly use: StatementSync;
  readonly remove: StatementSync;
  readonly expire: StatementSync;
  readonly evict: StatementSync;
  /** Kept up to date by triggers: nothing is counted here. */
  readonly totals: () => { readonly entries: number; readonly bytes: number };
}

function prepare(database: Database): Statements {
  const totals = database.prepare("SELECT entries, bytes FROM totals");
  return {
    get: database.prepare("SELECT blob, used_at FROM entries WHERE key = ? AND keep_until > ?"),
    put: database.prepare(
      `INSERT INTO entries (key, stored_at, keep_until, used_at, bytes, blob) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (key) DO UPDATE SET stored_at = excluded.stored_at, keep_until = excluded.keep_until,
         used_at = excluded.used_at, bytes = excluded.bytes, blob = excluded.blob
       WHERE excluded.stored_at >= entries.stored_at`,
    ),
    use: database.prepare("UPDATE entries SET used_at = ? WHERE key = ?"),
    remove: database.prepare("DELETE FROM entries WHERE key = ?"),
    expire: database.prepare("DELETE FROM entries WHERE keep_until <= ?"),
    evict: database.prepare(
      "DELETE FROM entries WHERE key IN (SELECT key FROM entries ORDER BY used_at LIMIT ?)",
    ),
    totals: () => {
      const row = totals.get();
      return { entries: Number(row?.["entries"]), bytes: Number(row?.["bytes"]) };
    },
  };
}
