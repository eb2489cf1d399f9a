import type { Clock } from "../../process/clock.ts";
import type { Database } from "../../sqlite/database.ts";
import type { StoreStats } from "./port.ts";

interface SqliteRoom {
  /** Drops entries until so many more bytes fit in. */
  readonly make: (bytes: number) => void;
  /** Drops some of what is past its end. @returns how many entries */
  readonly expire: () => number;
  /** `undefined` where the database cannot tell. */
  readonly stats: () => StoreStats | undefined;
}

/** Room is made in steps of this share of the entries, so that not every write has to make some; */
const STEP_SHARE = 0.05;
/** by no more entries at a time, and in no more steps, because all callers wait meanwhile. */
const STEP_MOST_ENTRIES = 256;
const MOST_STEPS = 8;
/** Free pages given back to the disk at a time, where the bound was lowered since they were taken. */
const PAGES_GIVEN_BACK = 256;

/**
 * Keeps the file within its bound: what is past its end goes first, then what was used longest ago. It
 * counts the pages that are in use, so the bound is on the disk that is really taken.
 */
export function createSqliteRoom(database: Database, maxBytes: number, clock: Clock): SqliteRoom {
  const pages = database.prepare(
    `SELECT page_size AS size, page_count AS held, freelist_count AS free
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
    const row = pages.get();
    const [size, held, free] = [Number(row?.["size"]), Number(row?.["held"]), Number(row?.["free"])];
    return { inFile: held * size, inUse: (held - free) * size, perPage: size };
  }

  const entries = (): number => Number(count.get()?.["entries"]);

  const dropExpired = (): number => Number(expire.run(clock.now(), STEP_MOST_ENTRIES).changes);

  /** @returns whether there was anything to drop */
  function step(): boolean {
    if (dropExpired() > 0) return true;
    const some = Math.min(STEP_MOST_ENTRIES, Math.ceil(entries() * STEP_SHARE));
    const { changes } = evict.run(some);
    evictions += Number(changes);
    return changes > 0;
  }

  return {
    make(needed) {
      const { perPage } = bytes();
      // Two pages for those that are not filled, two for the indexes.
      const limit = maxBytes - needed - 4 * perPage;
      for (let steps = 0; steps < MOST_STEPS && bytes().inUse > limit; steps++) {
        if (!step()) break;
      }
      if (bytes().inFile > maxBytes) database.exec(`PRAGMA incremental_vacuum(${PAGES_GIVEN_BACK})`);
    },
    expire: dropExpired,
    stats() {
      try {
        return { entries: entries(), bytes: bytes().inUse, evictions };
      } catch {
        return undefined;
      }
    },
  };
}
