/**
 * The slot of this replica: its right to an own purse [3], and the calls that it has to report [4].
 */
import type { LedgerCompletion } from "../../usage/ledger-line.ts";
import type { PermitRequest } from "../limiter.ts";
import { OwnPurse, type Wait } from "./purse-in-memory.ts";
import { atLeast, atMost, type PurseWindow, ROUNDING_MS } from "./purse-sizes.ts";
import type { Done, Take } from "./redis-script.ts";

/** A call of the own purse that Redis has not confirmed. */
interface Unreported extends Pick<Take, "id" | "app" | "resource" | "cause" | "query"> {
  readonly slot: number;
  /** The app has a limit for the day. */
  readonly hasDay: boolean;
  /** The instant it counts from. */
  readonly latest: number;
  readonly sentAt: number;
}

interface End extends Pick<LedgerCompletion, "status" | "durationMs"> {
  readonly id: string;
  readonly app: string;
  /** Of the own purse that paid for it. */
  readonly slot: number | undefined;
  readonly arrivedAt: number;
}

/** Reports in one command, so that no command takes long. */
const MOST_REPORTED = 500;
/** For calls without a slot, which only `budget.mode: observe` sends. */
const NO_SLOT = 0;

/** An age as it certainly is on any clock. */
const ageOf = (ms: number): number => (ms > 0 ? atMost(ms) : ms);

/**
 * [3] A slot that was not renewed for this long is free, in milliseconds. The script adds the slack.
 * @param ms `budget.degradedFor`, the shortest window, and how long a call may take to arrive, together
 * @param drift how much clocks may differ in speed
 */
export function slotHoldMs(ms: number, drift: number): number {
  return Math.ceil(ms * (1 + drift));
}

export class Slot {
  readonly purse = new OwnPurse(atLeast);
  readonly #degradedForMs: number;
  #number: number | undefined;
  /** When the last renewal was sent that is confirmed. */
  #renewedAt = Number.NEGATIVE_INFINITY;
  readonly #unreported = new Map<string, Unreported>();
  /** The slots that paid for calls, by the ids of the calls. */
  readonly #paidBy = new Map<string, number>();
  readonly #ends = new Map<string, End>();

  constructor(degradedForMs: number) {
    this.#degradedForMs = degradedForMs;
  }

  /** [3] The last instant at which the purse may be spent. */
  rightUntil(): number {
    if (this.#number === undefined) return Number.NEGATIVE_INFINITY;
    return this.#renewedAt + atMost(this.#degradedForMs);
  }

  /** How many calls the purse can still pay for in a window. */
  left({ ms, own }: PurseWindow, now: number): number {
    return now > this.rightUntil() ? 0 : Math.max(0, own - this.purse.spent(ms, now));
  }

  /** @returns nothing if the purse may pay for a call now */
  waitFor(windows: readonly PurseWindow[], leave: readonly number[], now: number): Wait | undefined {
    if (now > this.rightUntil())
      return { kind: "wait", until: Number.POSITIVE_INFINITY, reason: "redis-away" };
    const sizes = windows.map(({ ms, own }, index) => ({ ms, size: own, leave: leave[index] ?? 0 }));
    return this.purse.waitFor(sizes, now);
  }

  /** @param latest the latest instant at which the call can arrive */
  spend(
    id: string,
    { app, resource, cause, query }: PermitRequest,
    { now, latest, hasDay }: { readonly now: number; readonly latest: number; readonly hasDay: boolean },
  ): void {
    const slot = this.#number ?? NO_SLOT;
    this.purse.log.enter(id, app, latest);
    this.#paidBy.set(id, slot);
    this.#unreported.set(id, { id, app, slot, resource, cause, query, hasDay, latest, sentAt: now });
  }

  /** A call has ended, of either purse. It counts from its arrival, or not at all if it was not sent. */
  ended(id: string, app: string, end: Pick<End, "arrivedAt" | "status" | "durationMs">): void {
    const { log } = this.purse;
    const slot = this.#paidBy.get(id);
    this.#ends.set(id, { id, app, slot, ...end });
    if (slot === undefined) return;
    this.#paidBy.delete(id);
    if (end.status === "unsent") log.drop(id);
    else if (log.has(id)) log.enter(id, app, end.arrivedAt);
  }

  /** How many calls of this purse are not in the counts of Redis. */
  unreportedSince(from: number): number {
    return [...this.#unreported.values()].filter(({ latest }) => latest > from).length;
  }

  /** This process will send that it leaves. The slot may be free from then on, also when the reply is lost. */
  stopUsing(): void {
    this.#number = undefined;
  }

  /**
   * What a command reports. Call `confirm` when Redis has replied.
   * @returns `fields`: `slot`, as far as this process knows; `calls`, of which `ageMs` is the time since the instant that they
   *   count from, and `sentMs` since their permit; `ended`, of which `ageMs` is the time since their arrival
   */
  report(now: number): { readonly fields: object; readonly confirm: () => void } {
    const calls = [...this.#unreported.values()].slice(0, MOST_REPORTED);
    const ends = [...this.#ends.values()]
      .filter(({ id }) => !this.#unreported.has(id) || calls.some((call) => call.id === id))
      .slice(0, MOST_REPORTED);
    return {
      fields: {
        slot: now < this.rightUntil() ? this.#number : undefined,
        calls: calls.map(({ latest, sentAt, ...call }) => {
          return { ...call, ageMs: ageOf(now - latest), sentMs: ageOf(now - sentAt) };
        }),
        ended: ends.map(({ arrivedAt, ...end }) => ({ ...end, ageMs: ageOf(Math.max(0, now - arrivedAt)) })),
      },
      confirm: () => {
        for (const { id } of calls) this.#unreported.delete(id);
        for (const end of ends) if (this.#ends.get(end.id) === end) this.#ends.delete(end.id);
      },
    };
  }

  /** A reply says which slot this process holds. If it holds none, another process may hold its earlier slot. */
  renewed({ slot, inherited, time, slackMs }: Done, askedAt: number, now: number): void {
    this.#number = slot;
    this.#renewedAt = askedAt;
    if (inherited === undefined) return;
    const slack = slackMs + ROUNDING_MS;
    this.purse.debts = inherited.debts.map(({ till, ...debt }) => {
      return { ...debt, till: now + atLeast(till - time) + slack };
    });
    for (let index = 0; index < inherited.calls.length; index += 2) {
      const [member = "", instant] = inherited.calls.slice(index, index + 2);
      const id = member.slice(member.indexOf(" ") + 1);
      if (member !== `${slot} ${id}` || this.purse.log.has(id)) continue;
      this.purse.log.enter(id, "", now - atMost(time - Number(instant)) + slack);
    }
  }

  forget(before: number): void {
    this.purse.log.forget(before);
    for (const [id, { latest }] of this.#unreported) if (latest < before) this.#unreported.delete(id);
    for (const id of this.#paidBy.keys()) if (!this.purse.log.has(id)) this.#paidBy.delete(id);
  }
}
