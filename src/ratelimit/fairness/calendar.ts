/**
 * The calendar of the next calls. A call that waits has a place: the instant of its permit. A caller that was told to come back
 * has one, too. A new call gets the first instant at which the rules let it go and no later place loses its permit. So a
 * place is kept, and later calls cannot push it back. Pure. docs/fairness.md explains the rules.
 */
import type { Priority } from "../../telemetry/events.ts";
import { DAY_MS, MOST_FREE_INSTANTS, type WindowState } from "../limiter.ts";
import type { ShareOfWindow } from "../overview.ts";
import type { AppCall } from "../throttled.ts";
import { isLong, Shares, type Situation } from "./shares.ts";

export interface Place extends AppCall {
  /** The instant of the permit, monotonic milliseconds. */
  readonly at: number;
  /** As how many calls it counts. */
  readonly weight: number;
}

interface PlannedCall extends AppCall {
  /** Its caller comes back for it. Until then, apps may come that are not known yet. */
  readonly isPromise?: boolean;
}

/** Part of a short window that an app beyond its share leaves free. */
const HEADROOM = 0.1;
/** A place may be late by this time: calls leave one after the other, and `Retry-After` is in whole seconds. */
const TOLERATED_MS = 500;
/** More than what sums of fractions differ by. */
const ROUNDING = 1e-6;
/** A window with more calls than instants is searched in so many steps. */
const STEPS = 50;

export class Calendar {
  readonly situation: Situation;
  readonly #windows: readonly WindowPlan[];

  constructor(situation: Situation, places: readonly Place[]) {
    const { now, state } = situation;
    // A place in the past is still to be used.
    const next = places.map((place) => ({ ...place, at: Math.max(now, place.at) }));
    const sorted = next.toSorted((a, b) => a.at - b.at);
    this.situation = situation;
    this.#windows = state.windows.map((window) => new WindowPlan(situation, window, sorted));
  }

  /** The first instant from an instant on at which a call may go. */
  earliest(call: PlannedCall, from: number): number {
    const plans = this.#windows.map((window) => window.for(call));
    const fits = (at: number): boolean => plans.every((plan) => plan.fits(at));
    const start = Math.max(from, dayFreeAt(this.situation, call.app));
    if (fits(start)) return start;
    const instants = plans.flatMap(({ instants }) => instants).filter((at) => at > start);
    const sorted = instants.toSorted((a, b) => a - b);
    return sorted.find(fits) ?? Math.max(start, sorted.at(-1) ?? 0) + 1_000;
  }

  /**
   * Permits that a call leaves in each window if it goes now.
   * @param isPlanned whether it goes at the instant of its place, which was left free for it
   */
  leave(call: AppCall, isPlanned: boolean): number[] {
    return this.#windows.map((window) => {
      const leave = window.for(call).leaveAt(this.situation.now);
      return isPlanned ? Math.min(leave, window.reservedFrom(call.priority)) : leave;
    });
  }

  /** Whether a call waits because its app has used up its share. */
  isHeldBack(call: AppCall): boolean {
    const { now } = this.situation;
    return this.#windows.some((window) => {
      const plan = window.for(call);
      return !plan.fits(now) && plan.isBeyondAt(now);
    });
  }

  /** What an app has left of its share of each window, and of its `perDay`. */
  sharesOf(app: string): ShareOfWindow[] {
    const { state, now, apps } = this.situation;
    const windows = this.#windows.map((window) => window.shareOf(app));
    const [today, limit] = [state.today.get(app), apps.perDayOf(app)];
    if (today === undefined || limit === null) return windows;
    const remaining = Math.max(0, limit - today.spent);
    const resetSeconds = secondsFrom(now, today.nextFreeAt);
    return [...windows, { name: "per-day", limit, windowSeconds: DAY_MS / 1000, remaining, resetSeconds }];
  }
}

/** When an app's `perDay` allows its next call. */
export function dayFreeAt({ state, apps, now }: Situation, app: string): number {
  const today = state.today.get(app);
  const perDay = apps.perDayOf(app);
  return today !== undefined && perDay !== null && today.spent >= perDay ? today.nextFreeAt : now;
}

/** What a window means for one call. */
interface CallPlan {
  readonly fits: (at: number) => boolean;
  readonly leaveAt: (at: number) => number;
  readonly isBeyondAt: (at: number) => boolean;
  /** At these instants more may be free than before. */
  readonly instants: readonly number[];
}

class WindowPlan {
  readonly #window: WindowState;
  readonly #shares: Shares;
  readonly #situation: Situation;
  readonly #places: readonly Place[];
  readonly #taken: Tally;
  readonly #takenByIds: Tally;
  readonly #usedByIds: number;

  constructor(situation: Situation, window: WindowState, places: readonly Place[]) {
    const { isListed } = situation.apps;
    this.#situation = situation;
    this.#window = window;
    this.#shares = new Shares(situation, window);
    this.#places = places;
    this.#taken = new Tally(places, () => true);
    this.#takenByIds = new Tally(places, ({ app }) => !isListed(app));
    this.#usedByIds = [...window.byApp].reduce((sum, [app, used]) => sum + (isListed(app) ? 0 : used), 0);
  }

  for(call: PlannedCall): CallPlan {
    const places = this.#places;
    const { windowMs } = this.#window;
    const { leaveAt, isBeyondAt } = this.#leaveOf(call);
    const isFull = (at: number, toleratedMs = 0): boolean =>
      this.#freeAt(at + toleratedMs) - this.#taken.within(at + toleratedMs - windowMs, at) < 1 + leaveAt(at);
    /** Places that would lose their permit to a call that goes before them. */
    const last: number[] = [];
    for (const { at } of places) if (at !== last.at(-1) && isFull(at, TOLERATED_MS)) last.push(at);
    return {
      fits(at) {
        const next = last[firstAfter(last, at)] ?? Number.POSITIVE_INFINITY;
        return next >= at + windowMs && !isFull(at);
      },
      leaveAt,
      isBeyondAt,
      instants: [...this.#instants(), ...places.map(({ at }) => at + windowMs)],
    };
  }

  shareOf(app: string): ShareOfWindow {
    const { now } = this.#situation;
    const { name, windowMs, remaining, freeAt, byApp } = this.#window;
    const used = byApp.get(app) ?? 0;
    const share = this.#shares.of(app);
    // In a long window, an app may use more than its share.
    const most = Math.max(share, used + remaining - this.#leaveBeyond(app, now));
    const limit = isLong(this.#window) ? most : share;
    return {
      name,
      limit,
      windowSeconds: Math.ceil(windowMs / 1000),
      remaining: Math.max(0, Math.min(limit - used, remaining)),
      resetSeconds: secondsFrom(now, freeAt[0] ?? now + windowMs),
    };
  }

  /** Permits that an app beyond its share leaves at an instant. */
  #leaveBeyond(app: string, at: number): number {
    const { need, met } = this.#shares.othersOf(app);
    const least = isLong(this.#window) ? 0 : this.#headroom;
    return least + Math.max(0, Math.ceil(need - met * this.#leftAt(at) - ROUNDING));
  }

  /** Permits that a call leaves at an instant. */
  #leaveOf({ app, priority, isPromise = false }: PlannedCall): Pick<CallPlan, "leaveAt" | "isBeyondAt"> {
    const { apps } = this.#situation;
    const { limit, windowMs, byApp, spent } = this.#window;
    const isId = !apps.isListed(app);
    const isBesideListed = isId && apps.listed().length > 0;
    const reserved = this.reservedFrom(priority);
    const share = this.#shares.of(app);
    const leaveBeyond = (at: number): number => this.#leaveBeyond(app, at);
    const own = new Tally(this.#places, (place) => place.app === app);
    const usedAt = (at: number): number =>
      (byApp.get(app) ?? 0) * this.#leftAt(at) + own.within(at - windowMs, at);
    if (isLong(this.#window)) {
      const ofListed = isBesideListed ? limit * (1 - apps.unlistedShare()) - (spent - this.#usedByIds) : 0;
      const leaveAt = (at: number): number =>
        Math.max(reserved, Math.ceil(ofListed), usedAt(at) < share ? 0 : leaveBeyond(at));
      return { leaveAt, isBeyondAt: (at) => this.#window.remaining > 0 && leaveAt(at) > 0 };
    }
    if (share >= limit) {
      const leave = Math.max(reserved, isBesideListed || isPromise ? this.#headroom : 0);
      return { leaveAt: () => leave, isBeyondAt: () => false };
    }
    // To the next whole call for listed apps, so that they do not lose calls to rounding.
    const isOwnBeyond = (at: number): boolean =>
      isId ? usedAt(at) >= share : usedAt(at) + 0.5 >= Math.max(1, share);
    const ofGroup = this.#shares.ofGroup(app);
    const kept = this.#shares.isGreedy(app) ? this.#headroom / 2 : 0;
    const groupShare = Math.max(1, ofGroup - kept);
    const idsAt = (at: number): number =>
      this.#usedByIds * this.#leftAt(at) + this.#takenByIds.within(at - windowMs, at);
    const isGroupBeyond = (at: number): boolean => isId && ofGroup < limit && idsAt(at) + 1 > groupShare;
    const isBeyondAt = (at: number): boolean => isOwnBeyond(at) || isGroupBeyond(at);
    return { leaveAt: (at) => Math.max(reserved, isBeyondAt(at) ? leaveBeyond(at) : 0), isBeyondAt };
  }

  /** Permits that are reserved for more urgent calls. */
  reservedFrom(priority: Priority): number {
    return priority === "interactive" ? 0 : Math.floor(this.#window.limit * this.#situation.reserve);
  }

  get #headroom(): number {
    return Math.round(this.#window.limit * HEADROOM);
  }

  /** Permits that are free at an instant if no more calls are sent until then. */
  #freeAt(at: number): number {
    const { limit, reserved, remaining } = this.#window;
    return Math.min(limit - reserved, remaining + this.#freedAt(at));
  }

  /** The part of the calls that count now and still count at an instant. */
  #leftAt(at: number): number {
    return 1 - Math.min(1, this.#freedAt(at) / Math.max(1, this.#window.spent));
  }

  #freedAt(at: number): number {
    const { freeAt, spent } = this.#window;
    const known = firstAfter(freeAt, at);
    if (known < freeAt.length || known < MOST_FREE_INSTANTS) return known;
    const [last, end] = this.#unknown();
    return known + Math.max(0, spent - known) * Math.min(1, (at - last) / Math.max(1, end - last));
  }

  #instants(): readonly number[] {
    const { freeAt, spent } = this.#window;
    if (spent <= freeAt.length) return freeAt;
    const [last, end] = this.#unknown();
    const step = (end - last) / STEPS;
    return [...freeAt, ...Array.from({ length: STEPS }, (_, n) => last + (n + 1) * step)];
  }

  /** The time in which calls leave the window whose instants are not known. */
  #unknown(): [number, number] {
    const { freeAt, windowMs } = this.#window;
    const { now } = this.#situation;
    return [freeAt.at(-1) ?? now, now + windowMs];
  }
}

function secondsFrom(now: number, at: number): number {
  return Math.max(1, Math.ceil((at - now) / 1000));
}

/** How many calls places stand for. */
class Tally {
  readonly #ats: number[] = [];
  readonly #sums = [0];

  constructor(places: readonly Place[], isMeant: (place: Place) => boolean) {
    let sum = 0;
    for (const place of places) {
      if (!isMeant(place)) continue;
      this.#ats.push(place.at);
      this.#sums.push((sum += place.weight));
    }
  }

  within(after: number, until: number): number {
    return (this.#sums[firstAfter(this.#ats, until)] ?? 0) - (this.#sums[firstAfter(this.#ats, after)] ?? 0);
  }
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
