import { setImmediate } from "node:timers/promises";

import type { LedgerGap, LedgerReader } from "./ledger.ts";
import { createUsage, gapsIn, longestWindowMs, type Usage, type UsageOptions } from "./usage.ts";

export interface UsageReport extends Usage {
  /**
   * Epoch milliseconds. Present if the report needs lines from before, for its period or the longest window before
   * it, and so may count too little.
   */
  readonly completeSince?: number;
  /** Calls that were sent in the period, or in the longest window before it, and are not counted. Absent: none. */
  readonly gaps?: readonly LedgerGap[];
}

export interface UsageReportOptions extends UsageOptions {
  readonly ledger: LedgerReader;
}

/** Reads a period of the ledger. Rejects with `StoreUnavailable` if it cannot be read. */
export async function reportUsage(options: UsageReportOptions): Promise<UsageReport> {
  const { ledger, from, to } = options;
  const usage = createUsage(options);
  const before = ledger.gaps?.() ?? [];
  for await (const lines of ledger.read(usage.readFrom, to)) {
    usage.add(lines);
    // Serves waiting callers, because a long period takes time.
    await setImmediate();
  }
  // Read after the lines, because lines may have been dropped meanwhile.
  const completeSince = await ledger.completeSince();
  const reachesBackTo = from - longestWindowMs(options);
  // The gaps before and after reading. The lines that close a gap meanwhile may have been written too late to be read.
  const gaps = gapsIn(latestOf([...before, ...(ledger.gaps?.() ?? [])]), options);
  return {
    ...usage.finish(gaps),
    ...(reachesBackTo < completeSince && { completeSince }),
    ...(gaps.length > 0 && { gaps }),
  };
}

/** @returns each gap once, in its latest version */
function latestOf(gaps: readonly LedgerGap[]): LedgerGap[] {
  return [...new Map(gaps.map((gap) => [`${gap.origin} ${gap.from}`, gap])).values()];
}
