/**
 * The share of each app in each window, and how many permits an app leaves for others. Pure. docs/fairness.md explains the
 * rules.
 *
 * The rules are approximate, because they use counts that may be half a second old. The limiter decides whether a call may
 * be sent at all.
 */
import type { Priority } from "../../telemetry/events.ts";
import type { LimiterState, WaitingApp, WindowState } from "../limiter.ts";

/** What the fair order needs to know about apps. */
export interface AppRules {
  readonly weightOf: (app: string) => number;
  readonly isListed: (app: string) => boolean;
  readonly listed: () => readonly string[];
  readonly perDayOf: (app: string) => number | null;
  /** The part of a long window that all unlisted ids together may use, if apps are listed. */
  readonly unlistedShare: () => number;
}

/** What a decision is based on. */
export interface Situation {
  readonly state: LimiterState;
  /** The calls in flight of this process, as a window. */
  readonly inFlight: WindowState;
  /** What waits in this process. */
  readonly waiting: readonly WaitingApp[];
  /** The apps that were seen in the last minute, and how much they asked. */
  readonly asked: ReadonlyMap<string, number>;
  readonly apps: AppRules;
  /** Part of each window that only interactive calls may use. */
  readonly reserve: number;
  /** How many replicas share the budget. */
  readonly replicas: number;
  /** Monotonic milliseconds. */
  readonly now: number;
}

export interface Shares {
  /** An app's share of a window, in calls. */
  readonly shareOf: (window: WindowState, app: string) => number;
  /** Whether the next call of an app, behind `ahead` others of its own, is beyond its share of a short window. */
  readonly isBeyond: (app: string, ahead?: number) => boolean;
  /** Whether an app has its share of the calls in flight. */
  readonly isBeyondInFlight: (app: string) => boolean;
  /**
   * The time until an app is within its share of a short window, because calls of its own, or of the group, leave it.
   * @param idsAhead calls of other unlisted ids that go first
   */
  readonly withinShareAfterMs: (window: WindowState, app: string, ahead: number, idsAhead: number) => number;
  /** An app's share of a permit that two apps compete for, relative to another one. */
  readonly ratio: (app: string, to: string) => number;
  /** The same for the group of unlisted ids. */
  readonly groupRatio: (to: string) => number;
  /** Whether an unlisted id asked less than half as much as the average one. */
  readonly isModest: (app: string) => boolean;
  /** How much of its share of the short windows an app has used. All unlisted ids count as one app. */
  readonly usedPart: (app: string) => number;
  /** Permits that a call, behind `ahead` others of its app, leaves in a window. */
  readonly leave: (window: WindowState, call: AppCall, ahead?: number) => number;
}

export interface AppCall {
  readonly app: string;
  readonly priority: Priority;
}

/** Windows up to this length are shared by turns. */
const LONGEST_SHORT_MS = 3_600_000;
/** Part of a short window that an app beyond its share leaves free. */
const HEADROOM = 0.1;
/** Of its share, a listed app is likely to need at least this part. */
const LEAST_NEED = 0.25;
/** An app is likely to need this many times what it used. */
const GROWTH = 2;
/** Larger than any rounding error in a sum of fractions. */
const ROUNDING = 1e-6;

export function isLong({ windowMs }: WindowState): boolean {
  return windowMs > LONGEST_SHORT_MS;
}

/** What the active apps of a window weigh, and what they used. */
interface Active {
  readonly apps: ReadonlySet<string>;
  readonly listed: number;
  readonly ids: number;
  readonly usedByListed: number;
  readonly usedByIds: number;
}

export function sharesIn(situation: Situation): Shares {
  return new SharesNow(situation);
}

class SharesNow implements Shares {
  readonly #situation: Situation;
  readonly #active = new Map<WindowState, Active>();
  readonly #needed = new Map<WindowState, number>();
  readonly #averageAsked: number;
  readonly #short: readonly WindowState[];

  constructor(situation: Situation) {
    const { asked, apps, state } = situation;
    const askedByIds = [...asked].filter(([app]) => !apps.isListed(app)).map(([, count]) => count);
    this.#situation = situation;
    this.#averageAsked = askedByIds.reduce((sum, count) => sum + count, 0) / Math.max(1, askedByIds.length);
    this.#short = state.windows.filter((window) => !isLong(window));
  }

  shareOf(window: WindowState, app: string): number {
    const { listed, ids, group } = this.#weights(window, app);
    const weight = this.#isListed(app) ? this.#weightOf(app) : (group * this.#weightOf(app)) / ids;
    return (window.limit * weight) / (listed + group);
  }

  isBeyond(app: string, ahead?: number): boolean {
    return this.#short.some((window) => this.#isBeyondIn(window, app, ahead));
  }

  isBeyondInFlight(app: string): boolean {
    return this.#isBeyondIn(this.#situation.inFlight, app);
  }

  withinShareAfterMs(window: WindowState, app: string, ahead: number, idsAhead: number): number {
    const until = (used: number, next: number, share: number): number =>
      next <= share ? 0 : (Math.max(0, next - share) * window.windowMs) / Math.max(1, used);
    const used = usedIn(window, app);
    const ownMs = this.isModest(app)
      ? 0
      : until(used, used + ahead + 1, Math.max(1, this.shareOf(window, app)));
    const { listed, usedByIds } = this.#activeIn(window);
    if (this.#isListed(app) || listed === 0) return ownMs;
    const groupShare = this.#groupShareOf(window, app);
    return Math.max(ownMs, until(usedByIds, usedByIds + ahead + idsAhead + 1, groupShare));
  }

  ratio(app: string, to: string): number {
    const [window] = this.#situation.state.windows;
    return window ? this.shareOf(window, app) / this.shareOf(window, to) : 1;
  }

  groupRatio(to: string): number {
    const [window] = this.#situation.state.windows;
    return window ? this.#groupShareOf(window, to) / this.shareOf(window, to) : 1;
  }

  isModest(app: string): boolean {
    return !this.#isListed(app) && (this.#situation.asked.get(app) ?? 0) < this.#averageAsked / 2;
  }

  usedPart(app: string): number {
    const parts = this.#short.map((window) =>
      this.#isListed(app)
        ? usedIn(window, app) / this.shareOf(window, app)
        : this.#activeIn(window).usedByIds / this.#groupShareOf(window, app),
    );
    return Math.max(0, ...parts);
  }

  leave(window: WindowState, { app, priority }: AppCall, ahead = 0): number {
    const { inFlight, reserve } = this.#situation;
    if (window === inFlight) {
      const isModest = priority === "interactive" && !this.#isBeyondIn(window, app, ahead);
      return isModest ? 0 : Math.min(1, window.limit - 1);
    }
    const reserved = priority === "interactive" ? 0 : Math.floor(window.limit * reserve);
    const leftTo = isLong(window)
      ? this.#leaveInLong(window, app, ahead)
      : this.#leaveInShort(window, app, ahead);
    return Math.max(reserved, leftTo);
  }

  #isListed(app: string): boolean {
    return this.#situation.apps.isListed(app);
  }

  #weightOf(app: string): number {
    return this.#situation.apps.weightOf(app);
  }

  #hasListed(): boolean {
    return this.#situation.apps.listed().length > 0;
  }

  #activeIn(window: WindowState): Active {
    const { asked, apps } = this.#situation;
    const active = this.#active.get(window) ?? count(window, asked, apps);
    this.#active.set(window, active);
    return active;
  }

  /** @returns the weights of the listed apps, of the unlisted ids, and of their group, with this app among the active ones */
  #weights(window: WindowState, app: string): Record<"listed" | "ids" | "group", number> {
    const active = this.#activeIn(window);
    const joins = active.apps.has(app) ? 0 : this.#weightOf(app);
    const listed = active.listed + (this.#isListed(app) ? joins : 0);
    const ids = active.ids + (this.#isListed(app) ? 0 : joins);
    return { listed, ids, group: listed > 0 ? Math.min(ids, listed) : ids };
  }

  #groupShareOf(window: WindowState, app: string): number {
    const { listed, group } = this.#weights(window, app);
    return (window.limit * group) / (listed + group);
  }

  #isBeyondIn(window: WindowState, app: string, ahead = 0): boolean {
    const share = this.shareOf(window, app);
    if (share >= window.limit) return false;
    const used = usedIn(window, app) + ahead;
    // Rounded up, and down for the group, so that a listed app never loses a call to rounding.
    if (this.#isListed(app)) return used > share;
    const { listed, usedByIds } = this.#activeIn(window);
    const isGroupUsed = listed > 0 && usedByIds + ahead + 1 > this.#groupShareOf(window, app);
    return isGroupUsed || (!this.isModest(app) && used >= Math.max(1, share));
  }

  /** Calls within their share that wait at other replicas. */
  #wantedElsewhere(window: WindowState, borrower: string): number {
    const left = (app: string): number =>
      Math.max(0, Math.ceil(this.shareOf(window, app) - usedIn(window, app)));
    let [listed, ids] = [0, 0];
    for (const { app, count } of this.#situation.state.waitingElsewhere) {
      if (app === borrower || this.#isBeyondIn(window, app)) continue;
      if (this.#isListed(app)) listed += Math.min(count, left(app));
      else ids += Math.min(count, left(app));
    }
    const leftOfGroup = this.#groupShareOf(window, borrower) - this.#activeIn(window).usedByIds;
    return listed + Math.max(0, Math.min(ids, Math.floor(leftOfGroup)));
  }

  #leaveInShort(window: WindowState, app: string, ahead: number): number {
    const mayBecomeBeyond =
      this.#hasListed() && !this.#isListed(app) && this.shareOf(window, app) >= window.limit;
    if (!mayBecomeBeyond && !this.#isBeyondIn(window, app, ahead)) return 0;
    return Math.round(window.limit * HEADROOM) + this.#wantedElsewhere(window, app);
  }

  /** What the other apps are likely to need until the end of a long window. */
  #leaveInLong(window: WindowState, app: string, ahead: number): number {
    const { usedByListed } = this.#activeIn(window);
    const forListed =
      this.#hasListed() && !this.#isListed(app)
        ? Math.ceil(window.limit * (1 - this.#situation.apps.unlistedShare())) - usedByListed
        : 0;
    if (usedIn(window, app) + ahead < this.shareOf(window, app)) return Math.max(0, forListed);
    const isCounted = this.#isListed(app) || this.#activeIn(window).apps.has(app);
    const needed = this.#neededIn(window) - (isCounted ? this.#neededBy(window, app) : 0);
    return Math.max(Math.ceil(needed - ROUNDING), forListed);
  }

  /** What all apps together are likely to need in a long window. */
  #neededIn(window: WindowState): number {
    let needed = this.#needed.get(window);
    if (needed === undefined) {
      needed = 0;
      for (const app of new Set([...this.#activeIn(window).apps, ...this.#situation.apps.listed()]))
        needed += this.#neededBy(window, app);
      this.#needed.set(window, needed);
    }
    return needed;
  }

  #neededBy(window: WindowState, app: string): number {
    const [share, used] = [this.shareOf(window, app), usedIn(window, app)];
    const least = this.#isListed(app) ? share * LEAST_NEED : 0;
    return Math.max(0, Math.min(share, Math.max(used * GROWTH, least)) - used);
  }
}

function count(window: WindowState, asked: ReadonlyMap<string, number>, apps: AppRules): Active {
  const active = new Set(asked.keys());
  for (const [app, used] of window.byApp) if (used > 0) active.add(app);
  let [listed, ids, usedByListed, usedByIds] = [0, 0, 0, 0];
  for (const app of active) {
    if (apps.isListed(app)) {
      listed += apps.weightOf(app);
      usedByListed += usedIn(window, app);
    } else {
      ids += apps.weightOf(app);
      usedByIds += usedIn(window, app);
    }
  }
  return { apps: active, listed, ids, usedByListed, usedByIds };
}

export function usedIn({ byApp }: WindowState, app: string): number {
  return byApp.get(app) ?? 0;
}
