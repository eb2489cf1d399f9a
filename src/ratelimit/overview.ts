/** How a budget stands, in the forms in which it is shown. Pure. */
import type { Expectation, Overview, ShareOfWindow } from "./allowance.ts";
import {
  type Candidate,
  expect,
  isOverShare,
  shareOf,
  type Standing,
  type Terms,
  weightOf,
} from "./arbiter.ts";
import { stateOf } from "./circuit.ts";
import { aheadOf, type Queued } from "./queued.ts";
import {
  DAY_MS,
  freeAt,
  keptMs,
  noPlaces,
  type Places,
  spentIn,
  tidyPlaces,
  type Window,
} from "./windows.ts";

type LimitOf = (window: Window) => number;

/** See `Allowance.expect`. */
export function expectation(
  standing: Standing,
  terms: Terms,
  candidate: Candidate,
  queued: readonly Queued[],
  now: number,
  limitOf?: LimitOf,
): Expectation {
  const ahead = aheadOf(candidate, queued, (app) => weightOf(terms, app));
  const { at, why } = expect(standing, terms, candidate, ahead, now, limitOf);
  return { forMs: at - now, why, isOverShare: isOverShare(standing, terms, candidate.app, now) };
}

/** @param limitOf what may be spent of a window now, where that is less than its limit */
export function overviewOf(
  standing: Standing,
  terms: Terms,
  mode: Overview["mode"],
  now: number,
  limitOf: LimitOf = ({ limit }) => limit,
): Overview {
  tidyPlaces(standing.places, keptMs(terms.windows), now);
  return {
    mode,
    windows: terms.windows.map((window) => {
      const spent = spentIn(standing.places, window.windowMs, now);
      const byApp = [...standing.apps].map(
        ([app, { all }]) => [app, spentIn(all, window.windowMs, now)] as const,
      );
      return {
        ...window,
        spent,
        remaining: Math.max(0, limitOf(window) - spent),
        heldBack: window.limit - limitOf(window),
        byApp: Object.fromEntries(byApp.filter(([, sends]) => sends > 0)),
      };
    }),
    circuits: [...standing.circuits].map(([scope, circuit]) => ({
      scope,
      state: stateOf(circuit, now),
      cause: circuit.cause,
      forMs: Math.max(0, circuit.openUntil - now),
    })),
  };
}

/**
 * An app's share of each window, and what is left of it: never more than is left at all. And its own limit for a
 * day, where it has one.
 */
export function sharesOf(
  standing: Standing,
  terms: Terms,
  app: string,
  now: number,
): readonly ShareOfWindow[] {
  const all = standing.apps.get(app)?.all ?? noPlaces();
  for (const places of [standing.places, all]) tidyPlaces(places, keptMs(terms.windows), now);
  const shares = terms.windows.map((window) => {
    const left = window.limit - spentIn(standing.places, window.windowMs, now);
    return leftOf(all, { ...window, limit: shareOf(terms, window, app) }, left, now);
  });
  const perDay = terms.apps.get(app)?.perDay ?? null;
  if (perDay === null) return shares;
  const ownDay = { name: PER_DAY, limit: perDay, windowMs: DAY_MS };
  return [...shares, leftOf(all, ownDay, Number.POSITIVE_INFINITY, now)];
}

/** What an app's limit for a day is called among its shares; no window of the budget can be. */
const PER_DAY = "per-day";

/** @param most that can be left of it, whatever the app has used */
function leftOf(all: Places, { name, limit, windowMs }: Window, most: number, now: number): ShareOfWindow {
  const used = spentIn(all, windowMs, now);
  const freesAt = used === 0 ? now + windowMs : freeAt(all, [{ limit: used, windowMs }], now);
  return {
    name,
    limit,
    windowSeconds: Math.ceil(windowMs / 1000),
    remaining: Math.max(0, Math.min(limit - used, most)),
    resetSeconds: Math.max(1, Math.ceil((freesAt - now) / 1000)),
  };
}
