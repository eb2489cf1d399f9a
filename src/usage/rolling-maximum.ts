/**
 * Finds the fullest windows of a period, and whether the limits permitted them.
 *
 * Limits can change while the gateway runs, and the ledger stores each call with the limits that permitted it. When a
 * call arrives, the window that ends then is judged by the highest limit of the calls in it.
 */
import { instantOf, type LedgerLine } from "./ledger-line.ts";
import { limitsIn, type RateWindow } from "./rate-window.ts";

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
  /** Whether no window exceeded the limit of its time. If a call's limits are unknown, the present ones apply. */
  readonly kept: boolean;
  /** Present if calls of the period were permitted under another limit than the present one. Absent limit: there was none. */
  readonly limits?: readonly (number | undefined)[];
}

/** A call as one number: its instant in milliseconds times this, and the index of its limits. */
const MOST_LIMITS = 1_024;

interface Period {
  readonly from: number;
  readonly to: number;
}

/** The instants of an origin's calls, with their limits. */
export class Instants {
  /** The texts of the limits, in the order in which they were first seen. */
  readonly #limits: string[] = [];
  readonly #calls: number[] = [];

  add(line: LedgerLine): void {
    let index = this.#limits.indexOf(line.limits);
    if (index === -1) index = this.#limits.push(line.limits) - 1;
    this.#calls.push(Math.floor(instantOf(line)) * MOST_LIMITS + Math.min(index, MOST_LIMITS - 1));
  }

  /** @param period epoch milliseconds: `from` is in it, `to` is not */
  measure(windows: readonly RateWindow[], period: Period): WindowUsage[] {
    const sorted = Float64Array.from(this.#calls).sort();
    const limits = this.#limits.map(limitsIn);
    return windows.map((window) => {
      const limitOf = limits.map((some) => (some === undefined ? window.limit : some.get(window.windowMs)));
      return measureOne(sorted, window, limitOf, period);
    });
  }
}

/** @param limitOf the limit of this window by the index of a call's limits; absent: there was no such limit */
function measureOne(
  sorted: Float64Array,
  { name, limit, windowMs }: RateWindow,
  limitOf: readonly (number | undefined)[],
  { from, to }: Period,
): WindowUsage {
  /** How many calls of the window were permitted under each of the limits. */
  const counts = limitOf.map(() => 0);
  const highs = limitOf.map((one) => one ?? Number.POSITIVE_INFINITY);
  const lowest = Math.min(...highs);
  /** The window has the calls from `first` to before `next`. */
  let first = 0;
  let next = 0;
  let maximum = 0;
  let reachedAt: number | undefined;
  let kept = true;

  function count(call: number | undefined, by: number): void {
    const index = (call ?? 0) % MOST_LIMITS;
    counts[index] = (counts[index] ?? 0) + by;
  }

  /** Measures the window that ends at this instant. */
  function measure(instant: number): void {
    while (instantIn(sorted[next]) <= instant) count(sorted[next++], 1);
    while (first < next && instantIn(sorted[first]) <= instant - windowMs) count(sorted[first++], -1);
    const held = next - first;
    if (held > maximum) {
      maximum = held;
      reachedAt = instant;
    }
    if (kept && held > lowest) kept = highs.some((high, index) => (counts[index] ?? 0) > 0 && held <= high);
  }

  // The fullest window may be the one that ends when the period begins.
  measure(from);
  const used = new Set<number | undefined>();
  for (const call of sorted) {
    const instant = instantIn(call);
    if (instant < from || instant >= to) continue;
    used.add(limitOf[call % MOST_LIMITS]);
    measure(instant);
  }
  const hadOthers = [...used].some((one) => one !== limit);
  return { name, limit, maximum, reachedAt, kept, ...(hadOthers && { limits: [...used] }) };
}

function instantIn(call: number | undefined): number {
  return Math.floor((call ?? Number.NaN) / MOST_LIMITS);
}
