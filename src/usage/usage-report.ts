import { setImmediate } from "node:timers/promises";

import type { LedgerReader } from "./ledger.ts";
import { createUsage, longestWindowMs, type Usage, type UsageOptions } from "./usage.ts";

export interface UsageReport extends Usage {
  /**
   * Epoch milliseconds: present where the report counts on an earlier time, in its period or in the longest
   * window before it, and so may count too little.
   */
  readonly completeSince?: number;
}

export interface UsageReportOptions extends UsageOptions {
  readonly ledger: LedgerReader;
}

/** Reads a period of the ledger. Rejects with `StoreUnavailable` where it cannot be read. */
export async function reportUsage(options: UsageReportOptions): Promise<UsageReport> {
  const { ledger, from, to } = options;
  const usage = createUsage(options);
  for await (const lines of ledger.read(usage.readFrom, to)) {
    usage.add(lines);
    // A long period is not to hold up the callers.
    await setImmediate();
  }
  // After reading: what was dropped meanwhile may be missing.
  const completeSince = await ledger.completeSince();
  const reachesBackTo = from - longestWindowMs(options);
  return { ...usage.finish(), ...(reachesBackTo < completeSince && { completeSince }) };
}
