/**
 * The own purse of this replica. The replica may spend it while it holds a slot, and reports its calls to Redis.
 */
import type { LedgerCompletion } from "../../usage/ledger-line.ts";
import type { Permit, PermitRequest } from "../limiter.ts";
import { atLeast, atMost, type PurseWindow, ROUNDING_MS } from "./purse-sizes.ts";
import type { Heard } from "./redis-script.ts";
import { WindowLog } from "./window-log.ts";

/** What Redis must hear of a call. */
interface Report {
  readonly id: string;
  readonly app: string;
  /** The slot whose own purse has paid. */
  readonly slot: number | undefined;
  /** The instant from which the call counts, by the monotonic clock. */
  readonly at: number;
}

/** A call of the own purse. It counts from its latest arrival. */
interface OwnCall extends Report, PermitRequest {
  /** From its permit to its latest arrival. */
  readonly arrivalMs: number;
  /** The app's limit for the day. */
  readonly perDay: number | undefined;
}

/** The end of a call of either purse. */
type End = Report & Pick<LedgerCompletion, "status" | "durationMs">;

/** Reports in one command, so that no command takes long. */
const MOST_REPORTED = 500;

/** @returns an age that is certainly not too high on any clock */
const ageOf = (ms: number): number => (ms > 0 ? atMost(ms) : ms);

export class OwnPurse {
  readonly log = new WindowLog();
  readonly #degradedForMs: number;
  #number: number | undefined;
  /** When the last confirmed renewal was sent. */
  #renewedAt = Number.NEGATIVE_INFINITY;
  /** What Redis has not confirmed, in order. */
  #reports: (OwnCall | End)[] = [];

  constructor(degradedForMs: number) {
    this.#degradedForMs = degradedForMs;
  }

  /** The last instant at which the purse may be spent. */
  rightUntil(): number {
    if (this.#number === undefined) return Number.NEGATIVE_INFINITY;
    return this.#renewedAt + atMost(this.#degradedForMs);
  }

  /** How many calls the purse can still pay for in a window. */
  left({ windowMs, own }: PurseWindow, now: number): number {
    return now > this.rightUntil() ? 0 : Math.max(0, own - this.log.spent(atLeast(windowMs), now));
  }

  /** @returns the number of the slot that pays */
  spend(call: Omit<OwnCall, "slot">): number {
    // Only `budget.mode: observe` sends calls without a slot.
    const slot = this.#number ?? 0;
    this.log.enter(call.id, call.at);
    this.#reports.push({ ...call, slot });
    return slot;
  }

  /** A call of either purse has ended. It counts from its arrival, or not at all if it was not sent. */
  ended({ id, slot, request: { app } }: Permit, { arrivedAt: at, ...end }: LedgerCompletion): void {
    this.#reports.push({ id, app, slot, at, ...end });
    if (end.status === "unsent") this.log.drop(id);
    else if (this.log.has(id)) this.log.enter(id, at);
  }

  /** The next command gives the slot back. It may be free from then on, also when the reply is lost. */
  stopUsing(): void {
    this.#number = undefined;
  }

  /**
   * What a command reports. Call `confirm` when Redis has replied, and before the next report.
   * @returns `fields`: `slot`, as far as this process knows; `reports`, of which `ageMs` is the time since the instant that the
   *   call counts from; `unreported`, the number of reports that wait for the next command
   */
  report(now: number): { readonly fields: object; readonly confirm: () => void } {
    // A process that gives its slot back reports all calls, because another process may hold it next.
    const most = this.#number === undefined ? this.#reports.length : MOST_REPORTED;
    const reports = this.#reports
      .slice(0, most)
      .map(({ at, ...one }) => ({ ...one, ageMs: ageOf(now - at) }));
    return {
      fields: {
        slot: now < this.rightUntil() ? this.#number : undefined,
        reports,
        unreported: this.#reports.length - reports.length,
      },
      confirm: () => void this.#reports.splice(0, reports.length),
    };
  }

  /**
   * A reply says which slot this process holds. If it holds none, another process may hold its earlier slot.
   * @param name the name of the sizes that this process wants: a slot of another size is not its own
   */
  renewed({ slot, inherited = [], known, time, slackMs, askedAt, at }: Heard, name: string): void {
    this.#number = known.purses?.name === name ? slot : undefined;
    this.#renewedAt = askedAt;
    for (let index = 0; index < inherited.length; index += 2) {
      const [member = "", instant] = inherited.slice(index, index + 2);
      const id = member.slice(member.indexOf(" ") + 1);
      if (member !== `${slot} ${id}` || this.log.has(id)) continue;
      this.log.enter(id, at - atMost(time - Number(instant)) + slackMs + ROUNDING_MS);
    }
  }
}
