/**
 * An exact sliding window log: how many calls count in the `windowMs` milliseconds before `now`. Pure arithmetic.
 *
 * A call counts from one instant: the latest instant at which it can arrive at the upstream, or its real arrival when that
 * is known. Instants are whole milliseconds of a clock that never goes back.
 */

import type { RateWindow } from "../../usage/rate-window.ts";
import { DAY_MS, type LimiterState, MOST_FREE_INSTANTS, type WindowState } from "../limiter.ts";

/** The most apps whose calls are counted one by one. */
const MOST_APPS = 100;
/** The largest apps are found again after this time, or when a call comes or goes. */
const COUNTED_FOR_MS = 250;

type CountsByApp = Pick<WindowState, "byApp" | "byOthers">;

/** The calls of one origin. */
export class WindowLog {
  readonly #calls = new Map<string, { readonly app: string | undefined; readonly at: number }>();
  /** Ascending, of each app; those of all calls without a name. */
  readonly #instants = new Map<string | undefined, number[]>();
  /** The last counts by app of each window. */
  readonly #counted = new Map<number, CountsByApp & { readonly at: number }>();

  /** Enters a call, or moves a known call to another instant. @param app unknown if it is absent */
  enter(id: string, at: number, app?: string): void {
    this.drop(id);
    this.#counted.clear();
    this.#calls.set(id, { app, at });
    for (const name of new Set([undefined, app])) {
      const instants = this.#instants.get(name) ?? [];
      instants.splice(indexAfter(instants, at), 0, at);
      this.#instants.set(name, instants);
    }
  }

  /** Removes a call that was not sent. */
  drop(id: string): void {
    const call = this.#calls.get(id);
    if (call === undefined) return;
    this.#calls.delete(id);
    this.#counted.clear();
    for (const name of new Set([undefined, call.app])) {
      const instants = this.#instants.get(name) ?? [];
      const index = indexAfter(instants, call.at) - 1;
      // It is missing if it was forgotten before its call.
      if (instants[index] === call.at) instants.splice(index, 1);
      if (instants.length === 0) this.#instants.delete(name);
    }
  }

  has(id: string): boolean {
    return this.#calls.has(id);
  }

  /** How many calls count in the window that ends now, of one app or of all. */
  spent(windowMs: number, now: number, app?: string): number {
    const instants = this.#instants.get(app) ?? [];
    return instants.length - indexAfter(instants, now - windowMs);
  }

  /**
   * The next instants at which calls leave the window, ascending, at most `most`. A call on its way is treated as if it
   * arrived now.
   */
  freeInstants(windowMs: number, now: number, most: number, app?: string): number[] {
    const instants = this.#instants.get(app) ?? [];
    const first = indexAfter(instants, now - windowMs);
    return instants.slice(first, first + most).map((at) => Math.min(at, now) + windowMs + 1);
  }

  /** What a window's state says of these calls. @param spanMs how long a call counts */
  facts(spanMs: number, now: number): CountsByApp & Pick<WindowState, "spanMs" | "leaves" | "freeAt"> {
    const leaves = (app?: string): number[] => this.freeInstants(spanMs, now, MOST_FREE_INSTANTS, app);
    return { spanMs, ...this.#byApp(spanMs, now), leaves, freeAt: leaves() };
  }

  /** `LimiterState.today` */
  days(perDay: ReadonlyMap<string, number>, now: number): LimiterState["today"] {
    const days = [...perDay].map(([app, limit]) => {
      const spent = this.spent(DAY_MS, now, app);
      const missing = Math.max(1, spent + 1 - limit);
      const nextFreeAt = this.freeInstants(DAY_MS, now, missing, app)[missing - 1] ?? now;
      return [app, { spent, nextFreeAt }] as const;
    });
    return new Map(days);
  }

  /** Calls that count in the window, of each of the largest apps, and of the others together. */
  #byApp(windowMs: number, now: number): CountsByApp {
    const last = this.#counted.get(windowMs);
    if (last !== undefined && now < last.at + COUNTED_FOR_MS) return last;
    const all = [...this.#instants.keys()].flatMap((app) =>
      app === undefined ? [] : [[app, this.spent(windowMs, now, app)] as const],
    );
    const largest = all.filter(([, count]) => count > 0).toSorted((a, b) => b[1] - a[1]);
    const byOthers = largest.slice(MOST_APPS).reduce((sum, [, count]) => sum + count, 0);
    const counted = { at: now, byApp: new Map(largest.slice(0, MOST_APPS)), byOthers };
    this.#counted.set(windowMs, counted);
    return counted;
  }

  /** Forgets calls that count from earlier instants. */
  forget(before: number): void {
    const known = this.#calls.size;
    for (const [id, { at }] of this.#calls) {
      // The calls are roughly in order. A call that is missed now is forgotten later.
      if (at >= before) break;
      this.#calls.delete(id);
    }
    if (this.#calls.size === known) return;
    // All at once: each removal moves all later instants.
    for (const [app, instants] of this.#instants) {
      instants.splice(0, indexAfter(instants, before - 1));
      if (instants.length === 0) this.#instants.delete(app);
    }
  }
}

/** How long calls are kept. */
export const keptMs = (windows: readonly Pick<RateWindow, "windowMs">[]): number =>
  Math.max(DAY_MS, ...windows.map(({ windowMs }) => windowMs));

/** @returns the index of the first instant after `instant` */
export function indexAfter(instants: readonly number[], instant: number): number {
  let low = 0;
  let high = instants.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((instants[middle] ?? 0) > instant) high = middle;
    else low = middle + 1;
  }
  return low;
}
