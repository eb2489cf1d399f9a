import { randomUUID } from "node:crypto";

import type { Database } from "../platform/sqlite.ts";
import type { SendLog } from "./send-log.ts";

/** Old sends are dropped each time so many new ones were entered. */
const TIDY_EVERY = 256;

/**
 * The sends to one origin, in the ledger of the gateway's file, with nothing but their instants: until the
 * throttle writes whole lines.
 * @param origin whose allowance they are counted against
 * @param horizonMs how long a send counts: the longest window
 */
export function createSqliteSends(database: Database, origin: string, horizonMs: number): SendLog {
  // A clock that was ahead when it was noted must not hold everything back until then.
  const select = database.prepare(
    "SELECT min(at, :now) AS at FROM ledger WHERE origin = :origin AND at > :horizon ORDER BY ledger.at",
  );
  const insert = database.prepare(
    `INSERT INTO ledger (id, origin, at, app, resource, cause, query)
     VALUES (:id, :origin, :at, 'other', iif(:origin = 'images', 'images', 'listings'), 'miss', '')`,
  );
  const drop = database.prepare("DELETE FROM ledger WHERE origin = ? AND at <= ?");
  const correct = database.prepare("UPDATE ledger SET at = :now WHERE origin = :origin AND at > :now");
  let untidy = 0;

  function tidy(now: number): void {
    drop.run(origin, now - horizonMs);
    correct.run({ origin, now });
  }

  return {
    load(now) {
      const instants = select.all({ now, origin, horizon: now - horizonMs });
      return instants.map((row) => Number(row["at"]));
    },
    record(at) {
      insert.run({ id: randomUUID(), origin, at });
      // At the first one too: processes that live briefly must not leave it all to each other.
      if (untidy === 0) tidy(at);
      untidy = (untidy + 1) % TIDY_EVERY;
    },
  };
}
