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

/** Standard deviations, */
const BAD_LUCK = 2;
/** but not more permits than this: so a replica where nothing waits yet refuses no more than replicas with long queues. */
const MOST_BAD_LUCK = 24;

/** A rate that was seen in fewer intervals says nothing. */
const FEW_INTERVALS = 5;

export interface Place {
  /** Calls of its app that go first in this process; all that wait where it is absent. */
  readonly here?: number | undefined;
  /** Whether replicas that wait for the same permits may be luckier than this one. */
  readonly isCautious?: boolean;
}

/** When a call would get its permit. */
export function predict(
  view: View,
  candidate: Candidate,
  { here = waitingHere(view, candidate.app), isCautious = false }: Place = {},
): Prediction {
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
    // Beside apps within their share it gets what these leave, and its share at least.
    const part = Math.max(
      1 - (rateWithinShare(view, window) * window.windowMs) / window.limit,
      shareOf(view, window, app) / window.limit,
    );
    reasons.push({ at: permitFreeAt(window, Math.ceil(own / part) + left + 1, now), why: "share" });
  }
  const progress = view.fairness.progress.get(app);
  if (progress !== undefined && progress.intervals >= FEW_INTERVALS && here > 0) {
    const next = Math.max(now, progress.departedAt + progress.intervalMs);
    reasons.push({ at: next + here * progress.intervalMs, why: over ? "share" : "budget" });
  }
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
  // Each replica sends in its own order: calls elsewhere go first in the same proportion.
  const elsewhere = (counts.get(app) ?? 0) - here;
  counts.set(app, here + Math.ceil(elsewhere * (all > here ? here / all : 1)));
  const told = counts.get(app) ?? 0;
  const own = luck > 0 ? unlucky(Math.max(told, here + likelyElsewhere(view, app, here)), here, luck) : told;
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

/** Replicas that may wait for the permits of an app besides this one. More of them are known when they have said so. */
const LIKELY_REPLICAS = 3;

/** Calls of an app that are likely to wait at other replicas, which have not said so yet: by what they sent lately. */
function likelyElsewhere(view: View, app: string, here: number): number {
  const { state, fairness, now } = view;
  const [shortest] = state.windows.toSorted((a, b) => a.windowMs - b.windowMs);
  if (state.mode === "alone" || shortest === undefined) return 0;
  const since = now - shortest.windowMs;
  const mine = (fairness.departures.get(app) ?? []).filter((at) => at > since).length;
  const theirs = Math.max(0, (shortest.byApp.get(app) ?? 0) - mine);
  const waiting = here + (isOverShare(view, app) ? 1 : 0);
  return Math.ceil(waiting * Math.min(LIKELY_REPLICAS, theirs / (mine + 1)));
}

/**
 * Replicas do not take turns: the fastest gets a permit that comes free. So the number of permits until this replica has
 * had its own varies like the number of throws until a die has shown a six so often.
 * @param own calls that go first, of which `here` are in this process
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
