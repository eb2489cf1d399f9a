/**
 * When a call is likely to get its permit: the calls that go before it by the fair order, and the instants at which permits
 * become free. Pure. docs/fairness.md explains the rules.
 */
import { PRIORITIES } from "../../telemetry/events.ts";
import type { AppCall } from "../throttled.ts";
import { dayFreeAt, type PlannedCall, type Situation } from "./shares.ts";

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

export class Forecast {
  readonly situation: Situation;
  readonly #call: PlannedCall;
  readonly #all: readonly Queued[];
  readonly #urgent: readonly Queued[];
  readonly #equal: readonly Queued[];

  /** @param queued the calls that may go before the call */
  constructor(situation: Situation, call: PlannedCall, queued: readonly Queued[] = []) {
    const rank = ({ priority }: AppCall): number => PRIORITIES.indexOf(priority);
    this.situation = situation;
    this.#call = call;
    this.#all = queued;
    this.#urgent = queued.filter((one) => rank(one) < rank(call));
    this.#equal = queued.filter((one) => rank(one) === rank(call));
  }

  /** The first instant at which the call is likely to get a permit and takes it from no caller that was told to come back. */
  earliest(): number {
    const { now, windows } = this.situation;
    const start = Math.max(now, dayFreeAt(this.#call.app, this.situation));
    const promised = this.#equal.filter(({ app, from }) => app === this.#call.app && from > now);
    const tight = promised.map(({ from }) => ({ from, lacks: this.#lacksAt(from) }));
    const isFree = (at: number): boolean => {
      const lacks = this.#lacksAt(at);
      const wouldLose = (index: number, windowMs: number): boolean =>
        tight.some((one) => one.lacks[index] === true && one.from > at && one.from < at + windowMs);
      return windows.every(
        ({ window }, index) => lacks[index] === false && !wouldLose(index, window.windowMs),
      );
    };
    const freed = windows.flatMap((shares) => shares.instants());
    // The permits of these calls are free again a window later.
    const again = windows.flatMap(({ window: { windowMs } }) =>
      this.#all.map(({ dueAt }) => dueAt + windowMs),
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
      const { remaining, windowMs } = shares.window;
      const { ofApp, ofIds } = this.#aheadAt(now, windowMs);
      return shares.isLong
        ? remaining > 0 && remaining <= shares.leave(this.#call, now, ofApp, ofIds)
        : shares.isBeyond(this.#call.app, now, ofApp, ofIds);
    });
  }

  /** For each window, whether permits are missing at an instant. */
  #lacksAt(at: number): boolean[] {
    return this.situation.windows.map((shares) => {
      const { all, ofApp, ofIds } = this.#aheadAt(at, shares.window.windowMs);
      return Math.round(all) + 1 + shares.leave(this.#call, at, ofApp, ofIds) > shares.freeAt(at);
    });
  }

  /** How many calls that go before the call count at an instant: all, those of its app, and those of all unlisted ids. */
  #aheadAt(at: number, windowMs: number): Record<"all" | "ofApp" | "ofIds", number> {
    const isDue = ({ from, dueAt }: Queued): boolean => from <= at + ROUNDED_MS && dueAt > at - windowMs;
    const { turns, apps, asked, now } = this.situation;
    const { app } = this.#call;
    const byApp = new Map<string, number>();
    for (const { app: one, weight } of this.#equal.filter(isDue))
      byApp.set(one, (byApp.get(one) ?? 0) + weight);
    const ofApp = byApp.get(app) ?? 0;
    // Other apps go on asking.
    const minutes = Math.min(at - now, windowMs) / 60_000;
    for (const [one, calls] of asked) byApp.set(one, Math.max(byApp.get(one) ?? 0, calls * minutes));
    byApp.delete(app);
    const ofListed = [...byApp].filter(([one]) => apps.isListed(one));
    const ofOtherIds = [...byApp].filter(([one]) => !apps.isListed(one));
    /** Those that go before the app has used this part of its share. */
    const before = (part: number, calls: typeof ofListed): number =>
      sumOf(calls.map(([one, most]) => within(most, turns.callsUpTo(part, one))));
    const urgent = sumOf(this.#urgent.filter(isDue).map(({ weight }) => weight));
    if (apps.isListed(app)) {
      const [part] = turns.usedParts(app, ofApp);
      const ofIds = within(sumOf(ofOtherIds.map(([, calls]) => calls)), turns.callsUpTo(part));
      return { all: urgent + ofApp + before(part, ofListed) + ofIds, ofApp, ofIds };
    }
    const ofIds = ofApp + before(turns.usedParts(app, ofApp)[1], ofOtherIds);
    const [part] = turns.usedParts(app, ofApp, ofIds);
    return { all: urgent + ofIds + before(part, ofListed), ofApp, ofIds };
  }
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

function within(most: number, calls: number): number {
  return Math.max(0, Math.min(most, calls));
}
