/** When a call would get its permit, by what is known now. Pure; instants are milliseconds of the monotonic clock. */
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

/** Why a call would wait. */
type WaitReason = "budget" | "share" | "per-day";

export interface Prediction {
  readonly at: number;
  readonly why: WaitReason;
  readonly isOverShare: boolean;
  /** Calls that go first, of all apps. */
  readonly ahead: number;
}

/** Bad luck, in standard deviations. */
const BAD_LUCK = 2;
/** The most permits that bad luck costs: else a replica with an empty queue refuses all calls beside long queues. */
const MOST_BAD_LUCK = 24;

/** A rate that was seen in fewer intervals says nothing. */
const FEW_INTERVALS = 5;

export interface Place {
  /** Calls of its app that go first in this process; all that wait where it is absent. */
  readonly here?: number | undefined;
  /** Reckons with bad luck: other replicas get permits first. */
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

/** When a call is borrowed behind others: at the pace of now, but no later than so many permits are free for borrowing. */
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

/** From then on so many permits are free, also when apps within their share go on as they did lately. */
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
  const likely = Math.max(told, here + likelyElsewhere(view, app, here));
  const own = luck > 0 ? unlucky(likely, here, luck) : told;
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

/** The other replicas are taken for no more than this until they have said what waits there. */
const LIKELY_REPLICAS = 3;

/** Calls of an app that are likely to wait at other replicas, judged by what these sent: their news come late. */
function likelyElsewhere(view: View, app: string, here: number): number {
  const { state, fairness, now } = view;
  const [shortest] = state.windows.toSorted((a, b) => a.windowMs - b.windowMs);
  if (state.mode === "alone" || shortest === undefined) return 0;
  const since = now - shortest.windowMs;
  const mine = (fairness.departures.get(app) ?? []).filter((at) => at > since).length;
  // It sent more than it remembers.
  if (mine >= MOST_DEPARTURES) return 0;
  const theirs = Math.max(0, (shortest.byApp.get(app) ?? 0) - mine);
  const waiting = here + (isOverShare(view, app) ? 1 : 0);
  return Math.ceil(waiting * Math.min(LIKELY_REPLICAS, theirs / (mine + 1)));
}

/**
 * Calls that go first when this replica has bad luck. Replicas do not take turns: the fastest gets the next permit. So the
 * number of permits until this replica has got its part follows a negative binomial distribution.
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
