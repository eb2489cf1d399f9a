import { describe, expect, it } from "vitest";

import type { LedgerCompletion, LedgerLine, LedgerReader } from "../../../src/usage/ledger.ts";
import { reportUsage, type UsageOptions, type UsageReport } from "../../../src/usage/usage.ts";
import { ledgerLine } from "../../support/ledger.ts";

const NOON = Date.UTC(2026, 10, 21, 12);
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const WINDOWS: UsageOptions["windows"] = {
  api: [{ name: "1m", limit: 3, windowMs: MINUTE_MS }],
  images: [{ name: "1m", limit: 100, windowMs: MINUTE_MS }],
};
const HOUR = { windows: WINDOWS, by: "app", from: NOON, to: NOON + HOUR_MS } as const satisfies UsageOptions;

async function usageOf(
  lines: readonly LedgerLine[],
  options: Partial<UsageOptions> = {},
): Promise<UsageReport> {
  const ledger: LedgerReader = {
    async *read(from, to) {
      yield lines.filter(({ at }) => from <= at && at < to);
    },
    completeSince: async () => 0,
  };
  return await reportUsage({ ...HOUR, ledger, ...options });
}

/** Sends that arrived at these instants, in milliseconds after noon, under these limits. */
function at(instants: readonly number[], limits = ""): LedgerLine[] {
  return instants.map((instant) => ledgerLine({ id: String(instant), at: NOON + instant, limits }));
}

function ended(status: LedgerCompletion["status"]): LedgerLine {
  return ledgerLine({ at: NOON, completion: { status, durationMs: 1, arrivedAt: NOON } });
}

/** What became of the one window of the interface: the most it held, and when, after noon. */
function minuteOf({ windows: [minute] }: UsageReport): unknown[] {
  const reachedAt = minute?.reachedAt;
  return [minute?.maximum, reachedAt === undefined ? undefined : reachedAt - NOON, minute?.kept];
}

describe("usage", () => {
  it("of an empty ledger is empty, and keeps every limit", async () => {
    expect(await usageOf([])).toEqual({
      totals: { sends: 0, "2xx": 0, "3xx": 0, "4xx": 0, "5xx": 0, failed: 0, uncompleted: 0 },
      rows: [],
      windows: [
        { name: "1m", limit: 3, maximum: 0, reachedAt: undefined, kept: true },
        { name: "images/1m", limit: 100, maximum: 0, reachedAt: undefined, kept: true },
      ],
    });
  });

  it.each<[LedgerCompletion["status"], string]>([
    [200, "2xx"],
    [304, "3xx"],
    [429, "4xx"],
    [599, "5xx"],
    [999, "failed"],
    ["reset", "failed"],
  ])("counts a send that ended with %s as %s", async (status, name) => {
    const { sends, ...classes } = (await usageOf([ended(status)])).totals;
    expect(sends).toBe(1);
    expect(Object.entries(classes).filter(([, count]) => count !== 0)).toEqual([[name, 1]]);
  });

  it("counts uncompleted calls as sent, and unsent ones not at all", async () => {
    const usage = await usageOf([ledgerLine({ at: NOON, completion: undefined }), ended("unsent")]);
    expect(usage.totals).toMatchObject({ sends: 1, uncompleted: 1, failed: 0 });
    expect(minuteOf(usage)).toEqual([1, 0, true]);
  });

  it("counts a call by its arrival, from the start of the period to before its end", async () => {
    const late = (from: number, to: number): LedgerLine =>
      ledgerLine({ at: NOON + from, completion: { status: 200, durationMs: 1, arrivedAt: NOON + to } });
    const lines = [late(-10, -1), late(-HOUR_MS, 0), late(HOUR_MS - 10, HOUR_MS), late(0, HOUR_MS - 1)];
    const { totals, rows } = await usageOf(lines, { by: "hour" });
    expect(totals.sends).toBe(2);
    expect(rows).toMatchObject([{ key: "2026-11-21T12:00Z", sends: 2 }]);
  });

  it("names the hundred apps with most calls; the rest is `other`", async () => {
    const names = ["__proto__", "app-129", "other"];
    const apps = [...Array.from({ length: 130 }, (_, index) => `app-${index}`), ...names];
    const { rows, totals } = await usageOf(apps.map((app) => ledgerLine({ at: NOON, app })));
    expect(rows).toHaveLength(101);
    expect(rows).toContainEqual(expect.objectContaining({ key: "app-129", sends: 2 }));
    expect(rows).toContainEqual(expect.objectContaining({ key: "other", sends: 32 }));
    expect(totals.sends).toBe(133);
  });
});

describe("the rolling maximum", () => {
  it.each<[string, readonly LedgerLine[], unknown[]]>([
    ["a full window", at([0, 10, 59_999]), [3, 59_999, true]],
    ["one too many", at([59_999, 0, 10, 20]), [4, 59_999, false]],
    ["as many, exactly a window apart", at([0, 0, 0, 60_000, 60_000, 60_000]), [3, 0, true]],
    ["across a minute of the clock", at([50_000, 50_001, 61_000, 61_001]), [4, 61_001, false]],
    ["a window that began before the period", at([-59_000, -58_000, -57_000, 0]), [4, 0, false]],
    ["what was spent when the period began", at([-59_999, -1]), [2, 0, true]],
    ["a higher limit, before it was lowered", at([0, 1, 2, 3], "4/60000"), [4, 3, true]],
    [
      "the lowered one, where nothing should have gone any more",
      [...at([0, 1, 2, 3], "4/60000"), ...at([59_999], "3/60000")],
      [5, 59_999, false],
    ],
    [
      "the lowered one, exceeded by less than the most there was",
      [...at([0, 1, 2, 3, 4], "9/60000"), ...at([90_000, 90_001, 90_002, 90_003], "3/60000")],
      [5, 4, false],
    ],
    ["a lower one that was exceeded, before it was raised", at([0, 1, 2], "2/60000"), [3, 2, false]],
    ["no limit of this length", at([0, 1, 2, 3], "1/1000,9/3600000"), [4, 3, true]],
    ["limits that are not known: that of now", at([0, 1, 2, 3], "many"), [4, 3, false]],
  ])("is found and judged in %s", async (_name, lines, expected) => {
    expect(minuteOf(await usageOf(lines))).toEqual(expected);
  });

  it("includes earlier limits", async () => {
    const limitsOf = async (lines: readonly LedgerLine[]): Promise<unknown> =>
      (await usageOf(lines)).windows[0]?.limits;
    expect(await limitsOf([...at([0]), ...at([1, 2], "3/60000")])).toBeUndefined();
    expect(await limitsOf([...at([1], "9/60000"), ...at([2], "1/1000"), ...at([3], "3/60000")])).toEqual([
      9,
      undefined,
      3,
    ]);
  });
});
