/** The share of each app in each window, and what it is likely to need of it. Pure. docs/fairness.md explains the rules. */
import type { Apps } from "../apps.ts";
import type { LimiterState, WindowState } from "../limiter.ts";

/** What a decision is based on. */
export interface Situation {
  readonly state: LimiterState;
  /** The calls in flight of this process, as a window. */
  readonly inFlight: WindowState;
  /** The apps that were seen in the last minute, and how many calls each asks for in a minute, refused ones included. */
  readonly asked: ReadonlyMap<string, number>;
  readonly apps: Pick<Apps, "weightOf" | "isListed" | "listed" | "perDayOf" | "unlistedShare">;
  /** Part of each window that only interactive calls may use. */
  readonly reserve: number;
  /** Monotonic milliseconds. */
  readonly now: number;
}

/** Calls that apps are likely to need in a window, and how many of them they have used. */
interface Need {
  readonly need: number;
  readonly met: number;
}

/** Windows up to this length are shared by turns. */
const LONGEST_SHORT_MS = 3_600_000;
/** Of its share of a long window, a listed app is likely to need at least this part. */
const LEAST_NEED = 0.25;
/** Of a long window, an app is likely to need this many times what it used. */
const GROWTH = 2;
/** Of a short window, an app is likely to need this many times what it asks. */
const SWING = 3;
/** An unlisted id that asks for more than this many times its share is greedy. */
const GREEDY = 2;
const ASKED_MS = 60_000;

export function isLong({ windowMs }: WindowState): boolean {
  return windowMs > LONGEST_SHORT_MS;
}

export class Shares {
  readonly #situation: Situation;
  readonly #window: WindowState;
  readonly #active: ReadonlySet<string>;
  readonly #weights = { listed: 0, ids: 0 };
  #needOfAll: Need | undefined;

  constructor(situation: Situation, window: WindowState) {
    const { asked, apps } = situation;
    const active = new Set(asked.keys());
    for (const [app, used] of window.byApp) if (used > 0) active.add(app);
    // All listed apps are active in a long window, because it cannot be divided again when one of them comes late.
    if (isLong(window)) for (const app of apps.listed()) active.add(app);
    for (const app of active) this.#weights[apps.isListed(app) ? "listed" : "ids"] += apps.weightOf(app);
    this.#situation = situation;
    this.#window = window;
    this.#active = active;
  }

  /** An app's share, in calls. */
  of(app: string): number {
    const { isListed, weightOf } = this.#situation.apps;
    const { listed, ids, group } = this.#weightsWith(app);
    const weight = isListed(app) ? weightOf(app) : (group * weightOf(app)) / ids;
    return (this.#window.limit * weight) / (listed + group);
  }

  /** The share of all unlisted ids together, in calls, with this app among the active ones. */
  ofGroup(app: string): number {
    const { listed, group } = this.#weightsWith(app);
    return (this.#window.limit * group) / (listed + group);
  }

  /** Whether an unlisted id asks for much more than its share, and not much less than the average id. */
  isGreedy(app: string): boolean {
    const { apps, asked } = this.#situation;
    if (apps.isListed(app)) return false;
    const count = asked.get(app) ?? 0;
    const byIds = [...asked].flatMap(([other, calls]) => (apps.isListed(other) ? [] : [calls]));
    const average = byIds.reduce((sum, calls) => sum + calls, 0) / Math.max(1, byIds.length);
    const wanted = (count * this.#window.windowMs) / ASKED_MS;
    return count >= average / 2 && wanted > GREEDY * this.of(app);
  }

  /** What the other apps are likely to need of their shares in a whole window, and how much of that they have used. */
  othersOf(app: string): Need {
    this.#needOfAll ??= this.#sumOfNeeds();
    if (!this.#active.has(app)) return this.#needOfAll;
    const own = this.#needOf(app);
    return { need: this.#needOfAll.need - own.need, met: this.#needOfAll.met - own.met };
  }

  #sumOfNeeds(): Need {
    const sum = { need: 0, met: 0 };
    for (const app of this.#active) {
      const { need, met } = this.#needOf(app);
      sum.need += need;
      sum.met += met;
    }
    return sum;
  }

  #needOf(app: string): Need {
    const { asked, apps } = this.#situation;
    const { byApp, windowMs } = this.#window;
    const [share, used] = [this.of(app), byApp.get(app) ?? 0];
    const least = apps.isListed(app) ? share * LEAST_NEED : 0;
    const likely = isLong(this.#window)
      ? Math.max(used * GROWTH, least)
      : ((asked.get(app) ?? 0) * SWING * windowMs) / ASKED_MS;
    const need = Math.min(share, likely);
    return { need, met: Math.min(need, used) };
  }

  /** @returns the weights of the listed apps, of the unlisted ids, and of their group, with this app among the active ones */
  #weightsWith(app: string): Record<"listed" | "ids" | "group", number> {
    const { weightOf, isListed } = this.#situation.apps;
    const joins = this.#active.has(app) ? 0 : weightOf(app);
    const listed = this.#weights.listed + (isListed(app) ? joins : 0);
    const ids = this.#weights.ids + (isListed(app) ? 0 : joins);
    return { listed, ids, group: listed > 0 ? Math.min(ids, listed) : ids };
  }
}
