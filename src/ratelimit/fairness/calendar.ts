/**
 * The calendar of the next calls, as one call sees it. A call that waits has a place: the instant of its permit. A caller that
 * was told to come back has one, too. A new call gets the first instant at which the rules let it go and no later place loses
 * its permit. So a place is kept, and later calls cannot push it back. Pure. docs/fairness.md explains the rules.
 */
import { MOST_FREE_INSTANTS, type WindowState } from "../limiter.ts";
import type { AppCall } from "../throttled.ts";
import { dayFreeAt, type Shares, type Situation } from "./shares.ts";

interface Counted {
  /** The instant of the permit, monotonic milliseconds. */
  readonly at: number;
  /** How many calls it counts as. */
  readonly weight: number;
}

export type Place = AppCall & Counted;

interface PlannedCall extends AppCall {
  /** Its caller comes back for it. Until then, apps may come that are not known yet. */
  readonly isPromise?: boolean;
}

/** A place may be late by this time: calls leave one after the other, and `Retry-After` is in whole seconds. */
const TOLERATED_MS = 500;
/** If it is not known when permits become free, they are assumed to become free in this many steps. */
const STEPS = 50;

export class Calendar {
  readonly situation: Situation;
  readonly #places: readonly Place[];
  readonly #call: PlannedCall;
  readonly #windows: readonly WindowPlan[];

  /** @param places ascending instants, from now on */
  constructor(situation: Situation, places: readonly Place[], call: PlannedCall) {
    this.situation = situation;
    this.#places = places;
    this.#call = call;
    this.#windows = situation.windows.map((shares) => new WindowPlan(situation, shares, places, call));
  }

  /** The same calendar for another call. */
  for(call: PlannedCall): Calendar {
    return new Calendar(this.situation, this.#places, call);
  }

  /** The first instant at which the call may go, not before `from`. */
  earliest(from: number): number {
    const fits = (at: number): boolean => this.#windows.every((window) => window.fits(at));
    const start = Math.max(from, dayFreeAt(this.#call.app, this.situation));
    if (fits(start)) return start;
    const instants = this.#windows.flatMap((window) => window.instants).filter((at) => at > start);
    const sorted = instants.toSorted((a, b) => a - b);
    return sorted.find(fits) ?? Math.max(start, sorted.at(-1) ?? 0) + 1_000;
  }

  /**
   * How many permits the call must leave free in each window if it goes now.
   * @param isPlanned whether it goes at the instant of its place, which was left free for it
   */
  leave(isPlanned: boolean): number[] {
    const { now } = this.situation;
    return this.#windows.map((window) => (isPlanned ? window.reserved : window.leaveAt(now)));
  }

  /** Whether the call waits because its app has used up its share. */
  isHeldBack(): boolean {
    return this.#windows.some((window) => window.isHeldBack());
  }
}

/** What a window means for one call. */
class WindowPlan {
  /** Permits that are reserved for more urgent calls. */
  readonly reserved: number;
  /** At these instants, more permits may become free. */
  readonly instants: readonly number[];
  readonly #now: number;
  readonly #shares: Shares;
  readonly #app: string;
  /** Permits that the call leaves free in any case. */
  readonly #least: number;
  readonly #leaveBeyondShare: ReturnType<Shares["leftToOthersOf"]>;
  /** With this many calls, the app has used up its share; below, the same for the group of all unlisted ids. */
  readonly #share: number;
  readonly #groupShare: number;
  readonly #freed: Count;
  readonly #taken: Count;
  readonly #takenByApp: Count;
  readonly #takenByIds: Count;
  /** Places that lose their permit to a call that goes before them. */
  readonly #lastPermits: readonly number[];

  constructor(situation: Situation, shares: Shares, places: readonly Place[], call: PlannedCall) {
    const { apps, reserve, now } = situation;
    const { app, priority, isPromise = false } = call;
    const { window, isLong, headroom } = shares;
    const [share, group] = [shares.of(app), shares.ofGroup(app)];
    const isAlone = share >= window.limit;
    const isId = !apps.isListed(app);
    const isBesideListed = isId && apps.listed().length > 0;
    this.#now = now;
    this.#shares = shares;
    this.#app = app;
    this.reserved = priority === "interactive" ? 0 : Math.floor(window.limit * reserve);
    const keptForListed = isBesideListed ? shares.leftToListed() : 0;
    const keptForNewcomers = isAlone && (isBesideListed || isPromise) ? headroom : 0;
    this.#least = Math.max(this.reserved, isLong ? keptForListed : keptForNewcomers);
    this.#leaveBeyondShare = shares.leftToOthersOf(app);
    // The share of a listed app is rounded to whole calls: up if the fraction is above a quarter.
    const most = isId || isLong ? share : Math.max(1, share) - 0.25;
    this.#share = isAlone ? Number.POSITIVE_INFINITY : most;
    const mostOfGroup = Math.max(1, group - (shares.isGreedy(app) ? headroom / 2 : 0));
    this.#groupShare = isId && !isLong && group < window.limit ? mostOfGroup : Number.POSITIVE_INFINITY;
    const freed = freedIn(window, now);
    this.instants = [...freed.map(({ at }) => at), ...places.map(({ at }) => at + window.windowMs)];
    this.#freed = countOf(freed);
    this.#taken = countOf(places);
    this.#takenByApp = countOf(places.filter((place) => place.app === app));
    this.#takenByIds = countOf(places.filter((place) => !apps.isListed(place.app)));
    const ofPlaces = [...new Set(places.map(({ at }) => at))];
    this.#lastPermits = ofPlaces.filter((at) => this.#isFull(at, TOLERATED_MS));
  }

  fits(at: number): boolean {
    const next = this.#lastPermits[firstAfter(this.#lastPermits, at)] ?? Number.POSITIVE_INFINITY;
    return next >= at + this.#shares.window.windowMs && !this.#isFull(at);
  }

  leaveAt(at: number): number {
    const beyond = this.#isBeyondShareAt(at) ? this.#leaveBeyondShare(this.#leftAt(at)) : 0;
    return Math.max(this.#least, beyond);
  }

  isHeldBack(): boolean {
    if (this.fits(this.#now)) return false;
    const { isLong, window } = this.#shares;
    return isLong ? window.remaining > 0 && this.leaveAt(this.#now) > 0 : this.#isBeyondShareAt(this.#now);
  }

  #isBeyondShareAt(at: number): boolean {
    const { usedByIds, window } = this.#shares;
    const left = this.#leftAt(at);
    const since = at - window.windowMs;
    const used = this.#shares.usedBy(this.#app) * left + this.#takenByApp(at, since);
    const usedByGroup = usedByIds * left + this.#takenByIds(at, since);
    return used >= this.#share || usedByGroup + 1 > this.#groupShare;
  }

  /** @param toleratedMs the call may go later by this time */
  #isFull(at: number, toleratedMs = 0): boolean {
    const { limit, spent, remaining, windowMs } = this.#shares.window;
    const latest = at + toleratedMs;
    const free = Math.min(limit, spent + remaining, remaining + this.#freed(latest));
    return free - this.#taken(at, latest - windowMs) < 1 + this.leaveAt(at);
  }

  /** Of the calls that count now, the part that still counts at an instant. */
  #leftAt(at: number): number {
    return 1 - Math.min(1, this.#freed(at) / Math.max(1, this.#shares.window.spent));
  }
}

/** When permits become free if no more calls are sent. Calls without a known instant are assumed to leave evenly. */
function freedIn({ freeAt, spent, windowMs }: WindowState, now: number): Counted[] {
  const known = freeAt.map((at) => ({ at, weight: 1 }));
  const unknown = Math.max(0, spent - freeAt.length);
  if (unknown === 0 || freeAt.length < MOST_FREE_INSTANTS) return known;
  const last = freeAt.at(-1) ?? now;
  const stepMs = (now + windowMs - last) / STEPS;
  const steps = Array.from({ length: STEPS }, (_, n) => last + (n + 1) * stepMs);
  return [...known, ...steps.map((at) => ({ at, weight: unknown / STEPS }))];
}

/** The number of calls up to an instant, and after another one if it is given. */
type Count = (until: number, after?: number) => number;

/** @param calls ascending instants */
function countOf(calls: readonly Counted[]): Count {
  const instants = calls.map(({ at }) => at);
  const sums = [0];
  for (const { weight } of calls) sums.push((sums.at(-1) ?? 0) + weight);
  const countAt = (at: number): number => sums[firstAfter(instants, at)] ?? 0;
  return (until, after = Number.NEGATIVE_INFINITY) => countAt(until) - countAt(after);
}

/** @returns the index of the first instant after an instant */
function firstAfter(instants: readonly number[], instant: number): number {
  let [low, high] = [0, instants.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((instants[middle] ?? 0) > instant) high = middle;
    else low = middle + 1;
  }
  return low;
}
