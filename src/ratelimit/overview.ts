/** What callers, operators and metrics see of a budget. */
import { OTHER_APP } from "../telemetry/events.ts";
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

/** How long a request would wait for a permit. The prediction does not spend budget. */
export interface PredictedWait {
  readonly waitMs: number;
  /** The reason for the wait. */
  readonly why: string;
  /** The code of the problem, if the request would be refused. */
  readonly refusal: string | undefined;
}

/** A window for operators. */
export interface WindowOverview extends Omit<WindowState, "freeAt" | "byApp"> {
  /** After `inMs`, this many spent calls are free again. Empty if none is spent. */
  readonly comesBack: readonly { readonly calls: number; readonly inMs: number }[];
  /** Calls that count now, by app. */
  readonly byApp: Readonly<Record<string, number>>;
}

/** Apps that an overview names. */
const MOST_NAMED = 20;
/** An overview shows when this many spent calls are free again. */
const COME_BACK = [1, 10, 100];

export function windowsIn(windows: readonly WindowState[], now: number): WindowOverview[] {
  return windows.map(({ name, byApp, freeAt, ...window }) => ({
    name,
    ...window,
    comesBack: COME_BACK.flatMap((calls) => {
      const at = freeAt[calls - 1];
      return at === undefined ? [] : [{ calls, inMs: Math.max(0, at - now) }];
    }),
    byApp: Object.fromEntries([...byApp].filter(([, sent]) => sent > 0)),
  }));
}

/** The apps that sent most, by name. The rest is `other`. */
export function topApps(byApp: Readonly<Record<string, number>>, most = MOST_NAMED): Record<string, number> {
  const sorted = Object.entries(byApp)
    .filter(([app, sent]) => sent > 0 && app !== OTHER_APP)
    .toSorted((a, b) => b[1] - a[1]);
  const rest = sorted.slice(most).reduce((sum, [, sent]) => sum + sent, byApp[OTHER_APP] ?? 0);
  return Object.fromEntries(rest > 0 ? [...sorted.slice(0, most), [OTHER_APP, rest]] : sorted.slice(0, most));
}
