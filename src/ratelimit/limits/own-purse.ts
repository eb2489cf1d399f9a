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
  /** How long a window is on the clock of this process. */
  readonly span: (ms: number) => number;
}

export const createOwnPurse = (debts: readonly Debt[] = [], span = (ms: number): number => ms): OwnPurse => ({
  log: createWindowLog(),
  debts,
  span,
});

/** How long calls are kept. */
export const keptMs = (windows: readonly Pick<RateWindow, "windowMs">[]): number =>
  Math.max(DAY_MS, ...windows.map(({ windowMs }) => windowMs));

const owedIn = ({ debts }: OwnPurse, ms: number, now: number): Debt[] =>
  debts.filter((debt) => debt.ms === ms && debt.till > now);

/** How many calls count in a window. */
export function spentIn(purse: OwnPurse, ms: number, now: number): number {
  return (
    purse.log.spent(purse.span(ms), now) + owedIn(purse, ms, now).reduce((sum, { count }) => sum + count, 0)
  );
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
    const left = size - spentIn(purse, ms, now);
    const count = 1 + leave - left;
    if (count <= 0) continue;
    // Without an instant, more is to be left than the purse holds. Only new settings help.
    const freeAt =
      purse.log.freeAt(purse.span(ms), now, { count }) ?? owedIn(purse, ms, now)[0]?.till ?? now + ms;
    wait = laterOf(wait, freeAt, left < 1 ? "budget" : "reserved");
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

/** The instants at which a purse of this size can pay for one more call, two more calls, … */
export function freeInstants(purse: OwnPurse, ms: number, size: number, now: number): number[] {
  const owed = owedIn(purse, ms, now).flatMap(({ count, till }) =>
    Array.from({ length: Math.min(count, MOST_FREE_INSTANTS) }, () => till),
  );
  const instants = firstOf([...purse.log.freeInstants(purse.span(ms), now, MOST_FREE_INSTANTS), ...owed]);
  // When more calls count than the purse holds, the first ones that leave the window free nothing.
  return instants.slice(Math.max(0, spentIn(purse, ms, now) - size));
}

export const firstOf = (instants: number[]): number[] =>
  instants.toSorted((a, b) => a - b).slice(0, MOST_FREE_INSTANTS);

/** The state of a window, of which `remaining` are free to this process. */
export function windowState(
  window: RateWindow,
  state: Pick<WindowState, "spent" | "remaining" | "freeAt" | "byApp">,
): WindowState {
  const remaining = Math.max(0, Math.min(state.remaining, window.limit - state.spent));
  return { ...window, ...state, remaining, reserved: Math.max(0, window.limit - state.spent - remaining) };
}
