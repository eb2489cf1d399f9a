/**
 * The embedded backend: one SQLite file, so that a restart empties nothing. There are no other
 * replicas, so there are no events but past purges, and no claims.
 */
import type { Clock } from "../../process/clock.ts";
import { LAYOUT } from "../../sqlite/layout.ts";
import { openDatabase, type Database } from "../../sqlite/database.ts";
import type { Backend } from "./port.ts";
import { createSqlitePurges } from "./sqlite-purges.ts";
import { createRun, type RunOptions } from "./sqlite-run.ts";
import { createSqliteStore } from "./sqlite.ts";

export interface SqliteBackendOptions extends Omit<RunOptions, "database"> {
  readonly dataDir: string;
  /** The bound on the file, in bytes; the log of writes beside it takes a few MiB more. */
  readonly maxBytes: number;
  /** Purges older than this, in milliseconds, concern no entry any more. */
  readonly retentionMs: number;
  readonly clock: Clock;
}

export interface SqliteBackend extends Backend {
  /** For what else is to outlive a restart (src/usage/sqlite-ledger.ts); closed with the backend. */
  readonly database: Database;
  readonly close: () => Promise<void>;
}

/** @returns the backend, or `undefined` where nothing can be kept on disk; the log says why */
export function createSqliteBackend(options: SqliteBackendOptions): SqliteBackend | undefined {
  const { dataDir: directory, maxBytes, retentionMs, clock, log } = options;
  const database = openDatabase({ directory, layout: LAYOUT, now: clock.now(), warn: log.warn });
  if (database === undefined) return undefined;

  const run = createRun({ ...options, database });
  const purges = createSqlitePurges(database, clock, retentionMs);
  // What an earlier start kept for longer than is allowed now.
  const shorten = database.prepare(
    "UPDATE entries SET keep_until = stored_at + ?1 WHERE keep_until > stored_at + ?1",
  );
  run("sweep", () => void shorten.run(retentionMs)).catch(() => undefined);
  return {
    database,
    store: createSqliteStore({ database, maxBytes, clock, run }),
    purge: (scope, hard) => run("purge", () => purges.add(scope, hard)),
    onEvent(listener) {
      // Told at once, not a turn later: an entry must not be looked up before what was purged is known.
      const tell = (): void => {
        const past = purges.all();
        if (past.length > 0) listener({ kind: "purged", purges: past });
      };
      run("purges", tell).catch(() => undefined);
    },
    close: async () => {
      // SQLite then works off the log of writes, unless another process goes on with it.
      if (database.isOpen) database.close();
    },
  };
}
