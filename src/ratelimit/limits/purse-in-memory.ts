/**
 * A purse that one process counts alone, in memory: whether it may pay for one more call, and if not, when. A process
 * without Redis has one purse with the whole limits. A replica has the purse of its slot.
 */
import type { RateWindow } from "../../usage/rate-window.ts";
import {
  type Acquired,
  DAY_MS,
  type LimiterState,
  type LimitReason,
  MOST_FREE_INSTANTS,
} from "../limiter.ts";
import type { PurseWindow } from "./purse-sizes.ts";
import { WindowLog } from "./window-log.ts";

export type Wait = Extract<Acquired, { kind: "wait" }>;

export class PurseInMemory {
  readonly log = new WindowLog();
  readonly #span: (ms: number) => number;

  /** @param span how long a window is on the clock of this process */
  constructor(span = (ms: number): number => ms) {
    this.#span = span;
  }

  /** How many calls the purse can still pay for in a window. */
  left({ windowMs, own }: PurseWindow, now: number): number {
    return Math.max(0, own - this.log.spent(this.#span(windowMs), now));
  }

  /**
   * @param leave how much the purse must leave in each window after the call
   * @returns nothing if it may pay for a call now
   */
  waitFor(windows: readonly PurseWindow[], leave: readonly number[], now: number): Wait | undefined {
    let wait: Wait | undefined;
    for (const [index, window] of windows.entries()) {
      const left = this.left(window, now);
      const missing = 1 + (leave[index] ?? 0) - left;
      if (missing <= 0) continue;
      const instants = this.log.freeInstants(this.#span(window.windowMs), now, missing);
      // No instant is known if it must leave more than what the calls in the log can free.
      const freeAt = instants[missing - 1] ?? now + window.windowMs;
      wait = laterOf(wait, freeAt, left < 1 ? "budget" : "reserved");
    }
    return wait;
  }
}

/** @returns the later one, with the first reason */
export function laterOf(wait: Wait | undefined, until: number, reason: LimitReason): Wait {
  return { kind: "wait", until: Math.max(until, wait?.until ?? 0), reason: wait?.reason ?? reason };
}

/** How long calls are kept. */
export const keptMs = (windows: readonly Pick<RateWindow, "windowMs">[]): number =>
  Math.max(DAY_MS, ...windows.map(({ windowMs }) => windowMs));

/** The app's calls of the last day, and when it may make the next one. */
export function dayOf(
  log: WindowLog,
  app: string,
  perDay: number,
  now: number,
): { readonly spent: number; readonly nextFreeAt: number } {
  const spent = log.spent(DAY_MS, now, app);
  const missing = Math.max(1, spent + 1 - perDay);
  return { spent, nextFreeAt: log.freeInstants(DAY_MS, now, missing, app)[missing - 1] ?? now };
}

/** `LimiterState.today` */
export const daysOf = (
  log: WindowLog,
  perDay: ReadonlyMap<string, number>,
  now: number,
): LimiterState["today"] => new Map([...perDay].map(([app, limit]) => [app, dayOf(log, app, limit, now)]));

/** At most `MOST_FREE_INSTANTS`. */
export const repeated = (instant: number, times: number): number[] =>
  Array.from({ length: Math.min(times, MOST_FREE_INSTANTS) }, () => instant);
