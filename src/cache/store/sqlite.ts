/**
 * The durable store: entries and purges in one SQLite file, so that a restart loses nothing. One process uses
 * the file, so its only events are past purges.
 */
import { setImmediate } from "node:timers/promises";

import type { Clock } from "../../process/clock.ts";
import { type Database, type DatabaseSpace, openDatabase, unusable } from "../../sqlite/database.ts";
import { isDiskFull } from "../../sqlite/faults.ts";
import { claimFile, type Owner } from "../../sqlite/owner.ts";
import type { CircuitState, Observer, StoreOperation } from "../../telemetry/events.ts";
import type { Entry } from "../entry.ts";
import { inStoredCoding } from "../encoder.ts";
import { createSeal } from "../../process/seal.ts";
import { fromBlob, toBlob } from "./codec.ts";
import { MAX_BODY_BYTES, type Store, StoreUnavailable } from "./port.ts";
import type { Purge, PurgeScope } from "./purges.ts";
import { createSqliteRoom, type SqliteRoom } from "./sqlite-room.ts";

export interface SqliteStoreOptions {
  readonly dataDir: string;
  /** The account that the data belongs to. */
  readonly owner: Owner;
  /** The limit for the file, in bytes; the write-ahead log beside it takes a few MiB more. */
  readonly maxBytes: number;
  /** In milliseconds. Older purges apply to no entry any more. */
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly log: Pick<Observer, "outOfOrder" | "backInOrder" | "warn">;
  readonly onOperation: (operation: SqliteOperation, durationMs: number) => void;
  /** `open`: an operation failed, and none of its kind has worked since. */
  readonly onBreaker: (state: CircuitState) => void;
}

export interface SqliteStore extends Store {
  /** For other tables in the file (src/usage/sqlite-ledger.ts); closed with the backend. */
  readonly database: Database;
  /** Where the file is. */
  readonly directory: string;
  /** For the ledger, which has precedence over cached answers. */
  readonly space: DatabaseSpace;
  readonly close: () => Promise<void>;
}

/** @throws {UnusableData} if the directory or the file cannot be used */
export function createSqliteStore(options: SqliteStoreOptions): SqliteStore {
  const { dataDir: directory, maxBytes, retentionMs, clock, log } = options;
  const database = openDatabase(directory, log.warn);
  try {
    if (claimFile(database, options.owner)) {
      log.warn("The upstream's address has changed: the cached answers on disk were dropped.", { directory });
    }
  } catch (error) {
    database.close();
    throw error instanceof Error && isDiskFull(error) ? unusable(directory, error.message) : error;
  }

  const run = createRun(database, options);
  const purges = createSqlitePurges(database, clock, retentionMs);
  const room = createSqliteRoom(database, maxBytes, clock);
  return {
    database,
    directory,
    space: room,
    ...createEntries(database, room, run, options),
    purge: (scope, hard) => run("purge", () => purges.add(scope, hard)),
    onEvent(listener) {
      // In this tick: no entry may be looked up before its purges are known.
      const report = (): void => {
        const past = purges.all();
        if (past.length > 0) listener({ kind: "purged", purges: past });
      };
      run("purges", report).catch(() => undefined);
    },
    close: async () => {
      if (database.isOpen) database.close();
    },
  };
}

/** The use of an entry is written at most this often, so that most hits only read. */
const USE_WRITTEN_EVERY_MS = 60_000;

/** The file belongs to this account alone, so the seal only finds damage. A new private key then costs no entry. */
const SEAL = createSeal(() => "the file of one process");

/** Entries in a table; the least recently used ones are evicted first. */
function createEntries(
  database: Database,
  room: SqliteRoom,
  run: Run,
  { maxBytes, clock }: SqliteStoreOptions,
): Pick<Store, "tier" | "get" | "set" | "remove" | "sweep" | "stats"> {
  const select = database.prepare("SELECT blob, used_at FROM entries WHERE key = ? AND keep_until > ?");
  const newer = database.prepare("SELECT 1 FROM entries WHERE key = ? AND stored_at > ?");
  const upsert = database.prepare(
    `INSERT INTO entries (key, stored_at, keep_until, used_at, blob) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (key) DO UPDATE SET stored_at = excluded.stored_at, keep_until = excluded.keep_until,
       used_at = excluded.used_at, blob = excluded.blob`,
  );
  const use = database.prepare("UPDATE entries SET used_at = ? WHERE key = ?");
  const remove = database.prepare("DELETE FROM entries WHERE key = ?");

  function read(key: string): Entry | undefined {
    const now = clock.now();
    const row = select.get(key, now);
    const blob = row?.["blob"];
    if (row === undefined || !(blob instanceof Uint8Array)) return undefined;
    if (Number(row["used_at"]) < now - USE_WRITTEN_EVERY_MS)
      // If this write fails, the entry can still be served.
      run("use", () => void use.run(now, key)).catch(() => undefined);
    return fromBlob(key, Buffer.from(blob.buffer, blob.byteOffset, blob.length), SEAL);
  }

  function write(key: string, entry: Entry): true | "too-large" | "newer-stored" {
    const blob = toBlob(key, entry, SEAL);
    // One very large entry must not evict all others.
    if (blob.length > maxBytes / 8) return "too-large";
    // Checked first, so that nothing is evicted for an entry that is not stored.
    if (newer.get(key, entry.storedAt) !== undefined) return "newer-stored";
    room.make(blob.length + 2 * Buffer.byteLength(key));
    upsert.run(key, entry.storedAt, entry.keepUntil, clock.now(), blob);
    return true;
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
      // In small steps, because each one blocks all callers.
      while ((await run("sweep", () => room.expire())) > 0) await setImmediate();
    },
  };
}

/** Purges in a table of their own, so that a restart forgets none of them. */
function createSqlitePurges(database: Database, clock: Clock, retentionMs: number) {
  const select = database.prepare("SELECT epoch, purge FROM purges ORDER BY epoch");
  const insert = database.prepare(
    `INSERT INTO purges (epoch, at, purge)
     SELECT max(coalesce(max(epoch), 0) + 1, :now), :now, :purge FROM purges RETURNING epoch`,
  );
  // The latest purge stays, because epochs must keep growing.
  const trim = database.prepare(
    "DELETE FROM purges WHERE at < ? AND epoch < (SELECT max(epoch) FROM purges)",
  );

  return {
    all: (): Purge[] =>
      select.all().map((row) => {
        const purge: Omit<Purge, "epoch"> = JSON.parse(String(row["purge"]));
        return { ...purge, epoch: Number(row["epoch"]) };
      }),
    add(scope: PurgeScope, hard: boolean): Purge {
      const now = clock.now();
      const row = insert.get({ now, purge: JSON.stringify({ scope, hard }) });
      trim.run(now - retentionMs);
      return { epoch: Number(row?.["epoch"]), scope, hard };
    },
  };
}

type SqliteOperation = Extract<
  StoreOperation,
  "get" | "use" | "set" | "remove" | "sweep" | "purge" | "purges"
>;

/** Reads continue while nothing can be written, for example on a full disk. */
const kindOf = (operation: SqliteOperation): "read" | "write" =>
  operation === "get" || operation === "purges" ? "read" : "write";

/** Runs an operation on the database and measures its duration. Rejects with `StoreUnavailable` if it fails. */
type Run = <T>(operation: SqliteOperation, work: () => T | Promise<T>) => Promise<T>;

/** The pause after a failure, because an operation on a failing disk may block all callers. */
const REST_MS = 2_000;

const DATABASE = "the cache on disk";
const MEANWHILE = "Callers get what is in memory. New answers are kept in memory only.";

/** One fault causes one line in the log, and one more when everything works again. */
function createRun(database: Database, { clock, log, onOperation, onBreaker }: SqliteStoreOptions): Run {
  const failedAt = new Map<"read" | "write", number>();

  const isResting = (operation: SqliteOperation): boolean =>
    clock.monotonic() < (failedAt.get(kindOf(operation)) ?? Number.NEGATIVE_INFINITY) + REST_MS;

  function succeeded(operation: SqliteOperation): void {
    if (!failedAt.delete(kindOf(operation)) || failedAt.size > 0) return;
    log.backInOrder(DATABASE);
    onBreaker("closed");
  }

  function failed(operation: SqliteOperation, reason: string): void {
    // The database was closed during the operation. That is not a fault.
    if (!database.isOpen) return;
    if (failedAt.size === 0) {
      log.outOfOrder({ what: DATABASE, cause: `${operation}: ${reason}`, meanwhile: MEANWHILE });
      onBreaker("open");
    }
    failedAt.set(kindOf(operation), clock.monotonic());
  }

  return async (operation, work) => {
    if (!database.isOpen) throw new StoreUnavailable("the database is closed");
    if (isResting(operation)) throw new StoreUnavailable("the database has just failed");
    const startedAt = performance.now();
    try {
      const result = await work();
      succeeded(operation);
      return result;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      failed(operation, reason);
      throw new StoreUnavailable(reason);
    } finally {
      onOperation(operation, performance.now() - startedAt);
    }
  };
}
