/**
 * [2] A purse that one process counts alone, in memory: whether it may pay for one more call, and if not, when. A process
 * without Redis has one purse with the whole limits. A replica has the purse of its slot.
 */
import type { RateWindow } from "../../usage/rate-window.ts";
import { type Acquired, DAY_MS, type LimitReason, MOST_FREE_INSTANTS, type WindowState } from "../limiter.ts";
import { createWindowLog, type WindowLog } from "./window-log.ts";

/** Calls that count in one window, and of which no instants are known. */
interface Debt {
  readonly ms: number;
  readonly count: number;
  /** Monotonic milliseconds. */
  readonly till: number;
}

export interface OwnPurse {
  readonly log: WindowLog;
  readonly debts: readonly Debt[];
}

export const createOwnPurse = (debts: readonly Debt[] = []): OwnPurse => ({ log: createWindowLog(), debts });

/** How long calls are kept. */
export const keptMs = (windows: readonly Pick<RateWindow, "windowMs">[]): number =>
  Math.max(DAY_MS, ...windows.map(({ windowMs }) => windowMs));

/** How many more calls a purse of this size may pay for in a window. */
export function leftIn({ log, debts }: OwnPurse, ms: number, size: number, now: number): number {
  const owed = debts.filter((debt) => debt.ms === ms && debt.till > now);
  return size - log.spent(ms, now) - owed.reduce((sum, { count }) => sum + count, 0);
}

export type Wait = Extract<Acquired, { kind: "wait" }>;

/** @returns the later one, with the first reason */
export function laterOf(wait: Wait | undefined, until: number, reason: LimitReason): Wait {
  return { kind: "wait", until: Math.max(until, wait?.until ?? 0), reason: wait?.reason ?? reason };
}

/**
 * @param windows in each: the purse's size, and how much it must leave after the call
 * @returns nothing if the purse may pay for a call now
 */
export function waitFor(
  purse: OwnPurse,
  windows: readonly { readonly ms: number; readonly size: number; readonly leave: number }[],
  now: number,
): Wait | undefined {
  let wait: Wait | undefined;
  for (const { ms, size, leave } of windows) {
    const left = leftIn(purse, ms, size, now);
    const count = 1 + leave - left;
    // Without an instant, more is to be left than the purse holds. Only new settings help.
    if (count > 0)
      wait = laterOf(
        wait,
        purse.log.freeAt(ms, now, { count }) ?? now + ms,
        left < 1 ? "budget" : "reserved",
      );
  }
  return wait;
}

/** The app's calls of the last day, and when it may make the next one. */
export function dayOf(
  log: WindowLog,
  app: string,
  perDay: number,
  now: number,
): { readonly spent: number; readonly nextFreeAt: number } {
  const spent = log.spent(DAY_MS, now, app);
  const count = Math.max(1, spent + 1 - perDay);
  return { spent, nextFreeAt: log.freeAt(DAY_MS, now, { count, app }) ?? now };
}

/** The instants at which the purse can pay for one more call, two more calls, … */
export const freeInstants = ({ log }: OwnPurse, ms: number, now: number): number[] =>
  log.freeInstants(ms, now, MOST_FREE_INSTANTS);

/** The state of a window, of which `remaining` are free to this process. */
export function windowState(
  window: RateWindow,
  state: Pick<WindowState, "spent" | "remaining" | "freeAt" | "byApp">,
): WindowState {
  const remaining = Math.max(0, Math.min(state.remaining, window.limit - state.spent));
  return { ...window, ...state, remaining, reserved: Math.max(0, window.limit - state.spent - remaining) };
}
