import type { Clock } from "../../process/clock.ts";
import type { Database } from "../../sqlite/database.ts";
import type { Purge, PurgeScope } from "./purges.ts";

interface SqlitePurges {
  readonly all: () => Purge[];
  readonly add: (scope: PurgeScope, hard: boolean) => Purge;
}

/** Purges in a table of their own, so that a restart forgets none of them. */
export function createSqlitePurges(database: Database, clock: Clock, retentionMs: number): SqlitePurges {
  const select = database.prepare("SELECT epoch, purge FROM purges ORDER BY epoch");
  // One statement, so that two processes never take the same epoch.
  const insert = database.prepare(
    `INSERT INTO purges (epoch, at, purge)
     SELECT max(coalesce(max(epoch), 0) + 1, :now), :now, :purge FROM purges RETURNING epoch`,
  );
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
      const row = insert.get({ now, purge: JSON.stringify({ scope, hard }) });
      trim.run(now - retentionMs);
      return { epoch: Number(row?.["epoch"]), scope, hard };
    },
  };
}
