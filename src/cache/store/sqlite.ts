import { setImmediate } from "node:timers/promises";

import type { Entry } from "../../types.ts";
import type { Clock } from "../../process/clock.ts";
import type { Database } from "../../sqlite/database.ts";
import { fromBlob, toBlob } from "./codec.ts";
import { inStoredCoding } from "../encoder.ts";
import { createSqliteRoom } from "./sqlite-room.ts";
import type { Run } from "./sqlite-run.ts";
import { MAX_BODY_BYTES, type Store } from "./port.ts";

export interface SqliteStoreOptions {
  readonly database: Database;
  /** The bound on the file, in bytes; an entry of its own may take an eighth of it. */
  readonly maxBytes: number;
  readonly clock: Clock;
  readonly run: Run;
}

/** A use is noted at most this often per entry: a hit is a read, not a write. */
const USE_NOTED_EVERY_MS = 60_000;

/** Entries in a table, the least recently used ones leaving first. */
export function createSqliteStore({ database, maxBytes, clock, run }: SqliteStoreOptions): Store {
  const select = database.prepare("SELECT blob, used_at FROM entries WHERE key = ? AND keep_until > ?");
  const newer = database.prepare("SELECT 1 FROM entries WHERE key = ? AND stored_at > ?");
  const upsert = database.prepare(
    `INSERT INTO entries (key, stored_at, keep_until, used_at, blob) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (key) DO UPDATE SET stored_at = excluded.stored_at, keep_until = excluded.keep_until,
       used_at = excluded.used_at, blob = excluded.blob
     WHERE excluded.stored_at >= entries.stored_at`,
  );
  const use = database.prepare("UPDATE entries SET used_at = ? WHERE key = ?");
  const remove = database.prepare("DELETE FROM entries WHERE key = ?");
  const room = createSqliteRoom(database, maxBytes, clock);

  function read(key: string): Entry | undefined {
    const now = clock.now();
    const row = select.get(key, now);
    const blob = row?.["blob"];
    if (row === undefined || !(blob instanceof Uint8Array)) return undefined;
    if (Number(row["used_at"]) < now - USE_NOTED_EVERY_MS)
      // What cannot be written can still be read.
      run("use", () => void use.run(now, key)).catch(() => undefined);
    return fromBlob(Buffer.from(blob.buffer, blob.byteOffset, blob.length));
  }

  function write(key: string, entry: Entry): true | "too-large" | "newer-stored" {
    const blob = toBlob(entry);
    // One giant must not empty the cache of everything else.
    if (blob.length > maxBytes / 8) return "too-large";
    // Nothing is to leave for what does not stay; the upsert looks again, as there may be other processes.
    if (newer.get(key, entry.storedAt) !== undefined) return "newer-stored";
    room.make(blob.length + 2 * Buffer.byteLength(key));
    const { changes } = upsert.run(key, entry.storedAt, entry.keepUntil, clock.now(), blob);
    return changes === 0 ? "newer-stored" : true;
  }

  return {
    tier: "sqlite",
    stats: room.stats,
    get: (key) => run("get", () => read(key)),
    async set(key, entry) {
      if (entry.bodyBytes > MAX_BODY_BYTES) return "too-large";
      return await run("set", async () => write(key, await inStoredCoding(entry)));
    },
    remove: (key) => run("remove", () => void remove.run(key)),
    async sweep() {
      // A few at a time: every caller waits meanwhile.
      while ((await run("sweep", () => room.expire())) > 0) await setImmediate();
    },
    close: async () => undefined,
  };
}
