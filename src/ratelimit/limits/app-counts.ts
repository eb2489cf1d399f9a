/**
 * The calls of all replicas, read from the ledger as it grows, and how many of them each app sent. They are approximate: only
 * fairness uses them, not the limits.
 */
import { appIn, type LedgerStream } from "../../usage/redis-ledger.ts";
import { WindowLog } from "./window-log.ts";

export class AppCounts extends WindowLog {
  readonly #stream: Pick<LedgerStream, "ledger">;
  #after: string | undefined;
  #isReading = false;

  constructor(stream: Pick<LedgerStream, "ledger">) {
    super();
    this.#stream = stream;
  }

  /**
   * Reads on in the ledger.
   * @param redisMs Redis' clock minus the own monotonic clock
   */
  async follow(redisMs: number, now: number, keptMs: number): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    this.forget(now - keptMs);
    this.#after ??= `${Math.max(0, Math.floor(now + redisMs - keptMs))}-0`;
    try {
      for await (const entries of this.#stream.ledger(`(${this.#after}`, "+"))
        for (const { at, fields } of entries) {
          const { i: id = "", s: status, t: arrivedAt } = fields;
          if (status === "unsent") this.drop(id);
          else this.enter(id, Number(arrivedAt) - redisMs, appIn(id));
          this.#after = at;
        }
    } catch {
      // Redis is away. The next reading goes on from here.
    }
    this.#isReading = false;
  }
}
