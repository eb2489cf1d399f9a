/** Finds the fullest windows of a period, and whether the limits permitted them. Limits can change while the gateway runs. */
import { limitIn, type RateWindow } from "./rate-window.ts";

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
  /** Whether no window exceeded the limit. `unknown`: the limit has changed, and the maximum exceeds one of the limits only. */
  readonly kept: boolean | "unknown";
  /** Present if calls were permitted under another limit than the present one. Infinite: there was none. */
  readonly limits?: readonly number[];
}

/** The instants of an origin's calls in epoch milliseconds, by the text of the limits that permitted them. */
export type CallsByLimits = ReadonlyMap<string, readonly number[]>;

interface Period {
  readonly from: number;
  readonly to: number;
}

/** @param period epoch milliseconds: `from` is in it, `to` is not */
export function measure(calls: CallsByLimits, windows: readonly RateWindow[], period: Period): WindowUsage[] {
  const sorted = Float64Array.from([...calls.values()].flat()).sort();
  return windows.map((window) => {
    const { name, limit, windowMs } = window;
    const { maximum, reachedAt } = fullest(sorted, windowMs, period);
    const isMeasured = (at: number): boolean => at > period.from - windowMs && at < period.to;
    const texts = [...calls].filter(([, instants]) => instants.some(isMeasured)).map(([text]) => text);
    const limits = [...new Set(texts.map((text) => limitIn(text, window)))];
    const isKept = maximum <= Math.min(...limits);
    const kept = isKept || maximum > Math.max(...limits) ? isKept : "unknown";
    const hadOthers = limits.some((one) => one !== limit);
    return { name, limit, maximum, reachedAt, kept, ...(hadOthers && { limits }) };
  });
}

function fullest(sorted: Float64Array, windowMs: number, { from, to }: Period) {
  /** The window has the calls from `first` to before `next`. */
  let first = 0;
  let next = 0;
  let maximum = 0;
  let reachedAt: number | undefined;
  for (const at of sorted) {
    if (at >= to) break;
    // The fullest window may be the one that ends when the period begins.
    const end = Math.max(at, from);
    while ((sorted[next] ?? Number.POSITIVE_INFINITY) <= end) next++;
    while (first < next && (sorted[first] ?? 0) <= end - windowMs) first++;
    if (next - first > maximum) [maximum, reachedAt] = [next - first, end];
  }
  return { maximum, reachedAt };
}
