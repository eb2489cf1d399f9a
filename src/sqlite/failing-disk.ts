import type { Clock } from "../process/clock.ts";
import type { CircuitState, Observer } from "../telemetry/events.ts";

/** How long an operation is not tried again after it has failed, because each try may block all callers. */
const REST_MS = 2_000;

export interface DiskOptions {
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: Pick<Observer, "outOfOrder" | "backInOrder">;
  /** The name of what is on the disk, and what callers get while it does not work. */
  readonly what: string;
  readonly meanwhile: string;
  readonly onBreaker?: (state: CircuitState) => void;
}

/**
 * Runs operations on a disk that may fail. One fault causes one line in the log, and one more when everything works again.
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createDisk({ clock, log, what, meanwhile, onBreaker }: DiskOptions) {
  /** By kind of operation: reads continue while nothing can be written, for example on a full disk. */
  const failedAt = new Map<"read" | "write", number>();

  return {
    isInOrder: (): boolean => failedAt.size === 0,
    /** @throws what the work throws, or an error if the same kind of work has just failed */
    run<T>(kind: "read" | "write", work: () => T): T {
      if (clock.monotonic() < (failedAt.get(kind) ?? Number.NEGATIVE_INFINITY) + REST_MS)
        throw new Error("the disk has just failed");
      try {
        const result = work();
        if (failedAt.delete(kind) && failedAt.size === 0) {
          log.backInOrder(what);
          onBreaker?.("closed");
        }
        return result;
      } catch (error) {
        if (failedAt.size === 0) {
          log.outOfOrder({ what, cause: error instanceof Error ? error.message : String(error), meanwhile });
          onBreaker?.("open");
        }
        failedAt.set(kind, clock.monotonic());
        throw error;
      }
    },
  };
}
