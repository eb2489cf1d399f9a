/** How the usage report counts calls. property/rolling-maximum.test.ts has the windows. */
import { describe, expect, it } from "vitest";

import type { LedgerCompletion, LedgerLine } from "../../../src/usage/ledger-line.ts";
import { reportUsage, type UsageOptions, type UsageReport } from "../../../src/usage/report.ts";
import { ledgerLine } from "../../support/ledger.ts";

const NOON = Date.UTC(2026, 10, 21, 12);
const HOUR_MS = 3_600_000;

async function usageOf(lines: readonly LedgerLine[], by: UsageOptions["by"] = "app"): Promise<UsageReport> {
  const ledger = {
    async *read(from: number, to: number) {
      yield lines.filter(({ at }) => from <= at && at < to);
    },
    completeness: async () => ({ since: 0, hasLost: false }),
  };
  const windows = { api: [{ name: "1m", limit: 3, windowMs: 60_000 }], images: [] };
  return await reportUsage({ ledger, windows, by, from: NOON, to: NOON + HOUR_MS });
}

const ended = (status: LedgerCompletion["status"]): LedgerLine =>
  ledgerLine({ at: NOON, completion: { status, durationMs: 1, arrivedAt: NOON } });

describe("usage", () => {
  it.each<[LedgerCompletion["status"] | undefined, string]>([
    [304, "3xx"],
    [429, "4xx"],
    [599, "5xx"],
    [999, "failed"],
    [undefined, "uncompleted"],
  ])("counts a call that ended with %s as %s", async (status, name) => {
    const line = status === undefined ? ledgerLine({ at: NOON, completion: undefined }) : ended(status);
    // What was never sent does not count.
    const { totals, windows } = await usageOf([line, ended("unsent")]);
    expect(Object.entries(totals).filter(([, count]) => count !== 0)).toEqual([
      ["sends", 1],
      [name, 1],
    ]);
    expect(windows[0]?.maximum).toBe(1);
  });

  it("counts a call by its arrival, from the start of the period to before its end", async () => {
    const late = (from: number, to: number): LedgerLine =>
      ledgerLine({ at: NOON + from, completion: { status: 200, durationMs: 1, arrivedAt: NOON + to } });
    const lines = [late(-10, -1), late(-HOUR_MS, 0), late(HOUR_MS - 10, HOUR_MS), late(0, HOUR_MS - 1)];
    const { totals, rows } = await usageOf(lines, "hour");
    expect(totals.sends).toBe(2);
    expect(rows).toMatchObject([{ hour: "2026-11-21T12:00Z", sends: 2 }]);
  });

  it("names the hundred apps with most calls; the rest is `other`", async () => {
    const names = ["__proto__", "app-129", "other"];
    const apps = [...Array.from({ length: 130 }, (_, index) => `app-${index}`), ...names];
    const { rows, totals } = await usageOf(apps.map((app) => ledgerLine({ at: NOON, app })));
    expect([rows.length, totals.sends]).toEqual([101, 133]);
    expect(rows).toContainEqual(expect.objectContaining({ app: "app-129", sends: 2 }));
    expect(rows).toContainEqual(expect.objectContaining({ app: "other", sends: 32 }));
  });
});
