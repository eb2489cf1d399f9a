/** When a call would get its permit, by what is known now. Pure; instants are milliseconds of the monotonic clock. */
import { PRIORITIES } from "../types.ts";
import type { WaitingApp, WindowState } from "./limiter.ts";
import {
  borrowsIn,
  type Candidate,
  isOverShare,
  leaveOf,
  leftOfShare,
  pacedAt,
  paceIn,
  permitFreeAt,
  rateWithinShare,
  shareOf,
  type View,
  waitingHere,
} from "./scheduler.ts";

/** Why a call would wait. */
type WaitReason = "budget" | "share" | "per-day";

export interface Prediction {
  readonly at: number;
  readonly why: WaitReason;
  readonly isOverShare: boolean;
  /** Calls that go first, of all apps. */
  readonly ahead: number;
}

/** A rate that was seen in fewer intervals says nothing. */
const FEW_INTERVALS = 5;

/**
 * When a call would get its permit.
 * @param here calls of its app that go first in this process; all that wait where it is absent
 */
export function predict(
  view: View,
  candidate: Candidate,
  here = waitingHere(view, candidate.app),
): Prediction {
  const { app } = candidate;
  const { state, now, config } = view;
  const { ahead, own, borrowedFirst } = callsAhead(view, candidate, here);
  const leave = leaveOf(view, candidate, own);
  const reasons: { at: number; why: WaitReason }[] = [{ at: now, why: "budget" }];
  const today = state.today.get(app);
  const perDay = config.apps.perDayOf(app);
  if (today !== undefined && perDay !== null && today.spent + own >= perDay)
    reasons.push({ at: today.nextFreeAt, why: "per-day" });
  const over = isOverShare(view, app, own);
  for (const [index, window] of state.windows.entries()) {
    const left = leave[index] ?? 0;
    reasons.push({ at: permitFreeAt(window, ahead + left + 1, now), why: "budget" });
    if (!borrowsIn(view, window, app, own)) continue;
    const withinShare = Math.max(0, Math.floor(leftOfShare(view, window, app)));
    const borrowed = Math.max(0, own - withinShare) + borrowedFirst;
    reasons.push({ at: borrowedAt(view, window, { left, borrowed }), why: "share" });
    reasons.push({ at: withinShareAt(view, window, { app, own }), why: "share" });
    // Beside apps within their share it gets what these leave, and its share at least.
    const part = Math.max(
      1 - (rateWithinShare(view, window) * window.windowMs) / window.limit,
      shareOf(view, window, app) / window.limit,
    );
    reasons.push({ at: permitFreeAt(window, Math.ceil(own / part) + left + 1, now), why: "share" });
  }
  const { intervalMs = 0, intervals = 0 } = view.fairness.progress.get(app) ?? {};
  const waitMs = intervals < FEW_INTERVALS ? 0 : here * intervalMs;
  reasons.push({ at: now + waitMs, why: over ? "share" : "budget" });
  const latest = reasons.reduce((last, reason) => (reason.at > last.at ? reason : last));
  return { ...latest, isOverShare: over, ahead };
}

/** Part of a window below which what others leave is not worth waiting for. */
const LITTLE = 0.1;

/** Where others use their shares: when so many of its own calls have left the window that the app is within its share. */
function withinShareAt(
  view: View,
  window: WindowState,
  { app, own }: { readonly app: string; readonly own: number },
): number {
  const { now, fairness } = view;
  const { limit, windowMs, byApp } = window;
  const share = shareOf(view, window, app);
  let left = limit - share;
  for (const [other, sent] of byApp) if (other !== app) left -= Math.min(sent, shareOf(view, window, other));
  if (left > limit * LITTLE) return now;
  const sent = byApp.get(app) ?? 0;
  const known = (fairness.departures.get(app) ?? []).filter((at) => at > now - windowMs);
  // Other replicas sent the rest.
  const wanted = Math.ceil(((sent + own + 1 - share) * known.length) / Math.max(1, sent));
  const at = known[wanted - 1] ?? known.at(-1);
  return at === undefined ? now : at + windowMs;
}

/** When a call is borrowed behind others: at the pace of now, but no later than so many permits are free for all. */
function borrowedAt(
  view: View,
  window: WindowState,
  { left, borrowed }: Record<"left" | "borrowed", number>,
): number {
  const pace = paceIn(view, window, left);
  const paced = pacedAt(view, window, pace) + borrowed * pace(view.now);
  const [soonest = view.now + window.windowMs] = window.freeAt;
  return Math.min(paced, Math.max(soonest, permitFreeAt(window, borrowed + left + 1, view.now)));
}

interface Ahead {
  /** Of all apps. */
  readonly ahead: number;
  /** Of its own app. */
  readonly own: number;
  /** Of other apps that borrow, too. */
  readonly borrowedFirst: number;
}

/**
 * How many calls go before one: those of its own app that came first; of apps that go first within their share, as
 * many as that allows; of others, as many as turns by weight.
 */
function callsAhead(view: View, { app, priority }: Candidate, here: number): Ahead {
  const counts = new Map<string, number>();
  const count = (waiting: readonly WaitingApp[]): void => {
    for (const { app: other, priority: its, count: more } of waiting)
      if (PRIORITIES.indexOf(its) <= PRIORITIES.indexOf(priority))
        counts.set(other, (counts.get(other) ?? 0) + more);
  };
  count(view.waiting);
  const all = counts.get(app) ?? 0;
  counts.set(app, here);
  count(view.state.waitingElsewhere);
  // Each replica sends in its own order: calls elsewhere go first in the same proportion.
  const elsewhere = (counts.get(app) ?? 0) - here;
  counts.set(app, here + Math.ceil(elsewhere * (all > here ? here / all : 1)));
  const own = counts.get(app) ?? 0;
  const over = isOverShare(view, app, own);
  const { weightOf } = view.config.apps;
  let [ahead, borrowedFirst] = [own, 0];
  for (const [other, waiting] of counts) {
    if (other === app) continue;
    const isOtherOver = isOverShare(view, other);
    if (isOtherOver && !over) continue;
    const turns = Math.ceil(((own + 1) * weightOf(other)) / weightOf(app));
    const first = Math.min(waiting, over && !isOtherOver ? Math.max(turns, shareLeft(view, other)) : turns);
    ahead += first;
    if (isOtherOver) borrowedFirst += first;
  }
  return { ahead, own, borrowedFirst };
}

function shareLeft(view: View, app: string): number {
  const left = view.state.windows.map((window) => leftOfShare(view, window, app));
  return Math.max(0, Math.floor(Math.min(...left)));
}
