/** The state of both purses, as the queue sees it. */
import type { RateWindow } from "../../usage/rate-window.ts";
import { type LimiterState, MOST_FREE_INSTANTS, type WindowState } from "../limiter.ts";
import { dayOf, firstOf, freeInstants, windowState } from "./own-purse.ts";
import { atLeast } from "./purse-sizes.ts";
import { JOIN_MS } from "./redis-time.ts";
import { AWAY_MS, type TwoPurses } from "./two-purses.ts";

export function stateOf(purses: TwoPurses): LimiterState {
  const at = purses.now();
  const { elsewhere, config, apps, last } = purses;
  const waiting = elsewhere !== undefined && at - elsewhere.at <= AWAY_MS ? elsewhere.waiting : [];
  return {
    mode: purses.isShared(at) ? "shared" : last === undefined ? "joining" : "degraded",
    hasSlot: purses.slot.rightUntil() > at,
    windows: config.windows.map((window) => windowOf(purses, window, at)),
    today: new Map([...config.perDay].map(([app, perDay]) => [app, dayOf(apps.log, app, perDay, at)])),
    newsElsewhere: waiting.flat(),
  };
}

function windowOf(purses: TwoPurses, window: RateWindow, at: number): WindowState {
  const { windows, slot, apps, last, isReachable, opensAt } = purses;
  const { windowMs } = window;
  const index = windows.findIndex(({ ms }) => ms === windowMs);
  const size = windows[index]?.own ?? 0;
  const own = purses.ownLeft(at)[index] ?? 0;
  const byApp = apps.byApp(windowMs, at);
  if (!purses.isShared(at)) {
    // Redis grants permits in a moment. Calls wait for it.
    if (isReachable && opensAt <= at + JOIN_MS)
      return windowState(window, { spent: 0, remaining: window.limit, freeAt: [], byApp: new Map() });
    const opening = isReachable ? Array.from({ length: MOST_FREE_INSTANTS }, () => opensAt) : [];
    const ownFreeAt = freeInstants(slot.purse, windowMs, size, at);
    const spent = slot.purse.log.spent(windowMs, at);
    return windowState(window, { spent, remaining: own, freeAt: firstOf([...ownFreeAt, ...opening]), byApp });
  }
  const [shared = 0, left = 0, reported = 0] = last?.windows[index] ?? [];
  const spent = shared + reported + slot.unreportedSince(at - windowMs);
  const known = apps.log.freeInstants(atLeast(windowMs), at, MOST_FREE_INSTANTS);
  // Calls that the ledger has lost leave the window after it at the latest.
  const missing = Math.max(0, Math.min(spent, MOST_FREE_INSTANTS) - known.length);
  const later = Array.from({ length: missing }, () => at + windowMs);
  return windowState(window, { spent, remaining: own + left, freeAt: [...known, ...later], byApp });
}
