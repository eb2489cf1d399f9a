/**
 * When a call is likely to get its permit: the calls that go before it by the fair order, and the instants at which permits
 * become free. Pure. docs/fairness.md explains the rules.
 */
import { urgencyOf } from "../../telemetry/events.ts";
import type { AppCall } from "../call-facts.ts";
import { dayFreeAt, type Shares, type Situation } from "./shares.ts";

/** A call that waits, or that a caller was told to come back for. */
export interface Queued extends AppCall {
  /** When its caller asks for it. Monotonic milliseconds. */
  readonly from: number;
  /** When it is likely to get its permit. Monotonic milliseconds. */
  readonly dueAt: number;
  /** How many calls it counts as. */
  readonly weight: number;
}

/** `Retry-After` is in whole seconds, with a jitter. So callers come back up to so long after their permit is free. */
const ROUNDED_MS = 2_000;

/**
 * Other apps may overtake a call that waits. So many more calls than is likely may go before it: a part of the likely ones, and a
 * number, which is at most a part of the limit.
 */
const MARGIN = { part: 0.5, calls: 2, ofLimit: 0.1 };

/** Permits become free at many instants. At most about this many of them are looked at. */
const MOST_INSTANTS = 200;

/**
 * The first instant at which a call is likely to get a permit and takes it from no caller that was told to come back.
 * @param queued the calls that may go before the call
 * @param isCautious whether more calls of other apps may go before it than is likely
 */
export function earliest(situation: Situation, call: AppCall, queued: Queued[], isCautious = false): number {
  const { now, windows } = situation;
  const aheadAt = aheadOf(situation, call, queued);
  const mayBeOvertaken = isCautious && [...situation.asked.keys()].some((other) => other !== call.app);
  const isFree = (at: number): boolean =>
    windows.every((shares) => {
      const { all, ofApp, ofIds } = aheadAt(at, shares);
      const more = all * MARGIN.part + Math.min(MARGIN.calls, shares.window.limit * MARGIN.ofLimit);
      const before = mayBeOvertaken ? all + more : all;
      return Math.round(before) + 1 + shares.leave(call, at, ofApp, ofIds) <= shares.freeAt(at);
    });
  const start = Math.max(now, dayFreeAt(call.app, situation));
  // The permits of the calls before it are free again a window later.
  const freed = windows.flatMap((shares) => [
    ...shares.instants(),
    ...queued.map(({ dueAt }) => dueAt + shares.window.spanMs),
  ]);
  const later = freed.filter((at) => at > start).toSorted((a, b) => a - b);
  const step = Math.ceil(later.length / MOST_INSTANTS);
  const instants = [start, ...later.filter((_, index) => (index + 1) % step === 0)];
  return instants.find(isFree) ?? (later.at(-1) ?? start) + 1_000;
}

/** Whether a call waits because its app has used up its share. */
export function isHeldBack({ now, windows }: Situation, call: AppCall): boolean {
  return windows.some((shares) => {
    const { remaining } = shares.window;
    return shares.isLong
      ? remaining > 0 && remaining <= shares.leave(call, now)
      : shares.isBeyond(call.app, now);
  });
}

/**
 * @returns a function of an instant and a window. It returns how many calls go before the call, and still count in the window then:
 *   all, those of its app, and those of all unlisted ids.
 */
// oxlint-disable-next-line typescript/explicit-function-return-type
function aheadOf({ turns, apps, asked, now }: Situation, call: AppCall, queued: readonly Queued[]) {
  const urgent = queued.filter(({ priority }) => urgencyOf(priority) < urgencyOf(call.priority));
  const equal = queued.filter(({ priority }) => priority === call.priority);
  const byApp = Map.groupBy(equal, ({ app }) => app);
  const others = [...new Set([...asked.keys(), ...byApp.keys()])].filter((app) => app !== call.app);
  const { listed = [], ids = [] } = Object.groupBy(others, (app) => (apps.isListed(app) ? "listed" : "ids"));
  return (at: number, { isLong, window: { spanMs } }: Shares) => {
    // A permit of a long window that a call takes now is not free again when others come back.
    const soonMs = isLong ? spanMs : ROUNDED_MS;
    const dueOf = (calls: readonly Queued[] = []): number => {
      let sum = 0;
      for (const { from, dueAt, weight } of calls)
        if (from <= at + soonMs && dueAt > at - spanMs) sum += weight;
      return sum;
    };
    // Other apps keep asking.
    const minutes = Math.min(at - now, spanMs) / 60_000;
    const likelyOf = (app: string): number =>
      Math.max(dueOf(byApp.get(app)), (asked.get(app) ?? 0) * minutes);
    /** The likely calls of other apps, each until it has used this part of its share. */
    const before = (part: number, others: readonly string[]): number =>
      others.reduce((sum, app) => sum + Math.min(likelyOf(app), turns.callsUpTo(part, app)), 0);
    const ofApp = dueOf(byApp.get(call.app));
    const [part, partOfOwn] = turns.usedParts(call.app, ofApp);
    if (apps.isListed(call.app)) {
      const ofIds = Math.min(before(Number.POSITIVE_INFINITY, ids), turns.callsOfIdsUpTo(part, call.app));
      return { all: dueOf(urgent) + ofApp + before(part, listed) + ofIds, ofApp, ofIds };
    }
    const ofIds = ofApp + before(partOfOwn, ids);
    const [partOfGroup] = turns.usedParts(call.app, ofApp, ofIds);
    return { all: dueOf(urgent) + ofIds + before(partOfGroup, listed), ofApp, ofIds };
  };
}
