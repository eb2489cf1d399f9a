/**
 * The most that any window of a period held, and whether that was allowed.
 *
 * Limits change while the gateway runs, so what was sent is judged by the limits of the time: a window by those
 * under which the last send in it was allowed. When that one was allowed, all the others had been, and none
 * of them had left the window; so it was allowed only if together they were no more than its limit, whatever
 * the limits were before, or became while it was on its way.
 */
import { LONGEST_ARRIVAL_MS, type LedgerLine } from "./ledger.ts";
import { limitsIn, type RateWindow } from "./rate-window.ts";

/** A limit under which sends of the period were allowed. */
interface LimitUsage {
  /** Absent where no window of this length was set. */
  readonly limit: number | undefined;
  /** Epoch milliseconds: when the first and the last of them counted; replicas may change one after the other. */
  readonly from: number;
  readonly until: number;
}

/** How far a limit was used. */
export interface WindowUsage {
  /** `1m`; of the images `images/1m`. */
  readonly name: string;
  /** As it is set now. */
  readonly limit: number;
  /**
   * The most sends that any window of this length held that ended within the period; it may have begun
   * before. Two sends exactly its length apart are never in one window.
   */
  readonly maximum: number;
  /** Epoch milliseconds: the end of the first window that held so many; absent where none held any. */
  readonly reachedAt: number | undefined;
  /**
   * Whether no window held more than the limit of the time. What was not told its limits is judged by those of now.
   * `null`: nobody knows, because calls are missing from the ledger (`LedgerGap`).
   */
  readonly kept: boolean | null;
  /** Present where sends of the period were allowed under another limit than that of now; the last ones, by `from`. */
  readonly limits?: readonly LimitUsage[];
}

export interface RollingMaxima {
  /** Given lines in the order in which they were allowed; those that follow one are none much earlier. */
  readonly add: (instant: number, line: Pick<LedgerLine, "at" | "limits">) => void;
  readonly finish: () => WindowUsage[];
}

/** A send, as it counts. */
interface Counted {
  readonly instant: number;
  /** Which one it was to be allowed. */
  readonly number: number;
  /** Under which limits, by the length of the window; absent where that is not known. */
  readonly limits: ReadonlyMap<number, number> | undefined;
}

interface Peak {
  readonly window: RateWindow;
  /** Instants of the sends in the window, oldest first, and a few that have left it. */
  instants: number[];
  /** Index of the oldest that is in the window. */
  first: number;
  /** Of those in the window, the one that was allowed last; and after it those that will be when it has left. */
  readonly last: Counted[];
  /** In the order in which sends first counted under them. */
  readonly limits: Map<number | undefined, { readonly from: number; until: number }>;
  maximum: number;
  reachedAt: number | undefined;
  kept: boolean;
}

/** Instants are put in order a few thousand at a time. */
const MOST_UNORDERED = 4_096;
/** Sends that have left a window are dropped when there are more. */
const MOST_LEFT = 1_024;
/** More limits than this are not told of one window. */
const MOST_LIMITS = 10;

/**
 * Lines come by when they were allowed to go and count from when they arrived, which is another order. So
 * instants are held back until none can come any more that is earlier.
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

  /** What was spent when the period began may be the most, though nothing was sent in it. */
  function begin(): void {
    if (!begun) for (const peak of peaks) look(peak, from);
    begun = true;
  }

  function count(send: Counted): void {
    if (send.instant >= to) return;
    if (send.instant >= from) begin();
    for (const peak of peaks) {
      enter(peak, send);
      if (send.instant < from) continue;
      noteLimit(peak, send);
      look(peak, send.instant);
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

/** Texts of limits are read once: there are few of them in many lines. */
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

/** Drops what is not in the window that ends now. Its very beginning is not in it: two sends exactly its length apart are in none together. */
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

/** Looks at the window that ends now. */
function look(peak: Peak, now: number): void {
  leave(peak, now);
  const { window, last } = peak;
  const held = peak.instants.length - peak.first;
  if (held > limitOf(window, last[0])) peak.kept = false;
  if (held <= peak.maximum) return;
  peak.maximum = held;
  peak.reachedAt = now;
}

/** The limit that a send was allowed under; none where no such window was set; that of now where nobody knows. */
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
  const wereOthers = [...limits.keys()].some((one) => one !== limit);
  const told = [...limits]
    .map(([one, { from, until }]): LimitUsage => ({ limit: one, from, until }))
    .slice(-MOST_LIMITS);
  return { name, limit, maximum, reachedAt, kept, ...(wereOthers && { limits: told }) };
}
