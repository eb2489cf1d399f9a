/**
 * How many calls each app sent, over all replicas, read from the ledger as it grows. The counts are approximate: only
 * fairness uses them, not the limits.
 */
import { DAY_MS } from "../limiter.ts";
import { appIn, type Fields, fieldsIn } from "./redis-ledger.ts";
import type { RedisPurse } from "./redis-script.ts";
import { createWindowLog, type WindowLog } from "./window-log.ts";

export interface AppCounts {
  readonly log: WindowLog;
  /** Calls that count in a window, of the largest apps. */
  readonly byApp: (windowMs: number, now: number) => ReadonlyMap<string, number>;
  /** A call of this replica, which the ledger may not have yet. */
  readonly sent: (id: string, app: string, at: number) => void;
  /** The call was not sent. */
  readonly released: (id: string, app: string) => void;
  /**
   * Reads on in the ledger.
   * @param redisMs Redis' clock minus the own monotonic clock
   */
  readonly follow: (redisMs: number, now: number, keptMs: number) => Promise<void>;
  /** The ledger was lost. */
  readonly restart: () => void;
}

/** Entries in one reply. */
const MOST_ENTRIES = 500;
const MOST_APPS = 100;
/** The largest apps are found again after this time. */
const COUNTED_FOR_MS = 250;

export function createAppCounts(read: RedisPurse["follow"]): AppCounts {
  const log = createWindowLog();
  const counted = new Map<number, { readonly at: number; readonly counts: Map<string, number> }>();
  let after: string | undefined;
  let isReading = false;

  function change(app: string, by: number): void {
    for (const { counts } of counted.values()) counts.set(app, Math.max(0, (counts.get(app) ?? 0) + by));
  }

  function enter({ i: id = "", s: status, t: at }: Fields, redisMs: number): void {
    if (status === "unsent") log.drop(id);
    else log.enter(id, appIn(id), Number(at) - redisMs);
  }

  return {
    log,
    byApp(windowMs, now) {
      const last = counted.get(windowMs);
      if (last !== undefined && now < last.at + COUNTED_FOR_MS) return last.counts;
      const largest = [...log.byApp(windowMs, now)].toSorted((a, b) => b[1] - a[1]).slice(0, MOST_APPS);
      const counts = new Map(largest);
      counted.set(windowMs, { at: now, counts });
      return counts;
    },
    sent(id, app, at) {
      log.enter(id, app, at);
      change(app, 1);
    },
    released(id, app) {
      log.drop(id);
      change(app, -1);
    },
    async follow(redisMs, now, keptMs) {
      if (isReading) return;
      isReading = true;
      log.forget(now - keptMs);
      try {
        for (;;) {
          after ??= `${Math.max(0, Math.floor(now + redisMs - Math.max(DAY_MS, keptMs)))}-0`;
          const entries = await read(after, MOST_ENTRIES);
          for (const [, flat] of entries) enter(fieldsIn(flat), redisMs);
          after = entries.at(-1)?.[0] ?? after;
          if (entries.length < MOST_ENTRIES) return;
        }
      } catch {
        // Redis is away. The next reading goes on from here.
      } finally {
        isReading = false;
      }
    },
    restart() {
      after = undefined;
    },
  };
}
