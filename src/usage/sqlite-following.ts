/**
 * How a process keeps up with what other processes enter in the gateway's file, and decides there.
 *
 * While no other connection has written to the file (`PRAGMA data_version`) nothing is read: a process that
 * has it to itself pays for a transaction and no more. New lines are found by their numbers, which only ever
 * grow: by the instants in them nothing can be told, because the time of day may be set. Of lines that had
 * not ended it is remembered that they are to be looked at again.
 */
import type { Database } from "../sqlite/database.ts";
import {
  type CompletedLine,
  type Follower,
  type Following,
  type LedgerEntry,
  type LedgerLine,
  type LedgerNews,
  LONGEST_ARRIVAL_MS,
  NO_NEWS,
  type StoredLedger,
} from "./ledger.ts";
import { lineOf, lineWith } from "./sqlite-line.ts";

export interface FollowedLedger {
  readonly recent: StoredLedger["recent"];
  /** @returns the number of the line; 0 where it was there already */
  readonly enter: (entry: LedgerEntry) => number;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** Where a process has read up to. */
interface Read {
  /** Of the file, by then. */
  readonly version: unknown;
  /** Of the last line. */
  readonly number: number;
}

export function createSqliteFollowing(
  database: Database,
  { origin, own, since }: Follower,
  { recent, enter, now }: FollowedLedger,
): Following {
  const selectVersion = database.prepare("PRAGMA data_version");
  const selectLast = database.prepare("SELECT coalesce(max(rowid), 0) AS number FROM ledger");
  const selectNew = database.prepare(
    `SELECT rowid AS number, CASE WHEN origin = :origin AND substr(id, 1, length(:own)) <> :own
       THEN ${lineWith("at", "arrived_at")} END AS line
     FROM ledger WHERE rowid > :number ORDER BY rowid`,
  );
  const selectEnded = database.prepare(
    `SELECT ${lineWith("at", "arrived_at")} AS line FROM ledger
     WHERE id IN (SELECT value FROM json_each(:open)) AND status IS NOT NULL`,
  );
  const transaction = createTransaction(database);
  let read: Read | undefined;
  /** Lines of others that had not ended, and when they went, in epoch milliseconds. */
  const open = new Map<string, number>();

  /** Everything that counts. */
  function readAll(version: unknown): LedgerNews {
    const number = Number(selectLast.get()?.["number"]);
    const entered = recent(origin, since).filter(({ id }) => !id.startsWith(own));
    read = { version, number };
    for (const { id, at, completion } of entered) if (completion === undefined) open.set(id, at);
    return { isFirst: true, entered, ended: [] };
  }

  function readOn(version: unknown, { number }: Read): LedgerNews {
    const ended = selectEnded.all({ open: JSON.stringify([...open.keys()]) }).map(({ line }) => lineOf(line));
    const rows = selectNew.all({ origin, own, number });
    const entered = rows.flatMap(({ line }) => (line === null ? [] : [lineOf(line)]));
    read = { version, number: Number(rows.at(-1)?.["number"] ?? number) };
    for (const { id } of ended) open.delete(id);
    // Whose process was killed: it will never be completed.
    for (const [id, at] of open) if (at < now() - LONGEST_ARRIVAL_MS) open.delete(id);
    for (const { id, at, completion } of entered) if (completion === undefined) open.set(id, at);
    return { isFirst: false, entered, ended: ended.filter(isCompleted) };
  }

  /** To be called in a transaction: it is about one moment. */
  function readNews(): LedgerNews {
    const version = selectVersion.get()?.["data_version"];
    if (read?.version === version) return NO_NEWS;
    return read === undefined ? readAll(version) : readOn(version, read);
  }

  return {
    // Outside of a transaction first: nearly always there is nothing to read.
    news: () =>
      read !== undefined && selectVersion.get()?.["data_version"] === read.version
        ? NO_NEWS
        : transaction("read", readNews),
    decide(work) {
      const number = transaction("write", () => {
        const entry = work(readNews());
        return entry === undefined ? 0 : enter(entry);
      });
      // Up to its own line it has read everything: nobody else could write.
      if (read !== undefined && number > read.number) read = { ...read, number };
      return true;
    },
  };
}

function isCompleted(line: LedgerLine): line is CompletedLine {
  return line.completion !== undefined;
}

type Transaction = <T>(kind: "read" | "write", work: () => T) => T;

/** @returns a function that does something in one transaction, all or nothing; where it is to write, from its beginning alone */
function createTransaction(database: Database): Transaction {
  const begin = { read: database.prepare("BEGIN"), write: database.prepare("BEGIN IMMEDIATE") };
  const commit = database.prepare("COMMIT");
  const rollback = database.prepare("ROLLBACK");
  return (kind, work) => {
    begin[kind].run();
    try {
      const result = work();
      commit.run();
      return result;
    } catch (error) {
      // What failed may have ended it.
      if (database.isTransaction) rollback.run();
      throw error;
    }
  };
}
