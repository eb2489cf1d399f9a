import type { Clock } from "../../process/clock.ts";
import type { Database, DatabaseSpace } from "../../sqlite/database.ts";
import type { StoreStats } from "./port.ts";

export interface SqliteRoom extends DatabaseSpace {
  /** Evicts entries until this many more bytes fit. */
  readonly make: (bytes: number) => void;
  /** Removes some of the expired entries. @returns how many */
  readonly expire: () => number;
  /** `undefined` if the database cannot be read. */
  readonly stats: () => StoreStats | undefined;
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
 * Keeps the file within its limit: expired entries go first, then the least recently used ones. It counts the
 * pages in use, so the limit applies to the space that is really used on disk.
 */
export function createSqliteRoom(database: Database, maxBytes: number, clock: Clock): SqliteRoom {
  const selectPages = database.prepare(
    `SELECT page_size AS size, page_count AS pages, freelist_count AS free
     FROM pragma_page_size, pragma_page_count, pragma_freelist_count`,
  );
  const count = database.prepare("SELECT entries FROM totals");
  const expire = database.prepare(
    `DELETE FROM entries WHERE rowid IN
       (SELECT rowid FROM entries WHERE keep_until <= ? ORDER BY keep_until LIMIT ?)`,
  );
  const evict = database.prepare(
    "DELETE FROM entries WHERE rowid IN (SELECT rowid FROM entries ORDER BY used_at LIMIT ?)",
  );
  let evictions = 0;

  function bytes(): { readonly inFile: number; readonly inUse: number; readonly perPage: number } {
    const row = selectPages.get();
    const [size, pages, free] = [Number(row?.["size"]), Number(row?.["pages"]), Number(row?.["free"])];
    return { inFile: pages * size, inUse: (pages - free) * size, perPage: size };
  }

  const entries = (): number => Number(count.get()?.["entries"]);

  const dropExpired = (most = STEP_MOST_ENTRIES): number => Number(expire.run(clock.now(), most).changes);

  /** @returns whether there was anything to remove */
  function step(most = STEP_MOST_ENTRIES): boolean {
    if (dropExpired(most) > 0) return true;
    const some = Math.min(most, Math.ceil(entries() * STEP_SHARE));
    const { changes } = evict.run(some);
    evictions += Number(changes);
    return changes > 0;
  }

  const checkpoint = (): void => database.exec("PRAGMA wal_checkpoint(RESTART)");

  function evictOnFullDisk(): boolean {
    // Each part may fail for lack of space, and the others free some of it.
    const evicted = EVICTED_ON_FULL_DISK.some((most) => attempt(() => step(most)));
    attempt(checkpoint);
    return evicted;
  }

  return {
    evict: evictOnFullDisk,
    make(needed) {
      const { perPage } = bytes();
      // Two pages may be partly filled, and the indexes may need two more.
      const limit = maxBytes - needed - 4 * perPage;
      for (let steps = 0; steps < MOST_STEPS && bytes().inUse > limit; steps++) {
        if (!step()) break;
      }
      if (bytes().inFile > maxBytes) database.exec(`PRAGMA incremental_vacuum(${PAGES_RETURNED})`);
    },
    expire: () => dropExpired(),
    stats() {
      try {
        return { entries: entries(), bytes: bytes().inUse, evictions };
      } catch {
        return undefined;
      }
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
