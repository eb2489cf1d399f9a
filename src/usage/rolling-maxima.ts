/**
 * Finds the fullest windows of a period, and whether the limits permitted them.
 *
 * Limits can change while the gateway runs. So each window is judged by the limits under which its last call was
 * permitted. When that call was permitted, all other calls of the window had already been permitted, and none had
 * left the window. So it was permitted only if all of them together did not exceed its limit. Earlier limits, and
 * limits that changed while the call was on its way, do not matter.
 */
import { LONGEST_ARRIVAL_MS, type LedgerLine } from "./ledger.ts";
import { limitsIn, type RateWindow } from "./rate-window.ts";

/** A limit under which calls of the period were permitted. */
interface LimitUsage {
  /** Absent if no window of this length was set. */
  readonly limit: number | undefined;
  /**
   * Epoch milliseconds: when the first and the last of these calls counted. The times of two limits may overlap, because
   * replicas change their limits one after the other.
   */
  readonly from: number;
  readonly until: number;
}

/** How much of a limit was used. */
export interface WindowUsage {
  /** Such as `1m`, or `images/1m` for images. */
  readonly name: string;
  /** The present limit. */
  readonly limit: number;
  /**
   * The most calls in any window of this length that ended within the period. The window may have begun before
   * the period. Two calls exactly its length apart are never in the same window.
   */
  readonly maximum: number;
  /** Epoch milliseconds: the end of the first window with `maximum` calls; absent if there were no calls. */
  readonly reachedAt: number | undefined;
  /**
   * Whether no window exceeded the limit of its time. If a call's limits are unknown, the present ones apply. `null`: it
   * is unknown, because calls are missing from the ledger (`LedgerGap`).
   */
  readonly kept: boolean | null;
  /** Present if calls of the period were permitted under another limit than the present one: the latest ones, by `from`. */
  readonly limits?: readonly LimitUsage[];
}

export interface RollingMaxima {
  /**
   * Add lines in the order of their permits. No line may count more than `LONGEST_ARRIVAL_MS` before the permit of a line
   * that was added earlier.
   */
  readonly add: (instant: number, line: Pick<LedgerLine, "at" | "limits">) => void;
  readonly finish: () => WindowUsage[];
}

/** A call, as it counts. */
interface Counted {
  readonly instant: number;
  /** Its number in the order of permits. */
  readonly number: number;
  /** The limits under which it was permitted, by the length of the window; absent if unknown. */
  readonly limits: ReadonlyMap<number, number> | undefined;
}

interface Peak {
  readonly window: RateWindow;
  /** The instants of the calls in the window, oldest first, after some that have left it. */
  instants: number[];
  /** The index of the oldest one in the window. */
  first: number;
  /** The call in the window that was permitted last, followed by the calls that will be the last one when it has left. */
  readonly last: Counted[];
  /** In the order in which calls first counted under them. */
  readonly limits: Map<number | undefined, { readonly from: number; until: number }>;
  maximum: number;
  reachedAt: number | undefined;
  kept: boolean;
}

/** Instants are sorted a few thousand at a time. */
const MOST_UNORDERED = 4_096;
/** Calls that have left a window are dropped when there are more of them than this. */
const MOST_LEFT = 1_024;
/** The most limits that are reported for one window. */
const MOST_LIMITS = 10;

/**
 * Lines are added in the order of their permits, but count from their arrival, which is another order. So each instant
 * is held back until no earlier one can follow.
 *
 * @param period epoch milliseconds: `from` is in it, `to` is not
 */
export function createRollingMaxima(
  windows: readonly RateWindow[],
  { from, to }: { readonly from: number; readonly to: number },
): RollingMaxima {
  const peaks = windows.map(peakOf);
  const read = createLimitsReader();
  const unordered: Counted[] = [];
  let putInOrderAt = MOST_UNORDERED;
  let latest = Number.NEGATIVE_INFINITY;
  let added = 0;
  let begun = false;

  /** The fullest window may be the one that ends when the period begins. */
  function begin(): void {
    if (!begun) for (const peak of peaks) measure(peak, from);
    begun = true;
  }

  function count(send: Counted): void {
    if (send.instant >= to) return;
    if (send.instant >= from) begin();
    for (const peak of peaks) {
      enter(peak, send);
      if (send.instant < from) continue;
      noteLimit(peak, send);
      measure(peak, send.instant);
    }
  }

  function countUntil(end: number): void {
    unordered.sort((one, other) => one.instant - other.instant || one.number - other.number);
    const after = unordered.findIndex(({ instant }) => instant > end);
    const ordered = unordered.splice(0, after === -1 ? unordered.length : after);
    for (const send of ordered) count(send);
  }

  return {
    add(instant, { at, limits }) {
      unordered.push({ instant, number: added++, limits: read(limits) });
      latest = Math.max(latest, at);
      if (unordered.length < putInOrderAt) return;
      countUntil(latest - LONGEST_ARRIVAL_MS);
      putInOrderAt = 2 * unordered.length + MOST_UNORDERED;
    },
    finish() {
      countUntil(Number.POSITIVE_INFINITY);
      begin();
      return peaks.map(usageOf);
    },
  };
}

function peakOf(window: RateWindow): Peak {
  return {
    window,
    instants: [],
    first: 0,
    last: [],
    limits: new Map(),
    maximum: 0,
    reachedAt: undefined,
    kept: true,
  };
}

/** Parses each text of limits once, because many lines have the same few texts. */
function createLimitsReader(): typeof limitsIn {
  const known = new Map<string, ReturnType<typeof limitsIn>>();
  return (text) => {
    if (!known.has(text)) known.set(text, limitsIn(text));
    return known.get(text);
  };
}

function enter(peak: Peak, send: Counted): void {
  const { instants, last } = peak;
  instants.push(send.instant);
  while ((last.at(-1)?.number ?? Number.POSITIVE_INFINITY) < send.number) last.pop();
  last.push(send);
  leave(peak, send.instant);
}

/**
 * Drops the calls that are not in the window that ends now. The window does not include its first instant, so two calls
 * exactly its length apart are never in the same window.
 */
function leave(peak: Peak, now: number): void {
  const { last } = peak;
  const { windowMs } = peak.window;
  while ((peak.instants[peak.first] ?? now) <= now - windowMs) peak.first++;
  // Cutting an array costs its length, so it is done when half of it has left the window.
  if (peak.first > MOST_LEFT && peak.first * 2 > peak.instants.length) {
    peak.instants = peak.instants.slice(peak.first);
    peak.first = 0;
  }
  while ((last[0]?.instant ?? now) <= now - windowMs) last.shift();
}

/** Measures the window that ends now. */
function measure(peak: Peak, now: number): void {
  leave(peak, now);
  const { window, last } = peak;
  const held = peak.instants.length - peak.first;
  if (held > limitOf(window, last[0])) peak.kept = false;
  if (held <= peak.maximum) return;
  peak.maximum = held;
  peak.reachedAt = now;
}

/** The limit under which a call was permitted: infinite if no such window was set, the present one if it is unknown. */
function limitOf({ limit, windowMs }: RateWindow, send: Counted | undefined): number {
  return send?.limits === undefined ? limit : (send.limits.get(windowMs) ?? Number.POSITIVE_INFINITY);
}

function noteLimit({ window, limits }: Peak, { instant, limits: allowedUnder }: Counted): void {
  if (allowedUnder === undefined) return;
  const limit = allowedUnder.get(window.windowMs);
  const noted = limits.get(limit);
  if (noted === undefined) limits.set(limit, { from: instant, until: instant });
  else noted.until = instant;
}

function usageOf({ window: { name, limit }, limits, maximum, reachedAt, kept }: Peak): WindowUsage {
  const hadOthers = [...limits.keys()].some((one) => one !== limit);
  const reported = [...limits]
    .map(([one, { from, until }]): LimitUsage => ({ limit: one, from, until }))
    .slice(-MOST_LIMITS);
  return { name, limit, maximum, reachedAt, kept, ...(hadOthers && { limits: reported }) };
}
