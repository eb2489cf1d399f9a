import { describe, expect, it } from "vitest";

import { createMemoryLedger } from "../../../src/usage/memory-ledger.ts";
import type { LedgerCompletion, LedgerLine } from "../../../src/usage/ledger.ts";
import { reportUsage } from "../../../src/usage/usage-report.ts";
import { createUsage, type Usage, type UsageOptions } from "../../../src/usage/usage.ts";
import type { WindowUsage } from "../../../src/usage/rolling-maxima.ts";
import { createRandom } from "../../support/random.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { ledgerEntry, ledgerLine } from "../../support/ledger.ts";

const NOON = Date.UTC(2026, 10, 21, 12);
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const WINDOWS: UsageOptions["windows"] = {
  api: [{ name: "1m", limit: 3, windowMs: MINUTE_MS }],
  images: [{ name: "1m", limit: 100, windowMs: MINUTE_MS }],
};
const HOUR = { windows: WINDOWS, by: "app", from: NOON, to: NOON + HOUR_MS } as const satisfies UsageOptions;

function usageOf(lines: readonly LedgerLine[], options: Partial<UsageOptions> = {}): Usage {
  const usage = createUsage({ ...HOUR, ...options });
  for (const line of lines) usage.add([line]);
  return usage.finish();
}

/** Sends that arrived at these instants, in milliseconds after noon. */
function at(...instants: readonly number[]): LedgerLine[] {
  return instants.map((instant, index) => ledgerLine({ id: String(index), at: NOON + instant }));
}

function ended(status: LedgerCompletion["status"]): LedgerLine {
  return ledgerLine({ at: NOON, completion: { status, durationMs: 1, arrivedAt: NOON } });
}

/** What became of the one window of the interface: the most it held, and when, after noon. */
function minuteOf({
  windows: [minute],
}: Usage): [maximum: number, reached: number | undefined, kept: boolean] {
  const { maximum, reachedAt, kept }: Partial<WindowUsage> = minute ?? {};
  return [maximum ?? Number.NaN, reachedAt === undefined ? undefined : reachedAt - NOON, kept ?? false];
}

describe("usage", () => {
  it("of an empty ledger is empty, and keeps every limit", () => {
    expect(usageOf([])).toEqual({
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
    [404, "4xx"],
    [429, "4xx"],
    [500, "5xx"],
    [599, "5xx"],
    [999, "failed"],
    ["reset", "failed"],
    ["header-timeout", "failed"],
  ])("counts a send that ended with %s as %s", (status, name) => {
    const { sends, ...classes } = usageOf([ended(status)]).totals;
    expect(sends).toBe(1);
    expect(Object.entries(classes).filter(([, count]) => count !== 0)).toEqual([[name, 1]]);
  });

  it("counts uncompleted calls as sent, and unsent ones not at all", () => {
    const lines = [ledgerLine({ at: NOON, completion: undefined }), ended("unsent")];
    const usage = usageOf(lines);
    expect(usage.totals).toMatchObject({ sends: 1, uncompleted: 1, failed: 0 });
    expect(minuteOf(usage)).toEqual([1, 0, true]);
  });

  it("counts a call by its arrival", () => {
    const late = (from: number, to: number): LedgerLine =>
      ledgerLine({
        at: NOON + from,
        completion: { status: 200, durationMs: 1, arrivedAt: NOON + to },
      });
    expect(usageOf([late(-10, -1), late(-5, 0), late(HOUR_MS - 10, HOUR_MS)]).totals.sends).toBe(1);
    expect(usageOf([late(-10, 5)], { by: "hour" }).rows).toMatchObject([
      { key: "2026-11-21T12:00Z", sends: 1 },
    ]);
  });

  it("includes the start of the period and excludes its end", () => {
    expect(usageOf(at(-1, 0, HOUR_MS - 1, HOUR_MS)).totals.sends).toBe(2);
  });

  it("is grouped by app", () => {
    const apps = ["web", "app", "web", "other", "constructor", "__proto__"];
    const lines = apps.map((app, index) => ledgerLine({ id: String(index), at: NOON, app }));
    const failure = { status: "reset", durationMs: 1, arrivedAt: NOON } as const;
    const { rows, totals } = usageOf([...lines, ledgerLine({ at: NOON, app: "web", completion: failure })]);
    expect(rows.map(({ key, sends, failed }) => [key, sends, failed])).toEqual([
      ["__proto__", 1, 0],
      ["app", 1, 0],
      ["constructor", 1, 0],
      ["other", 1, 0],
      ["web", 3, 1],
    ]);
    expect(totals).toMatchObject({ sends: 7, "2xx": 6, failed: 1 });
  });

  it("names the hundred apps with most calls; the rest is `other`", () => {
    const apps = [...Array.from({ length: 130 }, (_, index) => `app-${index}`), "app-129", "other"];
    const { rows, totals } = usageOf(
      apps.map((app, index) => ledgerLine({ id: String(index), at: NOON, app })),
    );
    expect(rows).toHaveLength(101);
    expect(rows).toContainEqual(expect.objectContaining({ key: "app-129", sends: 2 }));
    expect(rows).toContainEqual(expect.objectContaining({ key: "other", sends: 31 }));
    expect(totals.sends).toBe(132);
  });
});

describe("the rolling maximum", () => {
  it.each<[string, readonly number[], ReturnType<typeof minuteOf>]>([
    ["one", [5], [1, 5, true]],
    ["a full window", [0, 10, 59_999], [3, 59_999, true]],
    ["one too many", [0, 10, 20, 59_999], [4, 59_999, false]],
    ["as many, exactly a window apart", [0, 0, 0, 60_000, 60_000, 60_000], [3, 0, true]],
    ["as many, a millisecond too early", [0, 0, 0, 59_999], [4, 59_999, false]],
    ["the first of several that are the fullest", [0, 1, 200_000, 200_001], [2, 1, true]],
    ["a fuller one after it", [0, 1, 200_000, 200_001, 200_002], [3, 200_002, true]],
    [
      "across a minute of the clock, where counting by minutes sees nothing",
      [50_000, 50_001, 61_000, 61_001],
      [4, 61_001, false],
    ],
    ["a window that began before the period", [-59_000, -58_000, -57_000, 0], [4, 0, false]],
    ["what was spent when the period began, though nothing was sent in it", [-59_999, -1], [2, 0, true]],
    ["what no window of the period holds", [-60_000, -120_000, HOUR_MS], [0, undefined, true]],
  ])("is found in %s", (_name, instants, expected) => {
    expect(minuteOf(usageOf(at(...instants)))).toEqual(expected);
  });

  const SLOW_MS = 500;
  /** A send that was allowed at an instant after noon under a limit of a minute, and arrived at once or so much later. */
  const under = (limits: string, wentMs: number, tookMs = 0): LedgerLine =>
    ledgerLine({
      at: NOON + wentMs,
      limits,
      completion: { status: 200, durationMs: tookMs, arrivedAt: NOON + wentMs + tookMs },
    });
  const manyUnder = (limits: string, ...instants: readonly number[]): LedgerLine[] =>
    instants.map((instant) => under(limits, instant));

  it.each<[string, readonly LedgerLine[], ReturnType<typeof minuteOf>]>([
    ["a higher one, before it was lowered", manyUnder("4/60000", 0, 1, 2, 3), [4, 3, true]],
    [
      "a higher one, and then the lowered one, when there was room",
      [...manyUnder("4/60000", 0, 1, 2, 3), ...manyUnder("3/60000", 60_001, 60_002)],
      [4, 3, true],
    ],
    [
      "the lowered one, where nothing should have gone any more",
      [...manyUnder("4/60000", 0, 1, 2, 3), under("3/60000", 59_999)],
      [5, 59_999, false],
    ],
    [
      "the lowered one, broken by less than the most there was",
      [...manyUnder("9/60000", 0, 1, 2, 3, 4), ...manyUnder("3/60000", 90_000, 90_001, 90_002, 90_003)],
      [5, 4, false],
    ],
    ["a lower one that was overrun, before it was raised", manyUnder("2/60000", 0, 1, 2), [3, 2, false]],
    [
      "a lower one that was kept, before it was raised",
      [...manyUnder("2/60000", 0, 1), under("3/60000", 2)],
      [3, 2, true],
    ],
    [
      "a lower one, by one on its way while it was raised",
      [under("1/60000", 0, SLOW_MS), ...manyUnder("3/60000", 10, 20)],
      [3, SLOW_MS, true],
    ],
    [
      "a higher one, of one instant, by one that was allowed before it was lowered",
      [under("4/60000", 0, SLOW_MS), under("1/60000", SLOW_MS)],
      [2, SLOW_MS, false],
    ],
    ["none of this length", manyUnder("1/1000,9/3600000", 0, 1, 2, 3), [4, 3, true]],
    ["one of several", manyUnder("1/1000,2/60000", 0, 1, 2), [3, 2, false]],
    ["one that is not known: that of now", [...at(0, 1, 2, 3)], [4, 3, false]],
    ["one that makes no sense: that of now", manyUnder("many", 0, 1, 2, 3), [4, 3, false]],
    [
      "one that is not known, and then a higher one",
      [...at(0, 1), ...manyUnder("4/60000", 2, 3)],
      [4, 3, true],
    ],
    [
      "a higher one whose sends have left the window",
      [under("9/60000", 0), ...at(60_000, 60_001, 60_002, 60_003)],
      [4, 60_003, false],
    ],
    ["a lower one, before the period began", manyUnder("1/60000", -20, -10), [2, 0, false]],
  ])("is judged by the limit of the time: %s", (_name, lines, expected) => {
    expect(minuteOf(usageOf(lines))).toEqual(expected);
  });

  it("includes earlier limits, by when calls counted under them", () => {
    const limitsOf = (lines: readonly LedgerLine[]): unknown => usageOf(lines).windows[0]?.limits;
    expect(limitsOf([...at(0), ...manyUnder("3/60000", 1, 2)])).toBeUndefined();
    expect(
      limitsOf([
        ...manyUnder("9/60000", -10, 100_000),
        ...manyUnder("1/1000", 200_000, 200_001),
        under("3/60000", 300_000),
        under("9/60000", 400_000),
        ...at(500_000),
      ]),
    ).toEqual([
      { limit: 9, from: NOON + 100_000, until: NOON + 400_000 },
      { limit: undefined, from: NOON + 200_000, until: NOON + 200_001 },
      { limit: 3, from: NOON + 300_000, until: NOON + 300_000 },
    ]);
    const ever = Array.from({ length: 50 }, (_, each) => under(`${100 + each}/60000`, each));
    expect(limitsOf(ever)).toEqual(
      Array.from({ length: 10 }, (_, each) => ({
        limit: 140 + each,
        from: NOON + 40 + each,
        until: NOON + 40 + each,
      })),
    );
  });

  it("is one for each window of each origin", () => {
    const windows: UsageOptions["windows"] = {
      api: [
        { name: "1s", limit: 2, windowMs: 1_000 },
        { name: "1h", limit: 3, windowMs: HOUR_MS },
      ],
      images: [{ name: "1m", limit: 5, windowMs: MINUTE_MS }],
    };
    const pictures = at(0, 1).map((line): LedgerLine => ({ ...line, origin: "images", resource: "images" }));
    expect(usageOf([...at(0, 1, 2_000, 3_000), ...pictures], { windows }).windows).toEqual([
      { name: "1s", limit: 2, maximum: 2, reachedAt: NOON + 1, kept: true },
      { name: "1h", limit: 3, maximum: 4, reachedAt: NOON + 3_000, kept: false },
      { name: "images/1m", limit: 5, maximum: 2, reachedAt: NOON + 1, kept: true },
    ]);
  });

  it("is exact for many lines in another order", () => {
    const random = createRandom(7);
    // For three hours, nine sends go each second; each takes up to 20 minutes.
    const lines = Array.from({ length: 100_000 }, (_, index) => {
      const went = NOON + Math.floor((index * 1_000) / 9);
      const arrivedAt = went + random.between(0, 1_200_000);
      return ledgerLine({
        id: String(index),
        at: went,
        completion: { status: 200, durationMs: 1, arrivedAt },
      });
    });
    const instants = lines.map(({ completion }) => completion?.arrivedAt ?? 0).sort((a, b) => a - b);
    let [maximum, reachedAt, first] = [0, 0, 0];
    for (const [index, instant] of instants.entries()) {
      while ((instants[first] ?? 0) <= instant - MINUTE_MS) first++;
      if (index - first + 1 > maximum) [maximum, reachedAt] = [index - first + 1, instant];
    }
    expect(maximum).toBeGreaterThan(9 * 60);
    const [minute] = usageOf(lines, { to: NOON + 5 * HOUR_MS }).windows;
    expect(minute).toMatchObject({ maximum, reachedAt, kept: false });
  });
});

describe("a report", () => {
  it("reads enough before the period for its first windows", async () => {
    const clock = createFakeClock(NOON - DAY_MS);
    const ledger = createMemoryLedger({ retentionMs: 35 * DAY_MS, maxRecords: 1_000, now: clock.now });
    clock.set(NOON - 59_000);
    for (const id of ["a", "b"]) ledger.enter(ledgerEntry({ id, at: clock.now() }));
    // Allowed to go long before, it arrives in the period.
    ledger.enter(ledgerEntry({ id: "slow", at: NOON - 200_000 }));
    clock.set(NOON + 10);
    ledger.complete("slow", { status: 200, durationMs: 200_010, arrivedAt: NOON + 10 });
    ledger.enter(ledgerEntry({ id: "c", at: NOON + 20 }));
    ledger.enter(ledgerEntry({ id: "after it", at: NOON + HOUR_MS }));
    const report = await reportUsage({ ...HOUR, ledger });
    expect(report.totals).toMatchObject({ sends: 2, "2xx": 1, uncompleted: 1 });
    expect(minuteOf(report)).toEqual([4, 20, false]);
    expect("completeSince" in report).toBe(false);
  });

  it("says since when the ledger is complete if its first windows are older", async () => {
    const clock = createFakeClock(NOON - MINUTE_MS);
    const ledger = createMemoryLedger({ retentionMs: 35 * DAY_MS, maxRecords: 1_000, now: clock.now });
    clock.set(NOON + HOUR_MS);
    expect(await reportUsage({ ...HOUR, ledger })).not.toHaveProperty("completeSince");
    expect(await reportUsage({ ...HOUR, ledger, from: NOON - 1 })).toMatchObject({
      completeSince: NOON - MINUTE_MS,
    });
  });
});
