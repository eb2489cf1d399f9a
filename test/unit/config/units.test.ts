import { describe, expect, it } from "vitest";

import { formatDuration, parseBudget, parseDuration, parseSize } from "../../../src/config/units.ts";

describe("durations", () => {
  it.each([
    ["0ms", 0],
    ["250ms", 250],
    ["5m", 300_000],
    ["1h", 3_600_000],
    ["24h", 86_400_000],
    ["1d", 86_400_000],
    ["0010s", 10_000],
  ])("%s is %d ms", (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });

  it.each(["", "5", "5 m", " 5m", "5m ", "-5m", "1.5s", "5M", "5min", "m", "1h30m", "1e3s", "999999999999d"])(
    "%j is not a duration",
    (text) => {
      expect(parseDuration(text)).toBeUndefined();
    },
  );

  it.each([
    [0, "0ms"],
    [1, "1ms"],
    [1_500, "1500ms"],
    [90_000, "90s"],
    [60_000, "1m"],
    [86_400_000, "1d"],
  ])("%d ms is written %s", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });
});

describe("sizes", () => {
  it.each([
    ["17B", 17],
    ["512KiB", 524_288],
    ["4MiB", 4_194_304],
    ["256MiB", 268_435_456],
    ["1GiB", 1_073_741_824],
  ])("%s is %d bytes", (text, bytes) => {
    expect(parseSize(text)).toBe(bytes);
  });

  it.each(["", "4", "4MB", "4 MiB", "4mib", "-4MiB", "0.5MiB", "999999999999GiB"])(
    "%j is not a size",
    (text) => {
      expect(parseSize(text)).toBeUndefined();
    },
  );
});

describe("budgets", () => {
  it("reads windows in the order given", () => {
    expect(parseBudget("60/1m,10000/1d")).toEqual([
      { limit: 60, windowMs: 60_000, name: "1m" },
      { limit: 10_000, windowMs: 86_400_000, name: "1d" },
    ]);
  });

  it("names a window by its largest whole unit", () => {
    expect(parseBudget(" 5/60s , 7/90s ")?.map((window) => window.name)).toEqual(["1m", "90s"]);
  });

  it.each([
    ["nothing", ""],
    ["no window", "60"],
    ["a limit of zero", "0/1m"],
    ["a window of zero", "60/0m"],
    ["a fraction", "0.5/1s"],
    ["a comma too many", "60/1m,"],
    ["a window twice", "60/1m,70/1m"],
    ["a window twice in different spelling", "60/1m,70/60s"],
    ["no unit", "60/60"],
  ])("refuses %s", (_, text) => {
    expect(parseBudget(text)).toBeUndefined();
  });
});
