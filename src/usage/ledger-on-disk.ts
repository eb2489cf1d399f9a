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
  /** The directory of the database. */
  readonly directory: string;
  readonly warn: Warn;
}

export interface LedgerOnDisk extends UnfailingLedger {
  /** Writes what is not written yet. Call it before the database is closed. */
  readonly close: () => void;
}

const PAGE_BYTES = 4_096;
const SMALLEST_LOG_BYTES = 32 * PAGE_BYTES;
/** Limited, because all callers wait meanwhile. */
const MOST_EVICTIONS = 16;

/** The ledger in the gateway's file, with reserved space. On a full disk it has precedence over cached answers. */
export function openLedgerOnDisk(options: LedgerOnDiskOptions): LedgerOnDisk {
  const { database } = options;
  const { checkpoint, evict } = options.space;
  const note = openGapNote({ ...options, freeSpace: [evict, evict] });
  const ballast = openBallast(options.directory, options.now);

  // The content of the write-ahead log will also need space in the file. The ballast must be large enough for it.
  const limitLog = (): void => {
    const bytes = Math.max(ballast.bytes() / 2, SMALLEST_LOG_BYTES);
    database.exec(`PRAGMA wal_autocheckpoint = ${Math.floor(bytes / PAGE_BYTES)}`);
  };

  /** An eviction needs space for the write-ahead log. So this releases the ballast, and evicts until it fits again. */
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
