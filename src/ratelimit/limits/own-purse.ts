/**
 * The own purse of this replica. The replica may spend it while it holds a slot, and reports its calls to Redis.
 */
import type { LedgerCompletion, LedgerEntry } from "../../usage/ledger-line.ts";
import type { Permit } from "../limiter.ts";
import { atLeast, atMost, type PurseWindow, ROUNDING_MS } from "./purse-sizes.ts";
import type { Heard } from "./redis-script.ts";
import { WindowLog } from "./window-log.ts";

/** A call of the own purse. Instants are by the monotonic clock. */
interface OwnCall extends Pick<LedgerEntry, "id" | "app" | "resource" | "cause" | "query"> {
  readonly slot: number;
  /** The app has a limit for the day. */
  readonly hasDay: boolean;
  readonly sentAt: number;
  /** The latest instant at which it can arrive. It counts from there. */
  readonly latest: number;
}

/** The end of a call of either purse. `arrivedAt` is by the monotonic clock. */
interface End extends LedgerCompletion, Pick<Permit, "id" | "slot"> {
  readonly app: string;
}

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
  #calls: OwnCall[] = [];
  #ends: End[] = [];

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
    this.log.enter(call.id, call.latest);
    this.#calls.push({ ...call, slot });
    return slot;
  }

  /** A call of either purse has ended. It counts from its arrival, or not at all if it was not sent. */
  ended({ id, slot, request: { app } }: Permit, end: LedgerCompletion): void {
    this.#ends.push({ id, app, slot, ...end });
    if (end.status === "unsent") this.log.drop(id);
    else if (this.log.has(id)) this.log.enter(id, end.arrivedAt);
  }

  /** The next command gives the slot back. It may be free from then on, also when the reply is lost. */
  stopUsing(): void {
    this.#number = undefined;
  }

  /**
   * What a command reports. Call `confirm` when Redis has replied, and before the next report.
   * @returns `fields`: `slot`, as far as this process knows; `calls`, of which `ageMs` is the time since the instant that they
   *   count from, and `sentMs` since their permit; `unreported`, the number of calls that this command does not report; `ended`,
   *   of which `ageMs` is the time since their arrival
   */
  report(now: number): { readonly fields: object; readonly confirm: () => void } {
    // A process that gives its slot back reports all calls, because another process may hold it next.
    const calls = this.#calls.slice(0, this.#number === undefined ? undefined : MOST_REPORTED);
    // A call is reported before its end.
    const ends = this.#calls.length > calls.length ? [] : this.#ends.slice(0, MOST_REPORTED);
    return {
      fields: {
        slot: now < this.rightUntil() ? this.#number : undefined,
        calls: calls.map(({ latest, sentAt, ...call }) => {
          return { ...call, ageMs: ageOf(now - latest), sentMs: ageOf(now - sentAt) };
        }),
        unreported: this.#calls.length - calls.length,
        ended: ends.map(({ arrivedAt, ...end }) => ({ ...end, ageMs: ageOf(Math.max(0, now - arrivedAt)) })),
      },
      confirm: () => {
        this.#calls.splice(0, calls.length);
        this.#ends.splice(0, ends.length);
      },
    };
  }

  /**
   * A reply says which slot this process holds. If it holds none, another process may hold its earlier slot.
   * @param name the name of the sizes that this process wants: a slot of another size is not its own
   */
  renewed({ slot, inherited = [], purses, time, slackMs, askedAt, at }: Heard, name: string): void {
    this.#number = purses?.name === name ? slot : undefined;
    this.#renewedAt = askedAt;
    for (let index = 0; index < inherited.length; index += 2) {
      const [member = "", instant] = inherited.slice(index, index + 2);
      const id = member.slice(member.indexOf(" ") + 1);
      if (member !== `${slot} ${id}` || this.log.has(id)) continue;
      this.log.enter(id, at - atMost(time - Number(instant)) + slackMs + ROUNDING_MS);
    }
  }
}
