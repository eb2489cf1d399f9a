/**
 * A purse that one process counts alone, in memory: whether it may pay for one more call. A process without Redis has one purse with the whole limits. A replica has the purse of its slot.
 */
import type { RateWindow } from "../../usage/rate-window.ts";
import { DAY_MS, type LimiterState, MOST_FREE_INSTANTS } from "../limiter.ts";
import type { PurseWindow } from "./purse-sizes.ts";
import { WindowLog } from "./window-log.ts";

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

  /** Whether it may pay for a call. */
  hasPermit(windows: readonly PurseWindow[], now: number): boolean {
    return windows.every((window) => this.left(window, now) > 0);
  }
}

/** How long calls are kept. */
export const keptMs = (windows: readonly Pick<RateWindow, "windowMs">[]): number =>
  Math.max(DAY_MS, ...windows.map(({ windowMs }) => windowMs));

/** `LimiterState.today` */
export function daysOf(
  log: WindowLog,
  perDay: ReadonlyMap<string, number>,
  now: number,
): LimiterState["today"] {
  const days = [...perDay].map(([app, limit]) => {
    const spent = log.spent(DAY_MS, now, app);
    const missing = Math.max(1, spent + 1 - limit);
    return [
      app,
      { spent, nextFreeAt: log.freeInstants(DAY_MS, now, missing, app)[missing - 1] ?? now },
    ] as const;
  });
  return new Map(days);
}

/** At most `MOST_FREE_INSTANTS`. */
export const repeated = (instant: number, times: number): number[] =>
  Array.from({ length: Math.min(times, MOST_FREE_INSTANTS) }, () => instant);
