/**
 * How many calls each app sent, over all replicas, read from the ledger as it grows. The counts are approximate: only
 * fairness uses them, not the limits.
 */
import { appIn, type RedisPurse } from "./redis-script.ts";
import { WindowLog } from "./window-log.ts";

const MOST_APPS = 100;
/** The largest apps are found again after this time. */
const COUNTED_FOR_MS = 250;

export class AppCounts {
  readonly log = new WindowLog();
  /** By window. */
  readonly #counted = new Map<number, { readonly at: number; readonly counts: Map<string, number> }>();
  readonly #redis: Pick<RedisPurse, "ledger">;
  #after: string | undefined;
  #isReading = false;

  constructor(redis: Pick<RedisPurse, "ledger">) {
    this.#redis = redis;
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
    this.#counted.clear();
  }

  /** The call was not sent. */
  released(id: string): void {
    this.log.drop(id);
    this.#counted.clear();
  }

  /** The ledger was lost. The new one may begin earlier, because Redis' clock may be behind. */
  restart(): void {
    this.#after = undefined;
  }

  /**
   * Reads on in the ledger.
   * @param redisMs Redis' clock minus the own monotonic clock
   */
  async follow(redisMs: number, now: number, keptMs: number): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    this.log.forget(now - keptMs);
    this.#after ??= `${Math.max(0, Math.floor(now + redisMs - keptMs))}-0`;
    try {
      for await (const entries of this.#redis.ledger(`(${this.#after}`, "+"))
        for (const { at, fields } of entries) {
          const { i: id = "", s: status, t: arrivedAt } = fields;
          if (status === "unsent") this.log.drop(id);
          else this.log.enter(id, appIn(id), Number(arrivedAt) - redisMs);
          this.#after = at;
        }
    } catch {
      // Redis is away. The next reading goes on from here.
    }
    this.#isReading = false;
  }
}
