import { statfsSync } from "node:fs";

import type { Database } from "../sqlite/database.ts";
import { createDisk } from "../sqlite/failing-disk.ts";
import { attempt } from "../process/attempt.ts";
import type { Clock } from "../process/clock.ts";
import type { Observer } from "../telemetry/events.ts";
import type { LedgerBounds, LedgerCompletion, LedgerEntry } from "./ledger-line.ts";
import { createSqliteLedger } from "./sqlite-ledger.ts";
import { openUnrecordedMark } from "./unrecorded-mark.ts";

/** The file of the ledger, which has cached answers, too. */
interface LedgerFile {
  readonly database: Database;
  readonly directory: string;
  /** Evicts some cached answers. Their pages stay in the file, for new lines. @returns whether there were any */
  readonly evict: () => boolean;
}

export interface LedgerOnDiskOptions extends LedgerBounds {
  readonly clock: Clock;
  readonly log: Pick<Observer, "outOfOrder" | "backInOrder" | "warn">;
}

/** Limited, because each eviction blocks all callers. */
const MOST_EVICTIONS = 8;
const LEAST_FREE_BYTES = 1024 * 1024;
const LEAST_FREE_PAGES = 32;

const MEANWHILE =
  "Calls are counted in memory only. Make room in DATA_DIR, or repair the disk. Do not restart the gateway before.";

/**
 * The ledger in the gateway's file. On an almost full disk it evicts cached answers. If a call cannot be recorded, it is sent all
 * the same, because the limiter counts it in memory, and the mark says so to the next process and to reports.
 *
 * @throws {UnusableData} if the mark cannot be written at the start
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function openLedgerOnDisk(file: LedgerFile, options: LedgerOnDiskOptions) {
  const { log } = options;
  const mark = openUnrecordedMark({ ...options, directory: file.directory });
  const ledger = createSqliteLedger(file.database, options);
  const disk = createDisk({ ...options, what: "the ledger on disk", meanwhile: MEANWHILE });

  const before = mark.read();
  if (before !== undefined) {
    const [since, until] = [before.since, before.until].map((at) => new Date(at).toISOString());
    log.warn("Calls were sent and not recorded, because the disk was full.", { since, until });
  }
  return {
    ...ledger,
    enter(entry: LedgerEntry): void {
      const record = (): true => {
        keepRoom(file);
        ledger.enter(entry);
        return true;
      };
      const isRecorded = attempt(() => disk.run("write", record));
      if (!isRecorded) mark.extend();
    },
    complete(id: string, completion: LedgerCompletion): void {
      // A call without its end counts longer than necessary, never too short.
      attempt(() => disk.run("write", () => ledger.complete(id, completion)));
    },
    unrecorded: mark.read,
    /** Whether calls are recorded before they are sent. */
    isDurable: disk.isInOrder,
    close: (): void => mark.close(),
  };
}

/**
 * Evicts answers as soon as the disk is almost full, and keeps their pages in the file for the ledger. Later would be too
 * late: if the file cannot grow, its write-ahead log cannot be emptied, and an eviction needs space in the log.
 */
function keepRoom({ database, directory, evict }: LedgerFile): void {
  const { bavail, bsize } = statfsSync(directory);
  if (bavail * bsize >= LEAST_FREE_BYTES) return;
  const pages = database.prepare("PRAGMA freelist_count");
  for (let evictions = 0; evictions < MOST_EVICTIONS; evictions++)
    if (Number(pages.get()?.["freelist_count"]) >= LEAST_FREE_PAGES || !evict()) return;
}
