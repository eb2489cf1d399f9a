import { StoreUnavailable } from "../errors.ts";
import { type Database, openInMemory } from "../sqlite/database.ts";
import type { LedgerBounds, LedgerEntry, LedgerLine, LedgerReader, OwnLedger } from "./ledger-line.ts";

/** Old lines, and lines beyond the limit, are dropped each time this many lines were entered. */
const TIDY_EVERY = 256;
/** The most lines that are dropped at once, because all callers wait meanwhile. */
const TIDY_MOST = 1_024;
/** The lines that are read at once, for the same reason. */
const PIECE = 500;

/** A ledger that is lost when the process ends. */
export function createMemoryLedger(bounds: LedgerBounds): OwnLedger {
  return createSqliteLedger(openInMemory(), bounds);
}

/** The ledger in the gateway's file. It may contain a few hundred lines more than its bounds permit. */
export function createSqliteLedger(database: Database, bounds: LedgerBounds): OwnLedger {
  const { now, machine } = bounds.clock;
  const begunAt = now();
  const insert = database.prepare(
    `INSERT INTO ledger (id, origin, at, app, resource, cause, query, limits, boot, up)
     VALUES (:id, :origin, :at, :app, :resource, :cause, :query, :limits, :boot, :up) ON CONFLICT (id) DO NOTHING`,
  );
  const update = database.prepare(
    "UPDATE ledger SET status = ?, duration_ms = ?, arrived_at = ?, arrived_up = ? WHERE id = ?",
  );
  const selectRecent = database.prepare(
    `SELECT ${lineWith("sent", "arrived")} AS line FROM (
       SELECT *, rowid AS number, min(:now, CASE boot WHEN :boot THEN :now - :up + up ELSE at END) AS sent,
         min(:now, CASE boot WHEN :boot THEN :now - :up + arrived_up ELSE arrived_at END) AS arrived
       FROM ledger WHERE origin = :origin AND status IS NOT 'unsent')
     WHERE coalesce(arrived, sent) >= :since ORDER BY coalesce(arrived, sent), number`,
  );
  const tidy = createTidy(database, bounds, begunAt);
  let untidy = 0;

  /** The present time in both forms. */
  const present = () => ({ now: now(), boot: machine.boot, up: machine.up() });

  function enter(entry: LedgerEntry): void {
    const { at } = entry;
    const line = {
      ...entry,
      at: Math.round(at),
      boot: machine.boot,
      up: Math.round(machine.up() - now() + at),
    };
    // A call must be on the disk before it is sent, also if the power fails then. The lines of answers and ends need not.
    database.exec("PRAGMA synchronous = FULL");
    try {
      insert.run(line);
    } finally {
      database.exec("PRAGMA synchronous = NORMAL");
    }
    // Also at the first line, because a short-lived process would otherwise never drop lines. And after the insert: if
    // this throws, the line stays, and entering it again changes nothing.
    if (untidy === 0) tidy();
    untidy = (untidy + 1) % TIDY_EVERY;
  }

  return {
    enter,
    complete(id, { status, durationMs, arrivedAt }) {
      const arrivedUp = machine.up() - now() + arrivedAt;
      update.run(String(status), ...[durationMs, arrivedAt, arrivedUp].map(Math.round), id);
    },
    recent: (origin, since) =>
      selectRecent.all({ origin, since, ...present() }).map((row) => lineOf(row["line"])),
    ...createReader(database, begunAt, now),
  };
}

/** @returns an expression for a line as JSON, with these as its instants */
function lineWith(at: string, arrivedAt: string): string {
  return `json_object('id', id, 'origin', origin, 'at', ${at}, 'app', app, 'resource', resource,
    'cause', cause, 'query', query, 'limits', limits, 'completion', json(CASE WHEN status IS NOT NULL THEN json_object(
      'status', CASE WHEN status GLOB '[0-9]*' THEN CAST(status AS INTEGER) ELSE status END,
      'durationMs', duration_ms, 'arrivedAt', ${arrivedAt}) END))`;
}

/** @param json a line in the form of `lineWith` */
function lineOf(json: unknown): LedgerLine {
  const line: Omit<LedgerLine, "completion"> & { completion: LedgerLine["completion"] | null } = JSON.parse(
    String(json),
  );
  return { ...line, completion: line.completion ?? undefined };
}

/** @param begunAt epoch milliseconds: when this process started */
function createReader(database: Database, begunAt: number, now: () => number): LedgerReader {
  const selectSince = database.prepare("SELECT at FROM ledger_since");
  const selectPiece = database.prepare(
    `SELECT at, rowid AS number, ${lineWith("at", "arrived_at")} AS line FROM ledger
     WHERE at < :to AND (at, rowid) > (:at, :number) ORDER BY at, rowid LIMIT ${PIECE}`,
  );
  return {
    async *read(from, to) {
      let after = { at: from, number: Number.NEGATIVE_INFINITY };
      for (;;) {
        const rows = readable(() => selectPiece.all({ to, ...after }));
        const last = rows.at(-1);
        if (last === undefined) return;
        after = { at: Number(last["at"]), number: Number(last["number"]) };
        yield rows.map((row) => lineOf(row["line"]));
      }
    },
    completeness: async () =>
      readable(() => {
        // Before the first line, only calls from before the start of this process are missing.
        const since = Number(selectSince.get()?.["at"] ?? begunAt);
        return { since: Math.min(since, now()), hasLost: false };
      }),
  };
}

/** @returns a function that drops some of the lines that are too old or too many */
function createTidy(
  database: Database,
  { retentionMs, maxRecords, clock: { now, machine }, onOverflow }: LedgerBounds,
  begunAt: number,
): () => void {
  const begin = database.prepare(
    "INSERT INTO ledger_since (at) SELECT ? WHERE NOT EXISTS (SELECT 1 FROM ledger_since)",
  );
  // Lines that were entered while the clock was ahead would count, and be kept, for too long.
  const correct = database.prepare(
    "UPDATE ledger SET at = :now, arrived_at = min(arrived_at, :now) WHERE at > :now",
  );
  const correctSince = database.prepare("UPDATE ledger_since SET at = :now WHERE at > :now");
  const dropOld = database.prepare(
    `DELETE FROM ledger WHERE rowid IN
       (SELECT rowid FROM ledger WHERE at <= :now - :retentionMs
          AND (boot <> :boot OR up <= :up - :retentionMs) ORDER BY at, rowid LIMIT ${TIDY_MOST})`,
  );
  // In the order of entry, which does not depend on the clock.
  const dropFirst = database.prepare(
    `DELETE FROM ledger WHERE rowid IN (SELECT rowid FROM ledger ORDER BY rowid
       LIMIT min(${TIDY_MOST}, max(0, (SELECT count(*) FROM ledger) - ?)))`,
  );

  return () => {
    begin.run(begunAt);
    correct.run({ now: now() });
    correctSince.run({ now: now() });
    // A clock that is set forward drops nothing that is young.
    dropOld.run({ now: now(), boot: machine.boot, up: machine.up(), retentionMs });
    if (dropFirst.run(maxRecords).changes > 0) onOverflow?.();
  };
}

function readable<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new StoreUnavailable("the ledger cannot be read", { cause: error });
  }
}
