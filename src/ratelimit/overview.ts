/** What callers, operators and metrics see of a budget. */
import { OTHER_APP } from "../telemetry/events.ts";
import { Calendar } from "./fairness/calendar.ts";
import { isLong, type Situation } from "./fairness/shares.ts";
import { DAY_MS, type WindowState } from "./limiter.ts";

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

/** @returns a function that says what an app has left of its share of each window, and of its `perDay` */
export function sharesAt(situation: Situation): (app: string) => readonly ShareOfWindow[] {
  const calendar = new Calendar(situation, []);
  return (app) => sharesOf(calendar, app);
}

function sharesOf(calendar: Calendar, app: string): readonly ShareOfWindow[] {
  const { state, now, apps } = calendar.situation;
  const secondsUntil = (at: number): number => Math.max(1, Math.ceil((at - now) / 1000));
  const windows = calendar.sharesOf(app).map(({ window, share, leaveBeyond }): ShareOfWindow => {
    const { name, windowMs, remaining, freeAt } = window;
    const used = window.byApp.get(app) ?? 0;
    // No app is held to its share of a long window.
    const limit = isLong(window) ? Math.max(share, used + remaining - leaveBeyond) : share;
    return {
      name,
      limit,
      windowSeconds: Math.ceil(windowMs / 1000),
      remaining: Math.max(0, Math.min(limit - used, remaining)),
      resetSeconds: secondsUntil(freeAt[0] ?? now + windowMs),
    };
  });
  const perDay = apps.perDayOf(app);
  if (perDay === null) return windows;
  const { spent, nextFreeAt } = state.today.get(app) ?? { spent: 0, nextFreeAt: now + DAY_MS };
  const day = { name: "per-day", limit: perDay, windowSeconds: DAY_MS / 1000 };
  return [
    ...windows,
    { ...day, remaining: Math.max(0, perDay - spent), resetSeconds: secondsUntil(nextFreeAt) },
  ];
}
