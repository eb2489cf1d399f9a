/** The share of each app in each window, and what it must leave to others. Pure. docs/fairness.md explains the rules. */
import { memoize } from "../../process/memoize.ts";
import type { Apps } from "../apps.ts";
import { DAY_MS, type LimiterState, type WindowState } from "../limiter.ts";
import { indexAfter } from "../limits/window-log.ts";
import type { AppCall } from "../call-facts.ts";

interface Facts {
  readonly state: LimiterState;
  /** How many calls each app has asked for in the last minute, refused ones included; the older ones count less. */
  readonly asked: ReadonlyMap<string, number>;
  readonly apps: Pick<Apps, "weightOf" | "isListed" | "listed" | "perDayOf" | "unlistedShare" | "priorityOf">;
  /** Part of each window that only interactive calls may use. */
  readonly reserve: number;
  /** Monotonic milliseconds. */
  readonly now: number;
}

/** What a decision is based on. */
export interface Situation extends Facts {
  /** In the order of the limiter's windows. */
  readonly windows: readonly Shares[];
  /** The window in which apps take turns: the longest one up to an hour. */
  readonly turns: Shares;
}

/** Windows up to this length are shared by turns. */
const LONGEST_SHORT_MS = 3_600_000;
/** Part of a short window that an app beyond its share leaves free. */
const HEADROOM = 0.1;
/** A listed app is likely to need at least this part of its share of a long window. */
const LEAST_NEED = 0.25;
/** In a long window, an app is likely to need this many times the calls that it has used. */
const GROWTH = 2;
/** Apps ask for as many calls in this time as `asked` says. */
const ASKED_MS = 60_000;
/** A single call says nothing about how much an app asks. */
const ONE_CALL = 1.6;
/** Calls without a known instant leave a window in this many steps. */
const STEPS = 50;
/** Larger than the rounding errors in sums of fractions. */
const ROUNDING = 1e-6;

export function situationOf(facts: Facts): Situation {
  const windows = facts.state.windows.map((window) => new Shares(facts, window));
  const byLength = windows.toSorted((a, b) => a.window.windowMs - b.window.windowMs);
  const turns = byLength.findLast(({ isLong }) => !isLong) ?? byLength[0];
  if (turns === undefined) throw new Error("a budget has at least one window");
  return { ...facts, windows, turns };
}

/** The shares of a window. */
export class Shares {
  readonly window: WindowState;
  readonly isLong: boolean;
  readonly #facts: Facts;
  readonly #active: ReadonlySet<string>;
  readonly #weights = { listed: 0, ids: 0 };
  /** Permits of a short window that an app beyond its share leaves free. */
  readonly #headroom: number;
  /** Calls of all listed apps, and of all unlisted ids. */
  readonly #used = { listed: 0, ids: 0 };
  /** What all apps are likely to need. There may be thousands of apps, so it is added up only once. */
  #neededByAll: number | undefined;

  constructor(facts: Facts, window: WindowState) {
    const { asked, apps } = facts;
    this.window = window;
    this.isLong = window.windowMs > LONGEST_SHORT_MS;
    this.#facts = facts;
    this.#headroom = Math.round(window.limit * HEADROOM);
    const used = [...window.byApp].filter(([, calls]) => calls > 0);
    // All listed apps are active in a long window, because it cannot be divided again when one of them comes late.
    const always = this.isLong ? apps.listed() : [];
    this.#active = new Set([...asked.keys(), ...used.map(([app]) => app), ...always]);
    for (const app of this.#active)
      this.#weights[apps.isListed(app) ? "listed" : "ids"] += apps.weightOf(app);
    this.#used.ids = window.byOthers;
    for (const [app, calls] of used) this.#used[apps.isListed(app) ? "listed" : "ids"] += calls;
  }

  /** An app's share, in calls. */
  readonly of = memoize((app): number => {
    const { isListed, weightOf } = this.#facts.apps;
    const { listed, ids, group } = this.#weightsWith(app);
    const weight = isListed(app) ? weightOf(app) : (group * weightOf(app)) / ids;
    return (this.window.limit * weight) / (listed + group);
  });

  usedBy(app: string): number {
    return this.window.byApp.get(app) ?? 0;
  }

  /**
   * What decides the turns: for a listed app, the used part of its share. For an unlisted id, the used part of the share of all
   * ids, and then of its own share.
   * @param more further calls of the app @param moreOfIds and of all unlisted ids
   */
  usedParts(app: string, more = 0, moreOfIds = more): readonly [number, number] {
    const isListed = this.#facts.apps.isListed(app);
    const own = (this.usedBy(app) + more) / this.of(app);
    return isListed ? [own, own] : [(this.#used.ids + moreOfIds) / this.#ofGroup(app), own];
  }

  /** How many more calls an app makes until it has used this part of its share. */
  callsUpTo(part: number, app: string): number {
    return callsUpTo(part * this.of(app), this.usedBy(app));
  }

  /** How many more calls unlisted ids make beside an app until they have used this part of their share. */
  callsOfIdsUpTo(part: number, app: string): number {
    return callsUpTo(part * this.#ofGroup(app), this.#used.ids);
  }

  /**
   * Whether an app will have used up its share at an instant, or all unlisted ids theirs.
   * @param more calls of the app that go before @param moreOfIds and of all unlisted ids
   */
  isBeyond(app: string, at: number, more = 0, moreOfIds = more): boolean {
    const { limit } = this.window;
    const share = this.of(app);
    const used = this.usedBy(app) - indexAfter(this.#leaves(app), at) + more;
    const isListed = this.#facts.apps.isListed(app);
    if (share >= limit) return false;
    // Fractions of a call belong to the listed apps.
    if (isListed) return used > share;
    const ofGroup = this.#ofGroup(app);
    if (this.isLong || ofGroup >= limit) return used >= share;
    if (!this.#isGreedy(app)) return used >= Math.max(2, share);
    const most = Math.max(1, ofGroup - Math.floor(this.#headroom / 2));
    return used >= share || this.#used.ids * this.#leftAt(at) + moreOfIds + 1 > most;
  }

  readonly #leaves = memoize((app) => this.window.leaves(app));

  /** Whether an unlisted id asks for at least half as many calls as the average id. */
  readonly #isGreedy = memoize((app): boolean => {
    const { apps, asked } = this.#facts;
    const byIds = [...asked].flatMap(([id, calls]) => (apps.isListed(id) ? [] : [calls]));
    const sum = byIds.reduce((total, calls) => total + calls, 0);
    return (asked.get(app) ?? 0) * byIds.length >= sum / 2;
  });

  /** Permits that a call must leave free at an instant. The parameters are those of `isBeyond`. */
  leave({ app, priority }: AppCall, at: number, more = 0, moreOfIds = more): number {
    const { apps, reserve } = this.#facts;
    const { limit } = this.window;
    const isBesideListed = !apps.isListed(app) && apps.listed().length > 0;
    const reserved = priority === "interactive" ? 0 : Math.floor(limit * reserve);
    const isBeyond = this.isBeyond(app, at, more, moreOfIds);
    const toOthers = isBeyond ? this.leftToOthersOf(app) : 0;
    if (this.isLong) return Math.max(reserved, isBesideListed ? this.#leftToListed() : 0, toOthers);
    const headroom = isBeyond || (isBesideListed && this.of(app) >= limit) ? this.#headroom : 0;
    return Math.max(reserved, headroom + toOthers);
  }

  /** Permits that will be free at an instant if no more calls are sent. Negative: more calls than the limit count. */
  freeAt(at: number): number {
    const { limit, spent, remaining } = this.window;
    return Math.min(limit, spent + remaining, Math.min(remaining, limit - spent) + this.#freedAt(at));
  }

  /** At these instants, more permits may be free. */
  instants(): number[] {
    const { freeAt, spanMs } = this.window;
    const last = freeAt.at(-1) ?? this.#facts.now;
    const stepMs = (this.#facts.now + spanMs - last) / STEPS;
    const steps = this.#unknown() > 0 ? Array.from({ length: STEPS }, (_, n) => last + (n + 1) * stepMs) : [];
    return [...freeAt, ...steps];
  }

  /** How many of the calls that count now have left the window at an instant. */
  #freedAt(at: number): number {
    const { freeAt, spanMs } = this.window;
    const last = freeAt.at(-1) ?? this.#facts.now;
    if (at <= last) return indexAfter(freeAt, at);
    const ms = Math.max(1, this.#facts.now + spanMs - last);
    return freeAt.length + this.#unknown() * Math.min(1, (at - last) / ms);
  }

  /** How many calls have no known instant at which they leave the window. They are assumed to leave evenly. */
  #unknown(): number {
    const { spent, freeAt } = this.window;
    return Math.max(0, spent - freeAt.length);
  }

  /** The part of the calls that count now which still counts at an instant. */
  #leftAt(at: number): number {
    return 1 - Math.min(1, this.#freedAt(at) / Math.max(1, this.window.spent));
  }

  /** What the other apps are likely to need, beyond what they have used. */
  leftToOthersOf(app: string): number {
    this.#neededByAll ??= [...this.#active].reduce((sum, one) => sum + this.#neededBy(one), 0);
    return Math.max(0, Math.ceil(this.#neededByAll - this.#neededBy(app) - ROUNDING));
  }

  #neededBy(app: string): number {
    const { apps, asked } = this.#facts;
    const share = this.of(app);
    const used = this.usedBy(app);
    const least = apps.isListed(app) ? share * LEAST_NEED : 0;
    const likely = this.isLong
      ? Math.max(used * GROWTH, least)
      : ((asked.get(app) ?? 0) - ONE_CALL) * (this.window.windowMs / ASKED_MS);
    const perDay = apps.perDayOf(app) ?? Number.POSITIVE_INFINITY;
    return Math.max(0, Math.min(share, perDay, likely) - used);
  }

  /** Permits of a long window that unlisted ids leave free for the listed apps. */
  #leftToListed(): number {
    return Math.ceil(this.window.limit * (1 - this.#facts.apps.unlistedShare()) - this.#used.listed);
  }

  /** The share of all unlisted ids together, in calls, with this app among the active ones. */
  #ofGroup(app: string): number {
    const { listed, group } = this.#weightsWith(app);
    return (this.window.limit * group) / (listed + group);
  }

  /** @returns the weights of the listed apps, of the unlisted ids, and of their group, with this app among the active ones */
  #weightsWith(app: string): Record<"listed" | "ids" | "group", number> {
    const { weightOf, isListed } = this.#facts.apps;
    let { listed, ids } = this.#weights;
    if (!this.#active.has(app)) {
      if (isListed(app)) listed += weightOf(app);
      else ids += weightOf(app);
    }
    return { listed, ids, group: listed > 0 ? Math.min(ids, listed) : ids };
  }
}

const callsUpTo = (most: number, used: number): number => Math.max(0, Math.floor(most - used + ROUNDING) + 1);

/** An app's share of one window of a budget, as callers, operators and metrics see it. */
export interface ShareOfWindow {
  /** The window as in the settings, e.g. `1m`, or `per-day` for the app's own daily limit. */
  readonly name: string;
  /** Requests, perhaps with a fraction. */
  readonly limit: number;
  readonly windowSeconds: number;
  /** How many requests may be sent now, perhaps with a fraction. */
  readonly remaining: number;
  /** How long until more requests may be sent. */
  readonly resetSeconds: number;
}

/** What an app has left of its share of each window, and of its `perDay`. */
export function sharesOf(app: string, { state, now, apps, windows }: Situation): ShareOfWindow[] {
  const secondsTo = (at: number): number => Math.max(1, Math.ceil((at - now) / 1000));
  const shares = windows.map((shared): ShareOfWindow => {
    const { name, windowMs, remaining, freeAt } = shared.window;
    const share = shared.of(app);
    const used = shared.usedBy(app);
    const left = remaining - shared.leave({ app, priority: apps.priorityOf(app) }, now);
    // In a long window, an app may use more than its share.
    const most = used + Math.min(left, remaining - shared.leftToOthersOf(app));
    const limit = shared.isLong ? Math.max(share, most) : share;
    return {
      name,
      limit,
      windowSeconds: Math.ceil(windowMs / 1000),
      remaining: Math.max(0, Math.min(limit - used, left)),
      resetSeconds: secondsTo(freeAt[0] ?? now + windowMs),
    };
  });
  const today = state.today.get(app);
  const limit = apps.perDayOf(app);
  if (today === undefined || limit === null) return shares;
  const remaining = Math.max(0, limit - today.spent);
  const resetSeconds = secondsTo(today.nextFreeAt);
  return [...shares, { name: "per-day", limit, windowSeconds: DAY_MS / 1000, remaining, resetSeconds }];
}

/** When an app's `perDay` allows its next call. */
export function dayFreeAt(app: string, { state, apps, now }: Facts): number {
  const today = state.today.get(app);
  const perDay = apps.perDayOf(app);
  return today !== undefined && perDay !== null && today.spent >= perDay ? today.nextFreeAt : now;
}
