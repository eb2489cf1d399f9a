import type { Clock } from "../platform/clock.ts";
import type { Database } from "../platform/sqlite.ts";
import type { Purge, PurgeScope } from "./purges.ts";

interface SqlitePurges {
  readonly all: () => Purge[];
  readonly add: (scope: PurgeScope, hard: boolean) => Purge;
}

/** Purges in a table of their own, so that a restart forgets none of them. */
export function createSqlitePurges(database: Database, clock: Clock, retentionMs: number): SqlitePurges {
  const select = database.prepare("SELECT epoch, purge FROM purges ORDER BY epoch");
  const latest = database.prepare("SELECT max(epoch) AS epoch FROM purges");
  const insert = database.prepare("INSERT INTO purges (epoch, at, purge) VALUES (?, ?, ?)");
  // The latest stays: epochs must go on growing.
  const trim = database.prepare(
    "DELETE FROM purges WHERE at < ? AND epoch < (SELECT max(epoch) FROM purges)",
  );

  return {
    all: () =>
      select.all().map((row) => {
        const purge: Omit<Purge, "epoch"> = JSON.parse(String(row["purge"]));
        return { ...purge, epoch: Number(row["epoch"]) };
      }),
    add(scope, hard) {
      const now = clock.now();
      const epoch = Math.max(Number(latest.get()?.["epoch"] ?? 0) + 1, now);
      insert.run(epoch, now, JSON.stringify({ scope, hard }));
      trim.run(now - retentionMs);
      return { epoch, scope, hard };
    },
  };
}
