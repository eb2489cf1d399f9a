/**
 * How many calls each app sent, over all replicas, read from the ledger as it grows. The counts are approximate: only
 * fairness uses them, not the limits.
 */
import { DAY_MS } from "../limiter.ts";
import { appIn, fieldsIn } from "./redis-ledger.ts";
import type { RedisPurse } from "./redis-script.ts";
import { WindowLog } from "./window-log.ts";

/** Entries in one reply. */
const MOST_ENTRIES = 500;
const MOST_APPS = 100;
/** The largest apps are found again after this time. */
const COUNTED_FOR_MS = 250;

export class AppCounts {
  readonly log = new WindowLog();
  /** By window. */
  readonly #counted = new Map<number, { readonly at: number; readonly counts: Map<string, number> }>();
  readonly #read: RedisPurse["ledger"];
  #after: string | undefined;
  #isReading = false;

  constructor(read: RedisPurse["ledger"]) {
    this.#read = read;
  }

  /** Calls that count in a window, of the largest apps. */
  byApp(windowMs: number, now: number): ReadonlyMap<string, number> {
    const last = this.#counted.get(windowMs);
    if (last !== undefined && now < last.at + COUNTED_FOR_MS) return last.counts;
    const largest = [...this.log.byApp(windowMs, now)].toSorted((a, b) => b[1] - a[1]).slice(0, MOST_APPS);
    const counts = new Map(largest);
    this.#counted.set(windowMs, { at: now, counts });
    return counts;
  }

  /** A call of this replica, which the ledger may not have yet. */
  sent(id: string, app: string, at: number): void {
    this.log.enter(id, app, at);
    this.#change(app, 1);
  }

  /** The call was not sent. */
  released(id: string, app: string): void {
    this.log.drop(id);
    this.#change(app, -1);
  }

  #change(app: string, by: number): void {
    for (const { counts } of this.#counted.values())
      counts.set(app, Math.max(0, (counts.get(app) ?? 0) + by));
  }

  /**
   * Reads on in the ledger.
   * @param redisMs Redis' clock minus the own monotonic clock
   */
  async follow(redisMs: number, now: number, keptMs: number): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    this.log.forget(now - keptMs);
    try {
      let count = MOST_ENTRIES;
      while (count === MOST_ENTRIES) {
        this.#after ??= `${Math.max(0, Math.floor(now + redisMs - Math.max(DAY_MS, keptMs)))}-0`;
        const entries = await this.#read(`(${this.#after}`, "+", MOST_ENTRIES);
        for (const [, flat] of entries) this.#enter(flat, redisMs);
        this.#after = entries.at(-1)?.[0] ?? this.#after;
        count = entries.length;
      }
    } catch {
      // Redis is away. The next reading goes on from here.
    }
    this.#isReading = false;
  }

  #enter(flat: readonly string[], redisMs: number): void {
    const { i: id = "", s: status, t: at } = fieldsIn(flat);
    if (status === "unsent") this.log.drop(id);
    else this.log.enter(id, appIn(id), Number(at) - redisMs);
  }

  /** The ledger was lost. */
  restart(): void {
    this.#after = undefined;
  }
}
