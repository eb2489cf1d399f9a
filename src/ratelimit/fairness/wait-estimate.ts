/**
 * How long a call would wait for its permit, and the places of callers that were told to come back. docs/fairness.md
 * explains the rules.
 */
import { PRIORITIES } from "../../telemetry/events.ts";
import type { WaitingApp, WindowState } from "../limiter.ts";
import type { Expectation } from "../refusals.ts";
import { type CallKind, dayFreeAt, permitFreeAt } from "./order.ts";
import { type AppRules, isLong, type Shares, sharesIn, type Situation } from "./shares.ts";

/** A limiter that cannot reach Redis is expected to reach it again after this time. */
const AWAY_MS = 2_000;

/**
 * Estimates when a call gets a permit.
 * @param place how many calls of the app go first in this process
 * @param placeElsewhere how many go first at other replicas
 */
export function estimate(
  situation: Situation,
  kind: CallKind,
  place: number,
  placeElsewhere = 0,
): Expectation {
  const { state, apps, now, replicas } = situation;
  const shares = sharesIn(situation);
  const here = othersAhead(situation.waiting, shares, apps, kind, place);
  const elsewhere = othersAhead(state.waitingElsewhere, shares, apps, kind, place);
  const atOthers = placeElsewhere + elsewhere.listed + elsewhere.ids;
  const atThis = place + here.listed + here.ids;
  // Each replica gets every n-th permit, so a long queue here is slower than a short one elsewhere.
  const ahead = atThis + (atOthers === 0 ? 0 : Math.max(atOthers, atThis * (replicas - 1)));
  const order = { place, ahead, idsAhead: here.ids + elsewhere.ids };
  const isContended = elsewhere.isContended || here.isContended;
  const windows = state.windows.map((window) =>
    inWindow(situation, shares, window, { kind, order, isContended }),
  );
  const at = Math.max(now, ...windows.map((window) => window.at));
  if (at > now && (state.mode === "degraded" || state.mode === "joining"))
    return { forMs: AWAY_MS, why: "redis-away", isOverShare: false };
  const dayAt = dayFreeAt(situation, kind.app);
  if (dayAt > now && dayAt >= at) return { forMs: dayAt - now, why: "per-day", isOverShare: false };
  const isOverShare = windows.some(({ isKept }) => isKept) || shares.isBeyond(kind.app, place);
  return { forMs: Math.max(at, dayAt) - now, why: isOverShare ? "share" : "budget", isOverShare };
}

/** The calls that go before a call. */
interface Order {
  /** Of its app, in this process. */
  readonly place: number;
  readonly ahead: number;
  readonly idsAhead: number;
}

/** When a window has a permit for a call, and whether its remaining permits are kept for other apps. */
function inWindow(
  { now }: Situation,
  shares: Shares,
  window: WindowState,
  { kind, order, isContended }: { kind: CallKind; order: Order; isContended: boolean },
): { readonly at: number; readonly isKept: boolean } {
  const { place, ahead, idsAhead } = order;
  const isWaitingForShare = isContended && !isLong(window) && shares.isBeyond(kind.app, place);
  const leave = isWaitingForShare ? 0 : shares.leave(window, kind, place);
  const shareAfterMs = isWaitingForShare ? shares.withinShareAfterMs(window, kind.app, place, idsAhead) : 0;
  const missing = Math.max(0, leave + ahead + 1 - window.remaining);
  const taken = Math.ceil(missing * takenByOthers(window, shares, kind.app, place));
  return {
    at: Math.max(now + shareAfterMs, permitFreeAt(window, window.remaining + taken, now)),
    isKept: window.remaining <= leave && isLong(window) && window.remaining > 0,
  };
}

/** Apps within their share take as large a part of the permits that become free as they took until now. */
function takenByOthers({ byApp, spent }: WindowState, shares: Shares, app: string, place: number): number {
  if (!shares.isBeyond(app, place)) return 1;
  let within = 0;
  for (const [other, used] of byApp) if (other !== app && !shares.isBeyond(other)) within += used;
  return spent / Math.max(1, spent - within);
}

/** How many calls of an app wait. */
export function callsOf(waiting: readonly WaitingApp[], app: string): number {
  return waiting.reduce((sum, other) => sum + (other.app === app ? other.count : 0), 0);
}

interface OthersAhead {
  listed: number;
  ids: number;
  /** Whether calls within their share wait. */
  isContended: boolean;
}

/** How many waiting calls of other apps get a permit before the app's call behind `place` others. */
function othersAhead(
  waiting: readonly WaitingApp[],
  shares: Shares,
  apps: AppRules,
  { app, priority }: CallKind,
  place: number,
): OthersAhead {
  const isBeyond = shares.isBeyond(app, place);
  const ahead: OthersAhead = { listed: 0, ids: 0, isContended: false };
  for (const other of waiting) {
    const urgency = PRIORITIES.indexOf(priority) - PRIORITIES.indexOf(other.priority);
    if (other.app === app || other.count === 0 || urgency < 0) continue;
    const isOtherBeyond = shares.isBeyond(other.app);
    ahead.isContended ||= !isOtherBeyond;
    const isId = !apps.isListed(other.app);
    const isAlwaysFirst = urgency > 0 || (isBeyond && !isOtherBeyond);
    const turns =
      isId && !apps.isListed(app) ? idTurns(shares, other, app) : shares.ratio(other.app, app) * (place + 1);
    const first = isAlwaysFirst ? other.count : isBeyond === isOtherBeyond ? Math.ceil(turns) : 0;
    if (isId) ahead.ids += Math.min(other.count, first);
    else ahead.listed += Math.min(other.count, first);
  }
  // All unlisted ids take turns as one app.
  if (apps.isListed(app) && !isBeyond)
    ahead.ids = Math.min(ahead.ids, Math.ceil((place + 1) * shares.groupRatio(app)));
  return ahead;
}

/** How many calls of another unlisted id go first: none if only this id is modest, else all. */
function idTurns(shares: Shares, other: WaitingApp, app: string): number {
  return shares.isModest(app) && !shares.isModest(other.app) ? 0 : other.count;
}

/** The places of refused calls, until their callers come back. */
export interface KeptPlaces {
  readonly keep: (app: string, dueAt: number) => void;
  /** A call of the app has arrived. @returns whether a place was due */
  readonly take: (app: string, replicas: number) => boolean;
  /**
   * How many places are not taken yet that are due before an instant, by app. As many as are likely to be taken. The other
   * replicas keep as many.
   */
  readonly counts: (replicas: number, before?: number) => readonly WaitingApp[];
}

/** A place that nobody takes is free again after this time. */
const GRACE_MS = 2_000;
/** With several replicas, callers come back to any of them. They take a place there that is due a little later. */
const EARLY_MS = 2_000;
const MOST_PLACES = 1_000;
/** Each place changes the part that is likely to be taken by this part. */
const LEARNED = 0.05;

/** @param now monotonic milliseconds */
export function createKeptPlaces(now: () => number): KeptPlaces {
  /** Ascending instants, by app. */
  const places = new Map<string, number[]>();
  let taken = 0.5;

  function learn(wasTaken: 0 | 1): void {
    taken += (wasTaken - taken) * LEARNED;
  }

  function forgetOld(): void {
    for (const [app, due] of places) {
      while ((due[0] ?? Number.POSITIVE_INFINITY) < now() - GRACE_MS) {
        due.shift();
        learn(0);
      }
      if (due.length === 0) places.delete(app);
    }
  }

  return {
    keep(app, dueAt) {
      forgetOld();
      const due = places.get(app) ?? [];
      due.splice(due.findLastIndex((at) => at <= dueAt) + 1, 0, dueAt);
      if (due.length > MOST_PLACES) due.pop();
      places.set(app, due);
    },
    take(app, replicas) {
      forgetOld();
      const due = places.get(app) ?? [];
      if ((due[0] ?? Number.POSITIVE_INFINITY) > now() + (replicas > 1 ? EARLY_MS : 0)) return false;
      due.shift();
      learn(1);
      return true;
    },
    counts(replicas, before = Number.POSITIVE_INFINITY) {
      forgetOld();
      return [...places].map(([app, due]) => {
        const count = Math.round(taken * replicas * due.filter((at) => at < before).length);
        return { app, priority: "interactive", count };
      });
    },
  };
}

/** How long a call to the upstream usually takes, computed from the last 200 answers of the last minute. */
export interface Latency {
  readonly add: (durationMs: number) => void;
  /** 99 % of calls take no longer. 0 when there are no answers. */
  readonly p99Ms: () => number;
}

const REMEMBERED = 200;
const REMEMBERED_MS = 60_000;
const COMPUTED_FOR_MS = 1_000;

/** @param now monotonic milliseconds */
export function createLatency(now: () => number): Latency {
  let answers: { readonly at: number; readonly durationMs: number }[] = [];
  let known = { until: Number.NEGATIVE_INFINITY, p99Ms: 0 };
  return {
    add(durationMs) {
      answers.push({ at: now(), durationMs });
      if (answers.length > REMEMBERED) answers.shift();
      if (answers.length < REMEMBERED / 10) known = { ...known, until: Number.NEGATIVE_INFINITY };
    },
    p99Ms() {
      if (now() < known.until) return known.p99Ms;
      answers = answers.filter(({ at }) => at >= now() - REMEMBERED_MS);
      const sorted = answers.map(({ durationMs }) => durationMs).toSorted((a, b) => a - b);
      known = { until: now() + COMPUTED_FOR_MS, p99Ms: sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0 };
      return known.p99Ms;
    },
  };
}
