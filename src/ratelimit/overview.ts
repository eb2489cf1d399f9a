/** What callers, operators and metrics see of a budget. */
import type { WindowState } from "./limiter.ts";

/** An app's share of one window of a budget. */
export interface ShareOfWindow {
  /** The window as in the settings, e.g. `1m`, or `per-day` for the app's own daily limit. */
  readonly name: string;
  /** Requests, perhaps with a fraction. */
  readonly limit: number;
  readonly windowSeconds: number;
  /** How many requests may be sent now, perhaps with a fraction. */
  readonly remaining: number;
  /** How long until more requests may be sent. */
  readonly resetSeconds: number;
}

/** An overview shows when this many spent calls are free again. */
const COME_BACK = [1, 10, 100];

/**
 * A window for operators. While Redis is away, `spent` of a window's state counts only the calls of this replica's own purse.
 * `byApp` also has the calls before that, so the larger number is shown.
 */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function windowOverview(
  { name, limit, windowMs, remaining, freeAt, ...state }: WindowState,
  now: number,
) {
  const byApp = [...state.byApp].filter(([, sent]) => sent > 0).toSorted(([, a], [, b]) => b - a);
  const named = byApp.reduce((sum, [, sent]) => sum + sent, 0);
  const spent = Math.max(state.spent, named);
  return {
    name,
    limit,
    windowMs,
    spent,
    remaining,
    /** After `inMs`, this many spent calls are free again. Empty if none is spent. */
    comesBack: COME_BACK.flatMap((calls) => {
      const at = freeAt[calls - 1];
      return at === undefined ? [] : [{ calls, inMs: Math.max(0, at - now) }];
    }),
    /** Calls that count now, by app, the app with most calls first. */
    byApp: Object.fromEntries(byApp),
    /** The calls that only other processes can make. */
    heldBack: Math.max(0, limit - spent - remaining),
  };
}
