/**
 * The fair order: which app may send the next call, and when. Pure, except that it updates `Fairness`. Instants are
 * milliseconds of the monotonic clock.
 *
 * The limiter decides whether a call may be sent at all. These rules only decide the order. They are approximate, because
 * they use counts that may be a second old.
 *
 * 1. The share of an app in a window is the limit, divided by weight among the apps that are active in that window: an
 *    active app sent in it, waits, or was seen in the last minute. Each window has its own shares.
 * 2. The most urgent priority goes first. Within it, apps below their share in every window go first. Other apps borrow
 *    what these leave. Equal apps take turns by weight (start-time fair queueing).
 * 3. Apps that borrow spread what is left of a window evenly until more permits become free, and leave 2 % of it. So an
 *    app within its share gets a permit soon, and never has to wait for the end of a burst of another app.
 */
import { PRIORITIES, type Priority } from "../types.ts";
import type { LimiterState, WaitingApp, WindowState } from "./limiter.ts";

/** What the scheduler needs from the registry of apps. */
export interface AppWeights {
  readonly weightOf: (app: string) => number;
  readonly isListed: (app: string) => boolean;
  readonly perDayOf: (app: string) => number | null;
}

interface SchedulerConfig {
  readonly apps: AppWeights;
  /** Fraction of each window that only interactive calls may use. */
  readonly reserve: number;
}

/** The memory of the scheduler in one process. */
export interface Fairness {
  /** Start tags of fair queueing: the app with the lowest tag goes first. */
  readonly tags: Map<string, number>;
  /** The tag of the app that was served last. An idle app starts with it. */
  virtualTime: number;
  readonly lastSeenAt: Map<string, number>;
  /** When a call was last borrowed here, by length of the window. */
  readonly lastBorrowedAt: Map<number, number>;
  /** When the last calls of each app departed here. */
  readonly departures: Map<string, number[]>;
  /** How fast the waiting calls of each app depart. */
  readonly progress: Map<string, Progress>;
}

interface Progress {
  readonly departedAt: number;
  /** Moving average of the time between two departures while calls waited. */
  readonly intervalMs: number;
  readonly intervals: number;
  /** Calls that still waited. */
  readonly left: number;
}

export function createFairness(): Fairness {
  return {
    tags: new Map(),
    virtualTime: 0,
    lastSeenAt: new Map(),
    lastBorrowedAt: new Map(),
    departures: new Map(),
    progress: new Map(),
  };
}

/** The first call of a queue. */
export interface Candidate {
  readonly app: string;
  readonly priority: Priority;
}

export type Choice<C extends Candidate> =
  /** Request a permit for this call. */
  | { readonly kind: "ask"; readonly candidate: C; readonly leave: readonly number[] }
  | { readonly kind: "wait"; readonly until: number };

/** The input of a decision. */
export interface Known {
  readonly state: LimiterState;
  /** What waits in this process. */
  readonly waiting: readonly WaitingApp[];
  readonly fairness: Fairness;
  readonly config: SchedulerConfig;
  readonly now: number;
}

/** The input of a decision, with the active apps of each window. */
export interface View extends Known {
  /** The apps that are active in each window, and their weights. */
  readonly active: ReadonlyMap<WindowState, ActiveApps>;
}

interface ActiveApps {
  readonly apps: ReadonlySet<string>;
  readonly listed: number;
  readonly unlisted: number;
}

/** Sums the weights of the active apps once for a decision. */
export function viewOf(known: Known): View {
  return {
    ...known,
    active: new Map(known.state.windows.map((window) => [window, activeIn(known, window)])),
  };
}

/** An app that was seen this recently is active in every window. */
const ACTIVE_MS = 60_000;
/** Part of each window that borrowing apps leave free. */
const HEADROOM = 0.02;

/** Marks apps as seen: one that asks here, and those that wait at other replicas. */
export function markSeen({ lastSeenAt }: Fairness, apps: Iterable<string>, now: number): void {
  for (const app of apps) lastSeenAt.set(app, now);
  if (lastSeenAt.size <= MOST_SEEN) return;
  for (const [app, at] of lastSeenAt) if (now - at > ACTIVE_MS) lastSeenAt.delete(app);
}

const MOST_SEEN = 500;

/** The apps that were seen in the last minute. */
export function activeApps({ lastSeenAt }: Fairness, now: number): Set<string> {
  const active = new Set<string>();
  for (const [app, at] of lastSeenAt) if (now - at <= ACTIVE_MS) active.add(app);
  return active;
}

/** An app's share of a window, in calls. At least one. */
export function shareOf(view: View, window: WindowState, app: string): number {
  const { isListed, weightOf } = view.config.apps;
  const active = view.active.get(window) ?? activeIn(view, window);
  const own = weightOf(app);
  const joins = active.apps.has(app) ? 0 : own;
  const listed = active.listed + (isListed(app) ? joins : 0);
  const unlisted = active.unlisted + (isListed(app) ? 0 : joins);
  // While listed apps are active, all unlisted apps together weigh no more than these.
  const scale = listed > 0 && unlisted > listed ? listed / unlisted : 1;
  return Math.max(1, (window.limit * own * (isListed(app) ? 1 : scale)) / (listed + unlisted * scale));
}

function activeIn({ fairness, now, config }: Known, { byApp }: WindowState): ActiveApps {
  const apps = activeApps(fairness, now);
  for (const [app, spent] of byApp) if (spent > 0) apps.add(app);
  let [listed, unlisted] = [0, 0];
  for (const app of apps) {
    if (config.apps.isListed(app)) listed += config.apps.weightOf(app);
    else unlisted += config.apps.weightOf(app);
  }
  return { apps, listed, unlisted };
}

/** Whether the next call of an app, behind `ahead` others of its own, is beyond its share of a window. */
export function borrowsIn(view: View, window: WindowState, app: string, ahead = 0): boolean {
  const share = shareOf(view, window, app);
  return share < window.limit && (window.byApp.get(app) ?? 0) + ahead + 1 > share;
}

/** Whether an app has used up its share of a window while others are active. */
export function isOverShare(view: View, app: string, ahead = 0): boolean {
  return view.state.windows.some((window) => borrowsIn(view, window, app, ahead));
}

export function leftOfShare(view: View, window: WindowState, app: string): number {
  return shareOf(view, window, app) - (window.byApp.get(app) ?? 0);
}

export function waitingHere({ waiting }: View, app: string): number {
  return waiting.reduce((sum, { app: other, count }) => sum + (other === app ? count : 0), 0);
}

/** Chooses the call that goes next. */
export function choose<C extends Candidate>(view: View, candidates: readonly C[]): Choice<C> {
  let until = Number.POSITIVE_INFINITY;
  for (const candidate of inFairOrder(view, candidates)) {
    const leave = leaveOf(view, candidate);
    const at = freeFor(view, candidate, leave);
    if (at <= view.now) return { kind: "ask", candidate, leave };
    until = Math.min(until, at);
  }
  return { kind: "wait", until };
}

/** Records that a call got its permit: its app moves back in the order. */
export function recordPermit(view: View, { app, priority }: Candidate): void {
  const { fairness, state, config, now } = view;
  const start = Math.max(fairness.virtualTime, fairness.tags.get(app) ?? 0);
  fairness.virtualTime = start;
  fairness.tags.set(app, start + 1 / config.apps.weightOf(app));
  if (fairness.tags.size > MOST_SEEN)
    for (const [other, tag] of fairness.tags) if (tag <= start) fairness.tags.delete(other);
  noteProgress(view, app);
  noteDeparture(view, app);
  for (const window of state.windows) {
    if (!borrowsIn(view, window, app)) continue;
    // After a late departure the next call waits less, by at most one interval.
    const leave = leaveIn(view, window, { app, priority });
    const paceMs = ownPaceIn(view, window, leave)(now);
    const last = fairness.lastBorrowedAt.get(window.windowMs) ?? now;
    const dueAt = Math.max(last + paceMs, now - paceMs);
    fairness.lastBorrowedAt.set(window.windowMs, Math.min(now, dueAt));
  }
}

/** Most departures of an app that are remembered. */
export const MOST_DEPARTURES = 200;

function noteDeparture({ fairness: { departures }, state, now }: View, app: string): void {
  const since = now - Math.max(...state.windows.map(({ windowMs }) => windowMs));
  const own = departures.get(app) ?? [];
  own.push(now);
  if (own.length > MOST_DEPARTURES) own.shift();
  departures.set(app, own);
  if (departures.size <= MOST_SEEN) return;
  for (const [other, instants] of departures) if ((instants.at(-1) ?? 0) < since) departures.delete(other);
}

/** Intervals in the moving average. */
const AVERAGED = 20;

function noteProgress(view: View, app: string): void {
  const { fairness, now } = view;
  const { progress } = fairness;
  const left = waitingHere(view, app) - 1;
  // Nothing waited. Earlier delays are over.
  if (left < 0) return void progress.delete(app);
  const last = progress.get(app) ?? { departedAt: now, intervalMs: 0, intervals: 0, left: 0 };
  const intervals = last.intervals + (last.left > 0 ? 1 : 0);
  const change =
    last.left > 0 ? (now - last.departedAt - last.intervalMs) / Math.min(AVERAGED, intervals) : 0;
  progress.set(app, { departedAt: now, intervalMs: last.intervalMs + change, intervals, left });
}

function inFairOrder<C extends Candidate>(view: View, candidates: readonly C[]): C[] {
  const { tags, virtualTime } = view.fairness;
  return candidates
    .map((candidate) => ({
      candidate,
      rank: PRIORITIES.indexOf(candidate.priority),
      borrows: isOverShare(view, candidate.app) ? 1 : 0,
      tag: Math.max(virtualTime, tags.get(candidate.app) ?? 0),
    }))
    .toSorted((a, b) => a.rank - b.rank || a.borrows - b.borrows || a.tag - b.tag)
    .map(({ candidate }) => candidate);
}

/** Permits that a call must leave in each window: the reserve, and what a borrowing app leaves for others. */
export function leaveOf(view: View, candidate: Candidate, ahead = 0): number[] {
  return view.state.windows.map((window) => leaveIn(view, window, candidate, ahead));
}

function leaveIn(view: View, window: WindowState, { app, priority }: Candidate, ahead = 0): number {
  const reserve = priority === "interactive" ? 0 : Math.floor(window.limit * view.config.reserve);
  if (!borrowsIn(view, window, app, ahead)) return reserve;
  return Math.max(reserve, Math.floor(window.limit * HEADROOM) + wantedElsewhere(view, window, app));
}

/** Calls within their share that wait at other replicas. They go before calls that borrow here. */
function wantedElsewhere(view: View, window: WindowState, borrower: string): number {
  let wanted = 0;
  for (const { app, count } of view.state.waitingElsewhere) {
    const left = shareOf(view, window, app) - (window.byApp.get(app) ?? 0);
    if (app !== borrower) wanted += Math.floor(Math.max(0, Math.min(count, left)));
  }
  return wanted;
}

/** The first known instant at which a permit is free for a call. */
function freeFor(view: View, { app }: Candidate, leave: readonly number[]): number {
  const { state, now, config } = view;
  const today = state.today.get(app);
  const perDay = config.apps.perDayOf(app);
  let at = today !== undefined && perDay !== null && today.spent >= perDay ? today.nextFreeAt : now;
  for (const [index, window] of state.windows.entries()) {
    at = Math.max(at, permitFreeAt(window, (leave[index] ?? 0) + 1, now));
    if (borrowsIn(view, window, app))
      at = Math.max(at, pacedAt(view, window, ownPaceIn(view, window, leave[index] ?? 0)));
  }
  return at;
}

/** When `wanted` permits of a window are free. After the known instants, permits become free at an even pace. */
export function permitFreeAt(
  { remaining, freeAt, limit, reserved, windowMs }: WindowState,
  wanted: number,
  now: number,
): number {
  const missing = wanted - remaining;
  if (missing <= 0) return now;
  const known = freeAt[missing - 1];
  if (known !== undefined) return Math.max(now, known);
  const last = Math.max(now, freeAt.at(-1) ?? now);
  return last + ((missing - freeAt.length) * windowMs) / Math.max(1, limit - reserved);
}

/**
 * When this process may borrow the next call. The interval between borrowed calls shrinks while other apps are silent, so
 * this searches for the instant.
 */
export function pacedAt(
  { fairness, now }: View,
  { windowMs }: WindowState,
  pace: (at: number) => number,
): number {
  const last = fairness.lastBorrowedAt.get(windowMs);
  if (last === undefined) return now;
  let [early, late] = [now, last + pace(now)];
  if (late <= early) return late;
  while (late - early > 1 + (late - now) / 1_000) {
    const middle = (early + late) / 2;
    if (last + pace(middle) <= middle) late = middle;
    else early = middle;
  }
  return late;
}

/** The interval between two borrowed calls of all replicas together, as a function of the instant. */
export function paceIn(view: View, window: WindowState, leave: number): (at: number) => number {
  const rate = rateWithinShare(view, window);
  return (at) => borrowIntervalMs(window, { leave, rate, at });
}

/** The same for this replica. Its part of the pace is its part of all waiting calls. */
function ownPaceIn(view: View, window: WindowState, leave: number): (at: number) => number {
  const waits = (sum: number, { app, count }: WaitingApp): number =>
    sum + (borrowsIn(view, window, app) ? count : 0);
  const here = Math.max(1, view.waiting.reduce(waits, 0));
  const elsewhere = view.state.waitingElsewhere.reduce(waits, 0);
  const pace = paceIn(view, window, leave);
  return (at) => pace(at) * (1 + elsewhere / here);
}

/** Calls per millisecond that apps within their share are likely to send: as many as recently. */
export function rateWithinShare(view: View, window: WindowState): number {
  let rate = 0;
  for (const [app, spent] of window.byApp) {
    if (borrowsIn(view, window, app)) continue;
    // A single call in a short window is no rate.
    const recently = view.state.windows.map(({ byApp, windowMs }) => ((byApp.get(app) ?? 0) - 1) / windowMs);
    rate += Math.min(
      Math.max(spent / window.windowMs, ...recently),
      shareOf(view, window, app) / window.windowMs,
    );
  }
  return rate;
}

/**
 * The interval between two borrowed calls with which the permits of a window last until more become free. Until each
 * instant at which a permit becomes free, the permits that are free by then must be enough for borrowed calls and for the
 * calls that apps within their share are likely to send.
 */
function borrowIntervalMs(
  { remaining, spent, freeAt, windowMs }: WindowState,
  { leave, rate, at }: Record<"leave" | "rate" | "at", number>,
): number {
  const left = remaining - leave;
  // After one whole window, everything that counts now is free again.
  let intervalMs = windowMs / Math.max(1, left + spent - rate * windowMs);
  for (const [index, freeInstant] of freeAt.entries()) {
    const [forMs, free] = [freeInstant - at, left + index + 1];
    if (free > 0) intervalMs = Math.max(intervalMs, forMs / Math.max(1, free - rate * forMs));
  }
  return intervalMs;
}
