/**
 * Gaps of the ledger: calls that were sent but could not be written, for example because the disk was full. Only
 * the number and the period of these calls are known.
 */
import { ORIGINS, type OriginName } from "../types.ts";
import { instantOf, type LedgerGap, type LedgerLine } from "./ledger.ts";

/** Counts the calls of this process that are not in the ledger, or not yet. */
export interface UnwrittenCalls {
  readonly add: (origin: OriginName, at: number) => void;
  /** A call is in the ledger now. */
  readonly written: (origin: OriginName) => void;
  /** A call arrived upstream at this instant. It may be an unwritten one, so the gaps extend to this instant. */
  readonly arrived: (at: number) => void;
  readonly gaps: () => readonly LedgerGap[];
}

export function createUnwrittenCalls(): UnwrittenCalls {
  const gaps = new Map<OriginName, LedgerGap>();
  return {
    add(origin, at) {
      const { from, to, sends } = gaps.get(origin) ?? { from: at, to: at, sends: 0 };
      gaps.set(origin, { origin, from: Math.min(from, at), to: Math.max(to, at), sends: sends + 1 });
    },
    written(origin) {
      const gap = gaps.get(origin);
      if (gap === undefined) return;
      if (gap.sends === 1) gaps.delete(origin);
      else gaps.set(origin, { ...gap, sends: gap.sends - 1 });
    },
    arrived(at) {
      for (const [origin, gap] of gaps) gaps.set(origin, { ...gap, to: Math.max(gap.to, at) });
    },
    gaps: () => [...gaps.values()],
  };
}

/**
 * Merges the oldest gaps of an origin until at most `most` gaps are left. A merged gap counts at the latest instant of
 * its parts, so it never restricts less than they do.
 */
export function mergeGaps(gaps: readonly LedgerGap[], most: number): LedgerGap[] {
  const left = gaps.toSorted((one, other) => one.to - other.to);
  while (left.length > Math.max(most, ORIGINS.length)) {
    const first = left.findIndex((gap, index) => hasLater(left, gap.origin, index));
    const second = left.findIndex((gap, index) => index > first && gap.origin === left[first]?.origin);
    const [older, newer] = [left[first], left[second]];
    if (older === undefined || newer === undefined) break;
    left[second] = {
      ...newer,
      from: Math.min(older.from, newer.from),
      sends: older.sends + newer.sends,
    };
    left.splice(first, 1);
  }
  return left;
}

function hasLater(gaps: readonly LedgerGap[], origin: OriginName, index: number): boolean {
  return gaps.some((gap, other) => other > index && gap.origin === origin);
}

/** Adds the calls of the gaps, as calls that were sent at the latest possible instant. */
export function withGaps(
  lines: readonly LedgerLine[],
  gaps: readonly LedgerGap[],
  { origin, since }: { readonly origin: OriginName; readonly since: number },
): readonly LedgerLine[] {
  const counting = gaps.filter((gap) => gap.origin === origin && gap.to >= since);
  return [...lines, ...counting.flatMap(linesOf)].toSorted((one, other) => instantOf(one) - instantOf(other));
}

/** The lines have no completion, because it is unknown when these calls arrived. The limiter assumes the latest instant. */
function linesOf({ origin, from, to, sends }: LedgerGap): LedgerLine[] {
  return Array.from({ length: sends }, (_, index) => ({
    id: `gap.${origin}.${from}.${index}`,
    origin,
    at: to,
    app: "other",
    resource: origin === "images" ? "images" : "listings",
    cause: "miss",
    query: "",
    limits: "",
    completion: undefined,
  }));
}
