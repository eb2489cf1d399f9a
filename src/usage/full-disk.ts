import { statfsSync } from "node:fs";

import type { Database, DatabaseSpace } from "../sqlite/database.ts";
import { isDiskFull } from "../sqlite/faults.ts";
import type { Clock } from "../process/clock.ts";
import type { Observer } from "../telemetry/events.ts";
import type { LedgerBounds, OwnLedger } from "./ledger-line.ts";
import { createSqliteLedger } from "./sqlite-ledger.ts";
import { UnrecordedMark } from "./unrecorded-mark.ts";

export interface LedgerOnDiskOptions
  extends LedgerBounds, Pick<Observer, "outOfOrder" | "backInOrder" | "warn"> {
  readonly clock: Clock;
  readonly database: Database;
  readonly space: DatabaseSpace;
  /** The directory of the database. */
  readonly directory: string;
}

export interface LedgerOnDisk extends OwnLedger {
  /** Whether calls are recorded before they are sent. */
  readonly isDurable: () => boolean;
  readonly close: () => void;
}

/** How long a failing disk is not tried again, because each try may block all callers. */
const REST_MS = 2_000;
/** Limited for the same reason. */
const MOST_EVICTIONS = 8;
const LEAST_FREE_BYTES = 1024 * 1024;
const LEAST_FREE_PAGES = 32;

const LEDGER = "the ledger on disk";
const MEANWHILE =
  "Callers are not affected. Calls are counted in memory, and a note on the disk says that they are not recorded. Do not " +
  "restart the gateway before the disk has space again.";

/**
 * The ledger in the gateway's file. On a full disk it evicts cached answers. If a call still cannot be recorded, it is sent all
 * the same, because the limiter counts it in memory, and the mark says so to the next process and to reports.
 *
 * @throws {UnusableData} if the mark cannot be written at the start
 */
export function openLedgerOnDisk(options: LedgerOnDiskOptions): LedgerOnDisk {
  const { database, space, clock, outOfOrder, backInOrder, warn } = options;
  const mark = new UnrecordedMark(options);
  const ledger = createSqliteLedger(database, options);
  let failedAt: number | undefined;

  function makingRoom(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!isDiskFull(error) || !space.evict()) throw error;
      work();
    }
  }

  /** @returns whether the work was done */
  function attempt(work: () => void): boolean {
    if (failedAt !== undefined && clock.monotonic() < failedAt + REST_MS) return false;
    try {
      makingRoom(work);
    } catch (error) {
      const cause = error instanceof Error ? error.message : String(error);
      if (failedAt === undefined) outOfOrder({ what: LEDGER, cause, meanwhile: MEANWHILE });
      failedAt = clock.monotonic();
      return false;
    }
    if (failedAt !== undefined) backInOrder(LEDGER);
    failedAt = undefined;
    return true;
  }

  const before = mark.read();
  if (before !== undefined) {
    const [since, until] = [before.since, before.until].map((at) => new Date(at).toISOString());
    warn("Calls were sent and not recorded, because the disk was full.", { since, until });
  }
  return {
    ...ledger,
    enter(entry) {
      const isRecorded = attempt(() => {
        keepRoom(options);
        ledger.enter(entry);
      });
      if (!isRecorded) mark.extend();
    },
    complete(id, completion) {
      // A call without its end counts longer than necessary, never too short.
      attempt(() => ledger.complete(id, completion));
    },
    unrecorded: mark.read,
    isDurable: () => failedAt === undefined,
    close: () => mark.close(),
  };
}

/**
 * Evicts answers as soon as the disk is almost full, and keeps their pages in the file for the ledger. Later would be too
 * late: if the file cannot grow, its write-ahead log cannot be emptied, and an eviction needs space in the log.
 */
function keepRoom({ database, directory, space }: LedgerOnDiskOptions): void {
  const { bavail, bsize } = statfsSync(directory);
  if (bavail * bsize >= LEAST_FREE_BYTES) return;
  const pages = database.prepare("PRAGMA freelist_count");
  for (let evictions = 0; evictions < MOST_EVICTIONS; evictions++)
    if (Number(pages.get()?.["freelist_count"]) >= LEAST_FREE_PAGES || !space.evict()) return;
}
