import { setImmediate } from "node:timers/promises";

import type { LedgerGap, LedgerReader } from "./ledger.ts";
import { createUsage, gapsIn, longestWindowMs, type Usage, type UsageOptions } from "./usage.ts";

export interface UsageReport extends Usage {
  /**
   * Epoch milliseconds: present where the report counts on an earlier time, in its period or in the longest
   * window before it, and so may count too little.
   */
  readonly completeSince?: number;
  /** Calls that were sent in the period, or in the longest window before it, and are not counted. Absent: none. */
  readonly gaps?: readonly LedgerGap[];
}

export interface UsageReportOptions extends UsageOptions {
  readonly ledger: LedgerReader;
}

/** Reads a period of the ledger. Rejects with `StoreUnavailable` where it cannot be read. */
export async function reportUsage(options: UsageReportOptions): Promise<UsageReport> {
  const { ledger, from, to } = options;
  const usage = createUsage(options);
  const before = ledger.gaps?.() ?? [];
  for await (const lines of ledger.read(usage.readFrom, to)) {
    usage.add(lines);
    // A long period is not to hold up the callers.
    await setImmediate();
  }
  // After reading: what was dropped meanwhile may be missing.
  const completeSince = await ledger.completeSince();
  const reachesBackTo = from - longestWindowMs(options);
  // Before and after: the lines that close a gap while we read may come too late to be counted.
  const gaps = gapsIn(latestOf([...before, ...(ledger.gaps?.() ?? [])]), options);
  return {
    ...usage.finish(gaps),
    ...(reachesBackTo < completeSince && { completeSince }),
    ...(gaps.length > 0 && { gaps }),
  };
}

/** Of a gap that is there twice, the later one has all its calls. */
function latestOf(gaps: readonly LedgerGap[]): LedgerGap[] {
  return [...new Map(gaps.map((gap) => [`${gap.origin} ${gap.from}`, gap])).values()];
}
