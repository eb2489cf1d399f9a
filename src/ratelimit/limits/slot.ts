/**
 * The slot of this replica: its right to an own purse [3], and the calls that it has to report [4].
 */
import type { PermitRequest } from "../limiter.ts";
import { createOwnPurse, spentIn, type OwnPurse, type Wait, waitFor } from "./own-purse.ts";
import { atLeast, atMost, type PurseWindow, ROUNDING_MS } from "./purse-sizes.ts";
import type { Done, EndedCall, OwnCall, Request } from "./redis-script.ts";

/** A call of the own purse that Redis has not confirmed. */
interface Unreported extends Omit<OwnCall, "ageMs" | "sentMs"> {
  readonly latest: number;
  readonly sentAt: number;
}

interface End extends Omit<EndedCall, "ageMs"> {
  readonly arrivedAt: number;
}

/** Reports in one command, so that no command takes long. */
const MOST_REPORTED = 500;
/** For calls without a slot, which only `budget.mode: observe` sends. */
const NO_SLOT = 0;

/** An age as it certainly is on any clock. */
const ageOf = (ms: number): number => (ms > 0 ? atMost(ms) : ms);

export class Slot {
  readonly #degradedForMs: number;
  #number: number | undefined;
  /** When the last renewal was sent that is confirmed. */
  #renewedAt = Number.NEGATIVE_INFINITY;
  #epoch: string | undefined;
  #isFullDue = false;
  /** The last reply named a slot. */
  #isConfirmed = false;
  #purse: OwnPurse = createOwnPurse([], atLeast);
  readonly #unreported = new Map<string, Unreported>();
  readonly #paidBy = new Map<string, number>();
  readonly #ends = new Map<string, End>();

  constructor(degradedForMs: number) {
    this.#degradedForMs = degradedForMs;
  }

  get purse(): OwnPurse {
    return this.#purse;
  }

  /** [3] The last instant at which the purse may be spent. */
  rightUntil(): number {
    return this.#number === undefined
      ? Number.NEGATIVE_INFINITY
      : this.#renewedAt + atMost(this.#degradedForMs);
  }

  /** How many calls the purse can still pay for in a window. */
  left({ ms, own }: PurseWindow, now: number): number {
    return now > this.rightUntil() ? 0 : Math.max(0, own - spentIn(this.#purse, ms, now));
  }

  /** @returns nothing if the purse may pay for a call now */
  waitFor(windows: readonly PurseWindow[], leave: readonly number[], now: number): Wait | undefined {
    if (now > this.rightUntil())
      return { kind: "wait", until: Number.POSITIVE_INFINITY, reason: "redis-away" };
    const sizes = windows.map(({ ms, own }, index) => ({ ms, size: own, leave: leave[index] ?? 0 }));
    return waitFor(this.#purse, sizes, now);
  }

  /** @param latest the latest instant at which the call can arrive */
  spend(
    id: string,
    { app, resource, cause, query }: PermitRequest,
    { now, latest, hasDay }: { readonly now: number; readonly latest: number; readonly hasDay: boolean },
  ): void {
    const slot = this.#number ?? NO_SLOT;
    this.#purse.log.enter(id, app, latest);
    this.#paidBy.set(id, slot);
    this.#unreported.set(id, { id, app, slot, resource, cause, query, hasDay, latest, sentAt: now });
  }

  /** A call has ended, of either purse. It counts from its arrival, or not at all if it was not sent. */
  ended(id: string, app: string, end: Pick<End, "arrivedAt" | "status" | "durationMs">): void {
    const slot = this.#paidBy.get(id);
    this.#ends.set(id, { id, app, slot, ...end });
    if (slot === undefined) return;
    this.#paidBy.delete(id);
    if (end.status === "unsent") this.#purse.log.drop(id);
    else if (this.#purse.log.calls().has(id)) this.#purse.log.enter(id, app, end.arrivedAt);
  }

  /** How many calls of this purse are not in the counts of Redis. */
  unreportedSince(from: number): number {
    let count = 0;
    for (const { latest } of this.#unreported.values()) if (latest > from) count++;
    return count;
  }

  /** This process will send that it leaves. The slot may be free from then on, also when the reply is lost. */
  stopUsing(): void {
    this.#number = undefined;
  }

  /** What a command reports. Call `confirm` when Redis has replied. */
  report(now: number): {
    readonly fields: Pick<Request, "slot" | "debts" | "calls" | "isFull" | "ended">;
    readonly confirm: () => void;
  } {
    const isFull = this.#isFullDue && now < this.rightUntil();
    const calls = [...this.#unreported.values()].slice(0, isFull ? Number.POSITIVE_INFINITY : MOST_REPORTED);
    const ends = [...this.#ends.values()]
      .filter(({ id }) => !this.#unreported.has(id) || calls.some((call) => call.id === id))
      .slice(0, MOST_REPORTED);
    const reported: OwnCall[] = calls.map(({ latest, sentAt, ...call }) => {
      return { ...call, ageMs: ageOf(now - latest), sentMs: ageOf(now - sentAt) };
    });
    return {
      fields: {
        slot: this.#number,
        debts: isFull
          ? this.#purse.debts.map(({ till, ...debt }) => ({ ...debt, forMs: atLeast(till - now) }))
          : [],
        calls: isFull ? [...this.#reportedBefore(now), ...reported] : reported,
        isFull,
        ended: ends.map(({ arrivedAt, ...end }) => ({ ...end, ageMs: ageOf(Math.max(0, now - arrivedAt)) })),
      },
      confirm: () => {
        for (const { id } of calls) this.#unreported.delete(id);
        for (const end of ends) if (this.#ends.get(end.id) === end) this.#ends.delete(end.id);
        if (isFull) this.#isFullDue = false;
        // [3] The script has not given the slot back: it may be another one's now, or slots have another size.
        if (isFull && !this.#isConfirmed) this.stopUsing();
      },
    };
  }

  /** [5] The calls that Redis knew before it lost its data. */
  #reportedBefore(now: number): OwnCall[] {
    const slot = this.#number ?? NO_SLOT;
    return [...this.#purse.log.calls()]
      .filter(([id]) => !this.#unreported.has(id))
      .map(([id, { app, at }]) => ({ id, app, slot, ageMs: ageOf(now - at), sentMs: 0, hasDay: false }));
  }

  /** @returns whether data were lost, and this replica knows it for the first time */
  renewed({ slot, inherited, epoch, time, slackMs }: Done, askedAt: number, now: number): boolean {
    const isLost = this.#epoch !== undefined && this.#epoch !== epoch;
    this.#epoch = epoch;
    if (isLost && slot === undefined) this.#isFullDue = true;
    this.#isConfirmed = slot !== undefined;
    if (slot === undefined) return isLost;
    if (inherited !== undefined) {
      const slack = slackMs + ROUNDING_MS;
      const debts = inherited.debts.map(({ till, ...debt }) => ({
        ...debt,
        till: now + atLeast(till - time) + slack,
      }));
      this.#purse = { ...this.#purse, debts };
      this.#isFullDue = false;
      for (const [id, at] of inherited.calls)
        if (!this.#purse.log.calls().has(id)) this.#purse.log.enter(id, "", now - atMost(time - at) + slack);
    }
    this.#number = slot;
    this.#renewedAt = askedAt;
    return isLost;
  }

  forget(before: number): void {
    this.#purse.log.forget(before);
    for (const [id, { latest }] of this.#unreported) if (latest < before) this.#unreported.delete(id);
    for (const id of this.#paidBy.keys()) if (!this.#purse.log.calls().has(id)) this.#paidBy.delete(id);
  }
}
