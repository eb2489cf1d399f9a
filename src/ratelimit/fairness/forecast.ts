/**
 * When a call is likely to get its permit: the calls that go before it by the fair order, and the instants at which permits
 * become free. Pure. docs/fairness.md explains the rules.
 */
import { PRIORITIES } from "../../telemetry/events.ts";
import type { AppCall } from "../throttled.ts";
import { dayFreeAt, type PlannedCall, ROUNDING, type Situation } from "./shares.ts";

/** A call that waits, or that a caller was told to come back for. */
export interface Queued extends AppCall {
  /** Its caller asks for it at this instant, and it is likely to get its permit at that one. Monotonic milliseconds. */
  readonly from: number;
  readonly dueAt: number;
  /** How many calls it counts as. */
  readonly weight: number;
}

/** `Retry-After` is in whole seconds, so callers come back up to so long after their permit is free. */
const ROUNDED_MS = 1_000;

/** If more permits become free one after the other, only some of these instants are looked at. */
const MOST_INSTANTS = 200;

/** Another app, and its calls that may go before the call. */
interface Other {
  readonly queued: readonly Queued[] | undefined;
  /** How many calls it asks for in a minute. */
  readonly asked: number;
  readonly used: number;
  readonly share: number;
}

export class Forecast {
  readonly situation: Situation;
  readonly #call: PlannedCall;
  readonly #queued: readonly Queued[];
  readonly #urgent: readonly Queued[];
  /** The calls that are as urgent, by app. */
  readonly #equal: ReadonlyMap<string, readonly Queued[]>;
  readonly #listed: readonly Other[];
  readonly #ids: readonly Other[];

  /** @param queued the calls that may go before the call */
  constructor(situation: Situation, call: PlannedCall, queued: readonly Queued[] = []) {
    const rank = ({ priority }: AppCall): number => PRIORITIES.indexOf(priority);
    this.situation = situation;
    this.#call = call;
    this.#queued = queued;
    this.#urgent = queued.filter((one) => rank(one) < rank(call));
    const equal = queued.filter((one) => one.priority === call.priority);
    this.#equal = Map.groupBy(equal, ({ app }) => app);
    const { turns, apps, asked } = situation;
    const others = new Set([...asked.keys(), ...this.#equal.keys()]);
    others.delete(call.app);
    const ofApps = (isListed: boolean): Other[] =>
      [...others]
        .filter((app) => apps.isListed(app) === isListed)
        .map((app) => {
          const share = turns.of(app);
          const used = turns.usedParts(app)[1] * share;
          return { queued: this.#equal.get(app), asked: asked.get(app) ?? 0, used, share };
        });
    this.#listed = ofApps(true);
    this.#ids = ofApps(false);
  }

  /** The first instant at which the call is likely to get a permit and takes it from no caller that was told to come back. */
  earliest(): number {
    const { now, windows } = this.situation;
    const start = Math.max(now, dayFreeAt(this.#call.app, this.situation));
    const promised = (this.#equal.get(this.#call.app) ?? []).filter(({ from }) => from > now);
    const tight = promised.map(({ from }) => ({ from, lacks: this.#lacksAt(from) }));
    const isFree = (at: number): boolean => {
      const lacks = this.#lacksAt(at);
      const wouldLose = (index: number, spanMs: number): boolean =>
        tight.some((one) => one.lacks[index] === true && one.from > at && one.from < at + spanMs);
      return windows.every(({ window }, index) => lacks[index] === false && !wouldLose(index, window.spanMs));
    };
    const freed = windows.flatMap((shares) => shares.instants());
    // The permits of these calls are free again a window later.
    const again = windows.flatMap(({ window: { spanMs } }) =>
      this.#queued.map(({ dueAt }) => dueAt + spanMs),
    );
    const later = [...freed, ...again].filter((at) => at > start).toSorted((a, b) => a - b);
    const step = Math.ceil(later.length / MOST_INSTANTS);
    const instants = [start, ...later.filter((_, index) => (index + 1) % step === 0)];
    return instants.find(isFree) ?? (later.at(-1) ?? start) + 1_000;
  }

  /** Whether the call waits because its app has used up its share. */
  isHeldBack(): boolean {
    const { now, windows } = this.situation;
    return windows.some((shares) => {
      const { remaining, spanMs } = shares.window;
      const { ofApp, ofIds } = this.#aheadAt(now, spanMs);
      return shares.isLong
        ? remaining > 0 && remaining <= shares.leave(this.#call, now, ofApp, ofIds)
        : shares.isBeyond(this.#call.app, now, ofApp, ofIds);
    });
  }

  /** For each window, whether permits are missing at an instant. */
  #lacksAt(at: number): boolean[] {
    return this.situation.windows.map((shares) => {
      const { all, ofApp, ofIds } = this.#aheadAt(at, shares.window.spanMs);
      return Math.round(all) + 1 + shares.leave(this.#call, at, ofApp, ofIds) > shares.freeAt(at);
    });
  }

  /** How many calls that go before the call count at an instant: all, those of its app, and those of all unlisted ids. */
  #aheadAt(at: number, spanMs: number): Record<"all" | "ofApp" | "ofIds", number> {
    const { turns, apps, now } = this.situation;
    const { app } = this.#call;
    const dueOf = (queued: readonly Queued[] = []): number => {
      let sum = 0;
      for (const { from, dueAt, weight } of queued)
        if (from <= at + ROUNDED_MS && dueAt > at - spanMs) sum += weight;
      return sum;
    };
    // A call that is due goes before calls that come later.
    const minutes = this.#call.isDue === true ? 0 : Math.min(at - now, spanMs) / 60_000;
    /** The calls of others that go before their app, or their group, has used this part of its share. */
    const before = (part: number, others: readonly Other[]): number => {
      let sum = 0;
      for (const { queued, asked, used, share } of others)
        // Other apps go on asking.
        sum += within(
          Math.max(dueOf(queued), asked * minutes),
          Math.floor(part * share - used + ROUNDING) + 1,
        );
      return sum;
    };
    const ofApp = dueOf(this.#equal.get(app));
    const urgent = dueOf(this.#urgent);
    if (apps.isListed(app)) {
      const [part] = turns.usedParts(app, ofApp);
      const ofIds = within(before(Number.POSITIVE_INFINITY, this.#ids), turns.callsOfIdsUpTo(part));
      return { all: urgent + ofApp + before(part, this.#listed) + ofIds, ofApp, ofIds };
    }
    const ofIds = ofApp + before(turns.usedParts(app, ofApp)[1], this.#ids);
    const [part] = turns.usedParts(app, ofApp, ofIds);
    return { all: urgent + ofIds + before(part, this.#listed), ofApp, ofIds };
  }
}

function within(most: number, calls: number): number {
  return Math.max(0, Math.min(most, calls));
}
