/**
 * The durable store: entries and purges in one SQLite file, so that a restart loses nothing. One process uses the file, so its
 * only events are past purges. The file is kept within its limit.
 */
import type { Clock } from "../../process/clock.ts";
import { type Database, openDatabase } from "../../sqlite/database.ts";
import { createDisk } from "../../sqlite/failing-disk.ts";
import { claimFile, type Owner } from "../../sqlite/owner.ts";
import type { CircuitState, Observer, StoreOperation } from "../../telemetry/events.ts";
import { type Entry, isUsable } from "../entry.ts";
import { inStoredCoding } from "../encoder.ts";
import { createSeal } from "../../process/seal.ts";
import { fromBlob, toBlob } from "./codec.ts";
import { MAX_BODY_BYTES, type Store, type StoreStats, StoreUnavailable } from "./port.ts";
import type { Purge } from "./purges.ts";

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
  readonly onOperation: (operation: StoreOperation, durationMs: number) => void;
  /** `open`: an operation failed, and none of its kind has worked since. */
  readonly onBreaker: (state: CircuitState) => void;
}

export type SqliteStore = ReturnType<typeof createSqliteStore>;

/** @throws {UnusableData} if the directory or the file cannot be used */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createSqliteStore(options: SqliteStoreOptions) {
  const { dataDir: directory, log } = options;
  const database = openDatabase(directory, log.warn, (opened) => {
    if (claimFile(opened, options.owner))
      log.warn("The upstream's address has changed: the cached answers on disk were dropped.", { directory });
  });
  const run = createRun(database, options);
  const room = createRoom(database, options);
  return {
    /** For other tables in the file (src/usage/sqlite-ledger.ts); closed with the store. */
    database,
    /** Where the file is. */
    directory,
    /** For the ledger, which has precedence over cached answers. */
    evict: room.evictOnFullDisk,
    stats: room.stats,
    ...createEntries(database, room, run, options),
    ...createPurges(database, run, options),
    close: async (): Promise<void> => {
      if (database.isOpen) database.close();
    },
  };
}

/** Runs an operation on the database and measures its duration. Rejects with `StoreUnavailable` if the operation fails. */
type Run = <T>(operation: StoreOperation, work: () => T) => Promise<T>;

function createRun(database: Database, { onOperation, ...options }: SqliteStoreOptions): Run {
  const disk = createDisk({
    ...options,
    what: "the cache on disk",
    meanwhile: "Callers get what is in memory. New answers are kept in memory only.",
  });
  return async (operation, work) => {
    if (!database.isOpen) throw new StoreUnavailable("the database is closed");
    try {
      return disk.run(operation === "get" || operation === "purges" ? "read" : "write", () => {
        const startedAt = performance.now();
        try {
          return work();
        } finally {
          onOperation(operation, performance.now() - startedAt);
        }
      });
    } catch (error) {
      throw new StoreUnavailable(`the cache on disk: ${String(error)}`, { cause: error });
    }
  };
}

/** The file belongs to this account alone, so the seal only finds damage. A new private key then costs no entry. */
const SEAL = createSeal(() => "the file of one process");

/** Entries in a table. Those that were stored longest ago are evicted first, because memory answers the popular ones. */
function createEntries(
  database: Database,
  room: ReturnType<typeof createRoom>,
  run: Run,
  { maxBytes, clock }: SqliteStoreOptions,
) {
  const select = database.prepare("SELECT blob FROM entries WHERE key = ?");
  const newer = database.prepare("SELECT 1 FROM entries WHERE key = ? AND stored_at > ?");
  const upsert = database.prepare(
    `INSERT INTO entries (key, stored_at, keep_until, used_at, blob) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (key) DO UPDATE SET stored_at = excluded.stored_at, keep_until = excluded.keep_until,
       used_at = excluded.used_at, blob = excluded.blob`,
  );
  const remove = database.prepare("DELETE FROM entries WHERE key = ?");

  function read(key: string): Entry | undefined {
    const blob = select.get(key)?.["blob"];
    if (!(blob instanceof Uint8Array)) return undefined;
    const entry = fromBlob(key, Buffer.from(blob.buffer, blob.byteOffset, blob.length), SEAL);
    if (entry !== undefined && isUsable(entry, clock.now())) return entry;
    // If this write fails, the entry stays, and is not used.
    run("remove", () => void remove.run(key)).catch(() => undefined);
    return undefined;
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
    get: (key: string) => run("get", () => read(key)),
    async set(key: string, entry: Entry) {
      if (entry.bodyBytes > MAX_BODY_BYTES) return "too-large";
      const coded = await inStoredCoding(entry);
      return await run("set", () => write(key, coded));
    },
    remove: (key: string) => run("remove", () => void remove.run(key)),
  } satisfies Partial<Store>;
}

/** Purges in a table of their own, so that a restart forgets none of them. */
function createPurges(database: Database, run: Run, { clock, retentionMs }: SqliteStoreOptions) {
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
    purge: (scope, hard) =>
      run("purge", () => {
        const now = clock.now();
        const row = insert.get({ now, purge: JSON.stringify({ scope, hard }) });
        trim.run(now - retentionMs);
        return { epoch: Number(row?.["epoch"]), scope, hard };
      }),
    onEvent(listener) {
      // In this tick: no entry may be looked up before its purges are known.
      const report = (): void => {
        const purges = select.all().map((row): Purge => {
          const purge: Omit<Purge, "epoch"> = JSON.parse(String(row["purge"]));
          return { ...purge, epoch: Number(row["epoch"]) };
        });
        if (purges.length > 0) listener({ kind: "purged", purges });
      };
      run("purges", report).catch(() => undefined);
    },
  } satisfies Pick<Store, "purge" | "onEvent">;
}

/** The share of entries evicted in one step, so that not every write has to evict. */
const STEP_SHARE = 0.05;
/** Limits for one write, because it blocks all callers. */
const STEP_MOST_ENTRIES = 256;
const MOST_STEPS = 8;
/** The number of free pages returned to the disk at a time after the limit was lowered. */
const PAGES_RETURNED = 256;
/** On a full disk the write-ahead log has little space, so evictions are tried in ever smaller transactions. */
const EVICTED_ON_FULL_DISK = [STEP_MOST_ENTRIES, 16, 1];

/**
 * Keeps the file within its limit: expired entries go first, then those that were stored longest ago. It counts the
 * pages in use, so the limit applies to the space that is really used on disk.
 */
function createRoom(database: Database, { maxBytes, clock }: SqliteStoreOptions) {
  const measure = database.prepare(
    `SELECT page_size AS perPage, page_size * page_count AS inFile, page_size * (page_count - freelist_count) AS inUse
     FROM pragma_page_size, pragma_page_count, pragma_freelist_count`,
  );
  const count = database.prepare("SELECT entries FROM totals");
  const expire = database.prepare(
    `DELETE FROM entries WHERE rowid IN
       (SELECT rowid FROM entries WHERE keep_until <= ? ORDER BY keep_until LIMIT ?)`,
  );
  // `used_at` is the time of the last write.
  const evict = database.prepare(
    "DELETE FROM entries WHERE rowid IN (SELECT rowid FROM entries ORDER BY used_at LIMIT ?)",
  );
  let evictions = 0;

  const bytes = (what: "perPage" | "inFile" | "inUse"): number => Number(measure.get()?.[what]);
  const entries = (): number => Number(count.get()?.["entries"]);
  const dropExpired = (most: number): boolean => expire.run(clock.now(), most).changes > 0;

  /** @returns whether there was anything to remove */
  function step(most: number): boolean {
    if (dropExpired(most)) return true;
    const { changes } = evict.run(Math.min(most, Math.ceil(entries() * STEP_SHARE)));
    evictions += Number(changes);
    return changes > 0;
  }

  return {
    evictOnFullDisk: (): boolean => {
      // Each part may fail for lack of space, and the others free some of it.
      const hasEvicted = EVICTED_ON_FULL_DISK.some((most) => attempt(() => step(most)));
      attempt(() => database.exec("PRAGMA wal_checkpoint(RESTART)"));
      return hasEvicted;
    },
    /** Evicts entries until this many more bytes fit. */
    make(needed: number): void {
      // Two pages may be partly filled, and the indexes may need two more.
      const limit = maxBytes - needed - 4 * bytes("perPage");
      for (let steps = 0; steps < MOST_STEPS && bytes("inUse") > limit; steps++) {
        if (!step(STEP_MOST_ENTRIES)) break;
      }
      if (bytes("inFile") > maxBytes) database.exec(`PRAGMA incremental_vacuum(${PAGES_RETURNED})`);
    },
    stats: (): StoreStats | undefined => {
      // So expired entries are not counted for long, and their space is free.
      attempt(() => dropExpired(STEP_MOST_ENTRIES));
      return attempt(() => ({ entries: entries(), bytes: bytes("inUse"), evictions }));
    },
  };
}

/** @returns the result of the work; `undefined` if it fails */
function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}
