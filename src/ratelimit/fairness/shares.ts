/** The share of each app in each window, and what it is likely to need of it. Pure. docs/fairness.md explains the rules. */
import type { Apps } from "../apps.ts";
import { DAY_MS, type LimiterState, type WindowState } from "../limiter.ts";
import type { ShareOfWindow } from "../overview.ts";

interface Facts {
  readonly state: LimiterState;
  /** The apps that were seen in the last minute, and how many calls each asks for in a minute, refused ones included. */
  readonly asked: ReadonlyMap<string, number>;
  readonly apps: Pick<Apps, "weightOf" | "isListed" | "listed" | "perDayOf" | "unlistedShare">;
  /** Part of each window that only interactive calls may use. */
  readonly reserve: number;
  /** Monotonic milliseconds. */
  readonly now: number;
}

/** What a decision is based on. */
export interface Situation extends Facts {
  /** In the order of the limiter's windows. */
  readonly windows: readonly Shares[];
  /** The calls in flight of this process, as a window. */
  readonly inFlight: Shares;
}

/** Windows up to this length are shared by turns. */
const LONGEST_SHORT_MS = 3_600_000;
/** Part of a short window that an app beyond its share leaves free. */
const HEADROOM = 0.1;
/** A listed app is likely to need at least this part of its share of a long window. */
const LEAST_NEED = 0.25;
/** In a long window, an app is likely to need this many times the calls that it has used. */
const GROWTH = 2;
/** In a short window, an app is likely to need this many times the calls that it asks for now. */
const SWING = 3;
const ASKED_MS = 60_000;
/** Larger than the rounding errors in sums of fractions. */
const ROUNDING = 1e-6;

/** @param inFlight the calls in flight of this process, as a window */
export function situationOf(facts: Facts, inFlight: WindowState): Situation {
  const windows = facts.state.windows.map((window) => new Shares(facts, window));
  return { ...facts, windows, inFlight: new Shares(facts, inFlight) };
}

/** The shares of a window. */
export class Shares {
  readonly window: WindowState;
  readonly isLong: boolean;
  /** Permits of a short window that an app beyond its share leaves free. */
  readonly headroom: number;
  /** Calls of all unlisted ids. */
  readonly usedByIds: number;
  readonly #facts: Facts;
  readonly #active: ReadonlySet<string>;
  readonly #weights = { listed: 0, ids: 0 };

  constructor(facts: Facts, window: WindowState) {
    const { asked, apps } = facts;
    const { byApp, limit, windowMs } = window;
    this.window = window;
    this.isLong = windowMs > LONGEST_SHORT_MS;
    this.headroom = Math.round(limit * HEADROOM);
    this.#facts = facts;
    const active = new Set(asked.keys());
    let usedByIds = 0;
    for (const [app, used] of byApp) {
      if (used > 0) active.add(app);
      if (!apps.isListed(app)) usedByIds += used;
    }
    // All listed apps are active in a long window, because it cannot be divided again when one of them comes late.
    if (this.isLong) for (const app of apps.listed()) active.add(app);
    for (const app of active) this.#weights[apps.isListed(app) ? "listed" : "ids"] += apps.weightOf(app);
    this.usedByIds = usedByIds;
    this.#active = active;
  }

  /** An app's share, in calls. */
  of(app: string): number {
    const { isListed, weightOf } = this.#facts.apps;
    const { listed, ids, group } = this.#weightsWith(app);
    const weight = isListed(app) ? weightOf(app) : (group * weightOf(app)) / ids;
    return (this.window.limit * weight) / (listed + group);
  }

  /** The share of all unlisted ids together, in calls, with this app among the active ones. */
  ofGroup(app: string): number {
    const { listed, group } = this.#weightsWith(app);
    return (this.window.limit * group) / (listed + group);
  }

  usedBy(app: string): number {
    return this.window.byApp.get(app) ?? 0;
  }

  /** The used part of the app's share, as two numbers to compare. For an unlisted id: of its group's share, then of its own. */
  usedParts(app: string): readonly [number, number] {
    const own = this.usedBy(app) / this.of(app);
    return this.#facts.apps.isListed(app) ? [own, own] : [this.usedByIds / this.ofGroup(app), own];
  }

  /** Whether an unlisted id asks for at least half as many calls as the average id. */
  isGreedy(app: string): boolean {
    const { apps, asked } = this.#facts;
    const byIds = [...asked].flatMap(([other, calls]) => (apps.isListed(other) ? [] : [calls]));
    const average = byIds.reduce((sum, calls) => sum + calls, 0) / Math.max(1, byIds.length);
    return (asked.get(app) ?? 0) >= average / 2;
  }

  /** Permits of a long window that unlisted ids leave free for the listed apps. */
  leftToListed(): number {
    const { limit, spent } = this.window;
    return Math.ceil(limit * (1 - this.#facts.apps.unlistedShare()) - (spent - this.usedByIds));
  }

  /**
   * Permits that an app beyond its share leaves free: what the others are likely to need and have not used.
   * @returns a function of the part of the calls in the window that still counts
   */
  leftToOthersOf(app: string): (left: number) => number {
    let [need, met] = [0, 0];
    for (const other of this.#active) {
      if (other === app) continue;
      const ofOther = this.#needOf(other);
      need += ofOther;
      met += Math.min(ofOther, this.usedBy(other));
    }
    const least = this.isLong ? 0 : this.headroom;
    return (left) => least + Math.max(0, Math.ceil(need - met * left - ROUNDING));
  }

  /** What an app is likely to need of its share in a whole window. */
  #needOf(app: string): number {
    const { asked, apps } = this.#facts;
    const share = this.of(app);
    const least = apps.isListed(app) ? share * LEAST_NEED : 0;
    const likely = this.isLong
      ? Math.max(this.usedBy(app) * GROWTH, least)
      : ((asked.get(app) ?? 0) * SWING * this.window.windowMs) / ASKED_MS;
    return Math.min(share, likely);
  }

  /** @returns the weights of the listed apps, of the unlisted ids, and of their group, with this app among the active ones */
  #weightsWith(app: string): Record<"listed" | "ids" | "group", number> {
    const { weightOf, isListed } = this.#facts.apps;
    const joins = this.#active.has(app) ? 0 : weightOf(app);
    const listed = this.#weights.listed + (isListed(app) ? joins : 0);
    const ids = this.#weights.ids + (isListed(app) ? 0 : joins);
    return { listed, ids, group: listed > 0 ? Math.min(ids, listed) : ids };
  }
}

/** What an app has left of its share of each window, and of its `perDay`. */
export function sharesOf(app: string, { state, now, apps, windows }: Situation): ShareOfWindow[] {
  const secondsTo = (at: number): number => Math.max(1, Math.ceil((at - now) / 1000));
  const shares = windows.map((shared): ShareOfWindow => {
    const { name, windowMs, remaining, freeAt } = shared.window;
    const [share, used] = [shared.of(app), shared.usedBy(app)];
    // In a long window, an app may use more than its share.
    const most = Math.max(share, used + remaining - shared.leftToOthersOf(app)(1));
    const limit = shared.isLong ? most : share;
    return {
      name,
      limit,
      windowSeconds: Math.ceil(windowMs / 1000),
      remaining: Math.max(0, Math.min(limit - used, remaining)),
      resetSeconds: secondsTo(freeAt[0] ?? now + windowMs),
    };
  });
  const [today, limit] = [state.today.get(app), apps.perDayOf(app)];
  if (today === undefined || limit === null) return shares;
  const remaining = Math.max(0, limit - today.spent);
  const resetSeconds = secondsTo(today.nextFreeAt);
  return [...shares, { name: "per-day", limit, windowSeconds: DAY_MS / 1000, remaining, resetSeconds }];
}

/** When an app's `perDay` allows its next call. */
export function dayFreeAt(app: string, { state, apps, now }: Situation): number {
  const today = state.today.get(app);
  const perDay = apps.perDayOf(app);
  return today !== undefined && perDay !== null && today.spent >= perDay ? today.nextFreeAt : now;
}
