/** The state of both purses, as the queue sees it. */
import type { RateWindow } from "../../usage/rate-window.ts";
import { type LimiterState, MOST_FREE_INSTANTS, type WindowState } from "../limiter.ts";
import { dayOf, firstOf, freeInstants, windowState } from "./own-purse.ts";
import { AWAY_MS } from "./permits.ts";
import { JOIN_MS } from "./redis-time.ts";
import type { Replica } from "./replica.ts";

export function stateOf(replica: Replica): LimiterState {
  const at = replica.now();
  const { described, config, apps, hasOpened } = replica;
  const waiting = described !== undefined && at - described.at <= AWAY_MS ? described.state.waiting : [];
  return {
    mode: replica.isShared(at) ? "shared" : hasOpened ? "degraded" : "joining",
    windows: config.windows.map((window) => windowOf(replica, window, at)),
    today: new Map([...config.perDay].map(([app, perDay]) => [app, dayOf(apps.log, app, perDay, at)])),
    waitingElsewhere: waiting.flatMap((all) =>
      all.map(([app, priority, count]) => ({ app, priority, count })),
    ),
  };
}

function windowOf(replica: Replica, window: RateWindow, at: number): WindowState {
  const { windows, slot, apps, last, isReachable, opensAt } = replica;
  const { windowMs } = window;
  const index = windows.findIndex(({ ms }) => ms === windowMs);
  const size = windows[index]?.own ?? 0;
  const own = replica.ownLeft(at)[index] ?? 0;
  const ownFreeAt = freeInstants(slot.purse, windowMs, size, at);
  const byApp = apps.byApp(windowMs, at);
  if (!replica.isShared(at)) {
    // Redis grants permits in a moment. Calls wait for it.
    if (isReachable && opensAt <= at + JOIN_MS)
      return windowState(window, { spent: 0, remaining: window.limit, freeAt: [], byApp: new Map() });
    const opening = isReachable ? Array.from({ length: MOST_FREE_INSTANTS }, () => opensAt) : [];
    const spent = slot.purse.log.spent(windowMs, at);
    return windowState(window, { spent, remaining: own, freeAt: firstOf([...ownFreeAt, ...opening]), byApp });
  }
  const [spent = 0, left = 0, reported = 0] = last?.windows[index] ?? [];
  return windowState(window, {
    spent: spent + reported + slot.unreportedSince(at - windowMs),
    remaining: own + left,
    freeAt: firstOf([...ownFreeAt, ...sharedFreeAt(replica, index, spent, at)]),
    byApp,
  });
}

/** When permits of the shared purse are free. Calls that are not described leave the window after it at the latest. */
function sharedFreeAt({ described, windows }: Replica, index: number, spent: number, at: number): number[] {
  const describedAt = described?.at ?? at;
  const freeIn = described?.state.freeIn[index] ?? [];
  const known = freeIn.map((inMs) => inMs + describedAt).filter((instant) => instant > at);
  const missing = Math.max(0, Math.min(spent, MOST_FREE_INSTANTS) - known.length);
  const later = Math.max(at + 1, describedAt + (windows[index]?.ms ?? 0));
  return [...known, ...Array.from({ length: missing }, () => later)];
}
