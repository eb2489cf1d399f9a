import type { Database, DatabaseSpace } from "../sqlite/database.ts";
import { openBallast } from "../sqlite/ballast.ts";
import { openGapNote } from "./gap-note.ts";
import type { LedgerBounds } from "./ledger.ts";
import { createSqliteLedger } from "./sqlite-ledger.ts";
import {
  createUnfailingLedger,
  type TroubleOptions,
  type UnfailingLedger,
  type Warn,
} from "./unfailing-ledger.ts";

export interface LedgerOnDiskOptions extends LedgerBounds, TroubleOptions {
  readonly database: Database;
  readonly space: DatabaseSpace;
  /** Where the database is. */
  readonly directory: string;
  readonly warn: Warn;
}

export interface LedgerOnDisk extends UnfailingLedger {
  /** Writes what is not written yet. To be called before the database is closed. */
  readonly close: () => void;
}

const PAGE_BYTES = 4_096;
const SMALLEST_LOG_BYTES = 32 * PAGE_BYTES;
/** All callers wait meanwhile. */
const MOST_EVICTIONS = 16;

/** The ledger in the gateway's file, with a reserve beside it. On a full disk it has precedence over cached answers. */
export function openLedgerOnDisk(options: LedgerOnDiskOptions): LedgerOnDisk {
  const { database } = options;
  const { checkpoint, evict } = options.space;
  const note = openGapNote({ ...options, freeSpace: [evict, evict] });
  const ballast = openBallast(options.directory, options.now);

  // What is in the write-ahead log needs space in the file as well. The ballast must be enough for that.
  const limitLog = (): void => {
    const bytes = Math.max(ballast.bytes() / 2, SMALLEST_LOG_BYTES);
    database.exec(`PRAGMA wal_autocheckpoint = ${Math.floor(bytes / PAGE_BYTES)}`);
  };

  /** An eviction needs space as well, for the write-ahead log. It takes that of the ballast, and makes it good again. */
  function makeRoom(): void {
    ballast.release();
    limitLog();
    for (let steps = 0; steps < MOST_EVICTIONS; steps++) {
      if (!evict() || ballast.refill()) break;
    }
  }

  limitLog();
  if (ballast.bytes() === 0) makeRoom();
  const ledger = createUnfailingLedger(createSqliteLedger(database, options), {
    ...options,
    note,
    freeSpace: [checkpoint, makeRoom],
    onWorked: ballast.refillNowAndThen,
  });
  return {
    ...ledger,
    close() {
      ledger.flush();
      note.close();
      ballast.close();
    },
  };
}
