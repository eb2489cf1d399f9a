/** Predicts when a call gets its permit. Pure. Instants are milliseconds of the monotonic clock. */
import { PRIORITIES } from "../types.ts";
import type { WaitingApp, WindowState } from "./limiter.ts";
import {
  borrowsIn,
  type Candidate,
  isOverShare,
  leaveOf,
  leftOfShare,
  MOST_DEPARTURES,
  pacedAt,
  paceIn,
  permitFreeAt,
  rateWithinShare,
  shareOf,
  type View,
  waitingHere,
} from "./scheduler.ts";

/** What a call waits for. */
type WaitReason = "budget" | "share" | "per-day";

export interface Prediction {
  readonly at: number;
  readonly why: WaitReason;
  readonly isOverShare: boolean;
  /** Calls of all apps that go first. */
  readonly ahead: number;
}

/** How pessimistic a cautious prediction is, in standard deviations. */
const BAD_LUCK = 2;
/** Most permits that pessimism adds. With more, a replica with an empty queue would refuse all calls beside long queues. */
const MOST_BAD_LUCK = 24;

/** A rate of departures is used when it was measured over this many intervals. */
const FEW_INTERVALS = 5;

export interface Place {
  /** How many calls of its app go first in this process. Only for a call that already waits. A new one goes behind all. */
  readonly here?: number | undefined;
  /** Assumes that other replicas get more permits first than on average. */
  readonly isCautious?: boolean;
}

/** Predicts when a call gets its permit, and what it waits for. */
export function predict(view: View, candidate: Candidate, place: Place = {}): Prediction {
  const { here = waitingHere(view, candidate.app), isCautious = false } = place;
  const { app } = candidate;
  const { state, now, config } = view;
  const luck = isCautious ? BAD_LUCK : 0;
  const { ahead, own, borrowedFirst } = callsAhead(view, candidate, { here, luck });
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
    // The app gets what apps within their share leave, and at least its own share.
    const part = Math.max(
      1 - (rateWithinShare(view, window) * window.windowMs) / window.limit,
      shareOf(view, window, app) / window.limit,
    );
    reasons.push({ at: permitFreeAt(window, Math.ceil(own / part) + left + 1, now), why: "share" });
  }
  // Only for new calls. If a window was used up until now, the measured rate is too low for the calls that wait.
  const progress = place.here === undefined ? view.fairness.progress.get(app) : undefined;
  if (progress !== undefined && progress.intervals >= FEW_INTERVALS && here > 0) {
    const next = Math.max(now, progress.departedAt + progress.intervalMs);
    reasons.push({ at: next + here * progress.intervalMs, why: over ? "share" : "budget" });
  }
  const latest = reasons.reduce((last, reason) => (reason.at > last.at ? reason : last));
  return { ...latest, isOverShare: over, ahead };
}

/** If other apps leave less than this part of a window, the app waits for its own share instead. */
const LITTLE = 0.1;

/** If other apps use their shares: when enough of its own calls have left the window for the app to be within its share. */
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
  // This process knows only its own departures. Other replicas sent the rest in proportion.
  const wanted = Math.ceil(((sent + own + 1 - share) * known.length) / Math.max(1, sent));
  const at = known[wanted - 1] ?? known.at(-1);
  return at === undefined ? now : at + windowMs;
}

/** When a call is borrowed after `borrowed` others: at the current pace, or earlier when enough permits are free. */
function borrowedAt(
  view: View,
  window: WindowState,
  { left, borrowed }: Record<"left" | "borrowed", number>,
): number {
  const pace = paceIn(view, window, left);
  const paced = pacedAt(view, window, pace) + borrowed * pace(view.now);
  const [soonest = view.now + window.windowMs] = window.freeAt;
  return Math.min(paced, Math.max(soonest, freeForBorrowing(view, window, borrowed + left + 1)));
}

/** When `wanted` permits are free and stay free, if apps within their share continue at their rate. */
function freeForBorrowing(view: View, window: WindowState, wanted: number): number {
  const { now } = view;
  const { remaining, freeAt } = window;
  const rate = rateWithinShare(view, window);
  const isShort = (at: number, index: number): boolean => remaining + index + 1 - rate * (at - now) < wanted;
  const lastShort = freeAt.findLastIndex(isShort);
  if (lastShort < 0) return permitFreeAt(window, wanted, now);
  return freeAt[lastShort + 1] ?? permitFreeAt(window, wanted, now);
}

interface Ahead {
  /** Calls of all apps. */
  readonly ahead: number;
  /** Calls of the same app. */
  readonly own: number;
  /** Calls of other apps that also borrow. */
  readonly borrowedFirst: number;
}

/**
 * Counts the calls that go first: earlier calls of the same app; if this call borrows, the calls of other apps within their
 * share; of equal apps, as many as turns by weight allow.
 */
function callsAhead(
  view: View,
  { app, priority }: Candidate,
  { here, luck }: { readonly here: number; readonly luck: number },
): Ahead {
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
  // Each replica has its own order. The same proportion of the calls elsewhere goes first.
  const elsewhere = (counts.get(app) ?? 0) - here;
  counts.set(app, here + Math.ceil(elsewhere * (all > here ? here / all : 1)));
  const reported = counts.get(app) ?? 0;
  const likely = Math.max(reported, here + likelyElsewhere(view, app, here));
  const own = luck > 0 ? unlucky(likely, here, luck) : reported;
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

/** Most other replicas that are assumed before they report what waits there. */
const LIKELY_REPLICAS = 3;

/** Calls of an app that probably wait at other replicas, estimated from what these sent, because reports arrive late. */
function likelyElsewhere(view: View, app: string, here: number): number {
  const { state, fairness, now } = view;
  const [shortest] = state.windows.toSorted((a, b) => a.windowMs - b.windowMs);
  if (state.mode === "alone" || shortest === undefined) return 0;
  const since = now - shortest.windowMs;
  const mine = (fairness.departures.get(app) ?? []).filter((at) => at > since).length;
  // This process sent more than it remembers.
  if (mine >= MOST_DEPARTURES) return 0;
  const theirs = Math.max(0, (shortest.byApp.get(app) ?? 0) - mine);
  const waiting = here + (isOverShare(view, app) ? 1 : 0);
  return Math.ceil(waiting * Math.min(LIKELY_REPLICAS, theirs / (mine + 1)));
}

/**
 * Calls that go first in an unlucky case. Replicas do not take turns: the fastest gets the next permit. So the number of
 * permits until this replica has got its part follows a negative binomial distribution.
 * @param own calls of the app that go first on average; `here` of them are in this process
 */
function unlucky(own: number, here: number, luck: number): number {
  const [all, wanted] = [own + 1, here + 1];
  const deviation = all * Math.sqrt((1 - wanted / all) / wanted);
  return own + Math.min(MOST_BAD_LUCK, Math.ceil(luck * deviation));
}

function shareLeft(view: View, app: string): number {
  const left = view.state.windows.map((window) => leftOfShare(view, window, app));
  return Math.max(0, Math.floor(Math.min(...left)));
}
