/**
 * The durable store: entries and purges in one SQLite file, so that a restart loses nothing. One process uses the file, so its
 * only events are past purges. The file is kept within its limit.
 */
import { StoreUnavailable } from "../../errors.ts";
import { attempt } from "../../process/attempt.ts";
import type { Clock } from "../../process/clock.ts";
import { type Database, openDatabase } from "../../sqlite/database.ts";
import { createDisk } from "../../sqlite/failing-disk.ts";
import { claimFile, type Owner } from "../../sqlite/owner.ts";
import type { CircuitState, Observer, StoreOperation, WhyNotStored } from "../../telemetry/events.ts";
import { type Entry, isUsable } from "../entry.ts";
import { createSeal } from "../../process/seal.ts";
import { fromBlob, toBlob } from "./codec.ts";
import type { Store, StoreStats } from "./port.ts";
import { type Purge, purgesIn, type PurgeScope } from "./purge-marks.ts";

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

/** The file belongs to this account alone, so the seal only finds damage. A new private key then costs no entry. */
const SEAL = createSeal(() => "the file of one process");

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
 * Entries that were stored longest ago are evicted first, because memory answers the popular ones. Purges have a table of their
 * own, so that a restart forgets none of them.
 */
export class SqliteStore implements Store {
  readonly tier = "sqlite";
  /** For other tables in the file (src/usage/sqlite-ledger.ts); closed with the store. */
  readonly database: Database;
  /** Where the file is. */
  readonly directory: string;
  readonly #options: SqliteStoreOptions;
  readonly #disk: ReturnType<typeof createDisk>;
  readonly #sql: ReturnType<typeof statementsOf>;
  #evictions = 0;

  /** @throws {UnusableData} if the directory or the file cannot be used */
  constructor(options: SqliteStoreOptions) {
    const { dataDir: directory, log } = options;
    this.#options = options;
    this.directory = directory;
    this.database = openDatabase(directory, (opened) => {
      const dropped = "The upstream's address has changed: the cached answers on disk were dropped.";
      if (claimFile(opened, options.owner)) log.warn(dropped, { directory });
    });
    this.#sql = statementsOf(this.database);
    this.#disk = createDisk({
      ...options,
      what: "the cache on disk",
      meanwhile: "New answers are kept in memory only. Make room in DATA_DIR, or repair the disk.",
    });
  }

  readonly get = (key: string): Promise<Entry | undefined> =>
    this.#run("get", () => {
      const blob = this.#sql.select.get(key)?.["blob"];
      if (!(blob instanceof Uint8Array)) return undefined;
      const entry = fromBlob(key, Buffer.from(blob.buffer, blob.byteOffset, blob.length), SEAL);
      if (entry !== undefined && isUsable(entry, this.#options.clock.now())) return entry;
      // If this write fails, the entry stays, and is not used.
      this.remove(key).catch(() => undefined);
      return undefined;
    });

  readonly set = async (key: string, entry: Entry): Promise<true | WhyNotStored> => {
    const { maxBytes, clock } = this.#options;
    const blob = await toBlob(key, entry, SEAL);
    return await this.#run("set", () => {
      // One very large entry must not evict all others.
      if (blob.length > maxBytes / 8) return "too-large";
      // Checked first, so that nothing is evicted for an entry that is not stored.
      if (this.#sql.newer.get(key, entry.storedAt) !== undefined) return "newer-stored";
      this.#makeRoom(blob.length + 2 * Buffer.byteLength(key));
      this.#sql.upsert.run(key, entry.storedAt, entry.keepUntil, clock.now(), blob);
      return true;
    });
  };

  readonly remove = (key: string): Promise<void> => this.#run("remove", () => void this.#sql.remove.run(key));

  readonly purge = (scope: PurgeScope, hard: boolean): Promise<Purge> =>
    this.#run("purge", () => {
      const { clock, retentionMs } = this.#options;
      const now = clock.now();
      const row = this.#sql.insertPurge.get({ now, purge: JSON.stringify({ scope, hard }) });
      this.#sql.trimPurges.run(now - retentionMs);
      return { epoch: Number(row?.["epoch"]), scope, hard };
    });

  readonly onEvent: Store["onEvent"] = (listener) => {
    // In this tick: no entry may be looked up before its purges are known.
    const report = (): void => {
      const rows = this.#sql.selectPurges.all();
      const purges = rows.flatMap((row) => purgesIn(Number(row["epoch"]), String(row["purge"])));
      if (purges.length > 0) listener({ kind: "purged", purges });
    };
    this.#run("purges", report).catch(() => undefined);
  };

  readonly stats = (): StoreStats | undefined => {
    // So expired entries are not counted for long, and their space is free.
    attempt(() => this.#dropExpired(STEP_MOST_ENTRIES));
    return attempt(() => ({
      entries: this.#entries(),
      bytes: this.#bytes("inUse"),
      evictions: this.#evictions,
    }));
  };

  /** For the ledger, which has precedence over cached answers. @returns whether there was anything to evict */
  readonly evict = (): boolean => {
    // Each part may fail for lack of space, and the others free some of it.
    const hasEvicted = EVICTED_ON_FULL_DISK.some((most) => attempt(() => this.#evictSome(most)));
    attempt(() => this.database.exec("PRAGMA wal_checkpoint(RESTART)"));
    return hasEvicted;
  };

  readonly close = async (): Promise<void> => {
    if (this.database.isOpen) this.database.close();
  };

  /** Measures the duration of an operation. Rejects with `StoreUnavailable` if it fails. */
  async #run<T>(operation: StoreOperation, work: () => T): Promise<T> {
    if (!this.database.isOpen) throw new StoreUnavailable("the database is closed");
    try {
      return this.#disk.run(operation === "get" || operation === "purges" ? "read" : "write", () => {
        const startedAt = performance.now();
        try {
          return work();
        } finally {
          this.#options.onOperation(operation, performance.now() - startedAt);
        }
      });
    } catch (error) {
      throw new StoreUnavailable(`the cache on disk: ${String(error)}`, { cause: error });
    }
  }

  /**
   * Evicts entries until this many more bytes fit. It counts the pages in use, so the limit applies to the space that is really
   * used on disk.
   */
  #makeRoom(needed: number): void {
    const { maxBytes } = this.#options;
    // Two pages may be partly filled, and the indexes may need two more.
    const limit = maxBytes - needed - 4 * this.#bytes("perPage");
    for (let steps = 0; steps < MOST_STEPS && this.#bytes("inUse") > limit; steps++) {
      if (!this.#evictSome(STEP_MOST_ENTRIES)) break;
    }
    if (this.#bytes("inFile") > maxBytes) this.database.exec(`PRAGMA incremental_vacuum(${PAGES_RETURNED})`);
  }

  /** Removes expired entries, else those that were stored longest ago. @returns whether there was anything to remove */
  #evictSome(most: number): boolean {
    if (this.#dropExpired(most)) return true;
    const { changes } = this.#sql.evict.run(Math.min(most, Math.ceil(this.#entries() * STEP_SHARE)));
    this.#evictions += Number(changes);
    return changes > 0;
  }

  #dropExpired(most: number): boolean {
    return this.#sql.expire.run(this.#options.clock.now(), most).changes > 0;
  }

  #bytes(what: "perPage" | "inFile" | "inUse"): number {
    return Number(this.#sql.measure.get()?.[what]);
  }

  #entries(): number {
    return Number(this.#sql.count.get()?.["entries"]);
  }
}

function statementsOf(database: Database) {
  return {
    select: database.prepare("SELECT blob FROM entries WHERE key = ?"),
    newer: database.prepare("SELECT 1 FROM entries WHERE key = ? AND stored_at > ?"),
    upsert: database.prepare(
      `INSERT INTO entries (key, stored_at, keep_until, used_at, blob) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (key) DO UPDATE SET stored_at = excluded.stored_at, keep_until = excluded.keep_until,
         used_at = excluded.used_at, blob = excluded.blob`,
    ),
    remove: database.prepare("DELETE FROM entries WHERE key = ?"),
    count: database.prepare("SELECT entries FROM totals"),
    expire: database.prepare(
      `DELETE FROM entries WHERE rowid IN
         (SELECT rowid FROM entries WHERE keep_until <= ? ORDER BY keep_until LIMIT ?)`,
    ),
    // `used_at` is the time of the last write.
    evict: database.prepare(
      "DELETE FROM entries WHERE rowid IN (SELECT rowid FROM entries ORDER BY used_at LIMIT ?)",
    ),
    measure: database.prepare(
      `SELECT page_size AS perPage, page_size * page_count AS inFile, page_size * (page_count - freelist_count) AS inUse
       FROM pragma_page_size, pragma_page_count, pragma_freelist_count`,
    ),
    selectPurges: database.prepare("SELECT epoch, purge FROM purges ORDER BY epoch"),
    insertPurge: database.prepare(
      `INSERT INTO purges (epoch, at, purge)
       SELECT max(coalesce(max(epoch), 0) + 1, :now), :now, :purge FROM purges RETURNING epoch`,
    ),
    // The latest purge stays, because epochs must keep growing.
    trimPurges: database.prepare(
      "DELETE FROM purges WHERE at < ? AND epoch < (SELECT max(epoch) FROM purges)",
    ),
  };
}
