import type { Clock } from "../../process/clock.ts";
import type { Database } from "../../sqlite/database.ts";
import { StoreUnavailable } from "./port.ts";

/** What is done to the database; a closed set, as it labels a metric. */
type SqliteOperation = "get" | "use" | "set" | "remove" | "sweep" | "purge" | "purges";

/** Told apart because reads go on while a full disk, or another process, keeps from writing. */
const KINDS = {
  get: "read",
  purges: "read",
  use: "write",
  set: "write",
  remove: "write",
  sweep: "write",
  purge: "write",
} as const satisfies Record<SqliteOperation, string>;
type Kind = (typeof KINDS)[SqliteOperation];

export interface RunOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: { readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void };
  readonly onOperation: (operation: SqliteOperation, durationMs: number) => void;
}

/** Runs an operation on the database: timed, and rejecting with `StoreUnavailable` wherever it fails. */
export type Run = <T>(operation: SqliteOperation, work: () => T | Promise<T>) => Promise<T>;

/** How long it is left alone after a failure: waiting for a lock, say, holds up every caller. */
const REST_MS = 2_000;

/** One fault makes one line in the log, and one more when all works again. */
export function createRun({ database, clock, log, onOperation }: RunOptions): Run {
  const failedAt = new Map<Kind, number>();

  function isResting(operation: SqliteOperation): boolean {
    const sinceMs = clock.now() - (failedAt.get(KINDS[operation]) ?? Number.NEGATIVE_INFINITY);
    // A clock that was set back is no reason to rest for longer.
    return sinceMs >= 0 && sinceMs < REST_MS;
  }

  function succeeded(operation: SqliteOperation): void {
    if (failedAt.delete(KINDS[operation]) && failedAt.size === 0)
      log.warn("The database on disk works again.", { operation });
  }

  function failed(operation: SqliteOperation, reason: string): void {
    // Closed under what was still under way: no fault.
    if (!database.isOpen) return;
    if (failedAt.size === 0)
      log.warn("The database on disk failed; answers are kept in memory meanwhile.", { operation, reason });
    failedAt.set(KINDS[operation], clock.now());
  }

  return async (operation, work) => {
    if (!database.isOpen) throw new StoreUnavailable("the database is closed");
    if (isResting(operation)) throw new StoreUnavailable("the database has just failed");
    const startedAt = performance.now();
    try {
      const result = await work();
      succeeded(operation);
      return result;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      failed(operation, reason);
      throw new StoreUnavailable(reason);
    } finally {
      onOperation(operation, performance.now() - startedAt);
    }
  };
}
