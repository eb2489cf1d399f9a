import { describe, expect, it } from "vitest";

import { deadlineOf, directivesOf } from "../../../src/http/caller-headers.ts";
import { Problem } from "../../../src/errors.ts";
import { type CallerDirectives, NO_DIRECTIVES } from "../../../src/query/question.ts";

const MAX_WAIT_MS = 10_000;

describe("a caller that names no deadline", () => {
  it.each([{}, { prefer: undefined }, { prefer: "" }, { prefer: "respond-async, handling=lenient" }])(
    "has the configured one: %j",
    (headers) => {
      expect(deadlineOf(headers, MAX_WAIT_MS)).toEqual({ waitMs: MAX_WAIT_MS, preferenceApplied: undefined });
    },
  );
});

describe("X-Request-Deadline-Ms", () => {
  it.each([
    ["1", 1],
    ["0250", 250],
    ["10001", 10_000],
    ["9".repeat(400), 10_000],
  ])("%s leaves %i ms", (value, waitMs) => {
    const headers = { "x-request-deadline-ms": value };
    expect(deadlineOf(headers, MAX_WAIT_MS)).toEqual({ waitMs, preferenceApplied: undefined });
  });

  it.each<[string, string | string[]]>([
    ["zero", "0"],
    ["negative", "-1"],
    ["a fraction", "1.5"],
    ["in another notation", "1e3"],
    ["with its unit", "2s"],
    ["empty", ""],
    ["given twice", "1500, 2000"],
    ["a list of lines", ["1500", "1500"]],
  ])("is refused if it is %s: %j", (_name, value) => {
    const read = (): unknown => deadlineOf({ "x-request-deadline-ms": value, prefer: "wait=1" }, MAX_WAIT_MS);
    expect(read).toThrow(Problem);
    expect(read).toThrow(
      expect.objectContaining({
        code: "malformed-request",
        details: {
          detail: expect.stringMatching(/^X-Request-Deadline-Ms is ".*"; expected it once, a whole/),
        },
      }),
    );
  });

  it("is shown in the refusal up to a length", () => {
    expect(() => deadlineOf({ "x-request-deadline-ms": "x ".repeat(2_500) }, MAX_WAIT_MS)).toThrow(
      `"${"x ".repeat(20)}…"`,
    );
  });
});

describe("Prefer", () => {
  it.each([
    ["wait=2", 2],
    ["wait=10", 10],
    ["Wait = 2", 2],
    ['wait="2"', 2],
    ["wait=2; strict", 2],
    ['wait=2;why="so, or so; wait=1";x=', 2],
    ["respond-async,wait=2,handling=lenient", 2],
    // Several header lines arrive joined; of one preference the first counts.
    ["return=minimal; wait=1, wait=3, wait=2", 3],
    ['note="wait=1, wait=1", wait=2', 2],
    [String.raw`note="\", wait=1", wait=2`, 2],
    // What is malformed is ignored by itself.
    ["wait 1, wait=2", 2],
    ["waiting=1, wait=2", 2],
  ])("%s gives an answer within %i s, and Preference-Applied", (prefer, seconds) => {
    expect(deadlineOf({ prefer }, MAX_WAIT_MS)).toEqual({
      waitMs: seconds * 1000,
      preferenceApplied: `wait=${seconds}`,
    });
  });

  it.each([
    "wait",
    'wait=""',
    "wait=0",
    "wait=1.5",
    "wait=2s",
    'wait="2',
    "await=2",
    'x="wait=2',
    "wait=abc, wait=2",
    // Longer than the settings allow: it makes no difference.
    "wait=11",
    `wait=${"9".repeat(400)}`,
  ])("%s is ignored", (prefer) => {
    expect(deadlineOf({ prefer }, MAX_WAIT_MS)).toEqual({
      waitMs: MAX_WAIT_MS,
      preferenceApplied: undefined,
    });
  });

  it.each([
    ["the header's", "2999", "wait=3", 2_999, undefined],
    ["the preference's", "3001", "wait=3", 3_000, "wait=3"],
    ["the header's, where the preference is none", "3000", "wait=x", 3_000, undefined],
  ])("beside the deadline header counts if it is shorter: %s", (_name, ms, prefer, waitMs, applied) => {
    const headers = { "x-request-deadline-ms": ms, prefer };
    expect(deadlineOf(headers, MAX_WAIT_MS)).toEqual({ waitMs, preferenceApplied: applied });
  });
});

describe("the cache directives of a request", () => {
  it.each<[string, Partial<CallerDirectives>]>([
    ["", {}],
    ["no-store", { noStore: true }],
    ["no-storeroom", {}],
    ["max-age=0,No-Store ", { maxAgeMs: 0, noStore: true }],
    ["only-if-cached", { onlyIfCached: true }],
    ["max-age=60", { maxAgeMs: 60_000 }],
    ["min-fresh=30", { minFreshMs: 30_000 }],
    ["max-stale=30", { maxStaleMs: 30_000 }],
    ["max-stale", { maxStaleMs: Number.POSITIVE_INFINITY }],
    ["stale-if-error=0", { staleIfErrorMs: 0 }],
    ['Max-Age="60" , NO-CACHE,max-stale=1', { maxAgeMs: 60_000, noCache: true, maxStaleMs: 1_000 }],
    ["max-age=1, max-age=2", { maxAgeMs: 1_000 }],
    // Nothing that is malformed, or means nothing in a request, counts.
    ["max-age", {}],
    ["max-age=1.5", {}],
    ["max-stale=soon", {}],
    ["must-revalidate, private, s-maxage=5, no-cachet", {}],
  ])("Cache-Control: %s", (cacheControl, directives) => {
    expect(directivesOf({ "cache-control": cacheControl })).toEqual({ ...NO_DIRECTIVES, ...directives });
  });

  it.each<[string, string | undefined, string | undefined, boolean]>([
    ["counts alone", undefined, "no-cache", true],
    ["counts among others", undefined, "x, No-Cache", true],
    ["does not count beside Cache-Control", "max-age=60", "no-cache", false],
    ["does not count beside an empty Cache-Control", "", "no-cache", false],
  ])("Pragma: no-cache %s", (_name, cacheControl, pragma, noCache) => {
    expect(directivesOf({ "cache-control": cacheControl, pragma }).noCache).toBe(noCache);
  });
});
