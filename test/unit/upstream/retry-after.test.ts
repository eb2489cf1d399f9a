import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { retryAfterMs } from "../../../src/upstream/verdict.ts";

const NOW = Date.UTC(1994, 10, 6, 8, 49, 7);

describe("Retry-After", () => {
  // Where the machine's own zone is GMT, a date read in the wrong zone goes unseen.
  beforeEach(() => void vi.stubEnv("TZ", "America/St_Johns"));
  afterEach(() => void vi.unstubAllEnvs());

  it("is read on a machine that is not in GMT, or this test proves nothing", () => {
    expect(new Date(NOW).getTimezoneOffset()).toBe(210);
  });

  it.each([
    ["0", 0],
    ["5", 5_000],
    [" 120 ", 120_000],
    ["007", 7_000],
    ["Sun, 06 Nov 1994 08:49:37 GMT", 30_000],
    ["Sunday, 06-Nov-94 08:49:37 GMT", 30_000],
    ["Sun Nov  6 08:49:37 1994", 30_000],
  ])("%s is a wait of %i ms", (value, expected) => {
    expect(retryAfterMs(value, NOW)).toBe(expected);
  });

  it.each(["Sun, 06 Nov 1994 08:49:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT"])(
    "%s, an instant that has passed, is no wait at all",
    (value) => {
      expect(retryAfterMs(value, NOW)).toBe(0);
    },
  );

  it.each([
    undefined,
    "",
    "   ",
    "soon",
    "-5",
    "+5",
    "1.5",
    "5s",
    "1e3",
    "0x10",
    "5, 10",
    "tomorrow 12",
    "in 3 minutes",
    "1994-11-06T08:49:37Z",
    "Sun, 99 Nov 1994 08:49:37 GMT",
  ])("%s says nothing", (value) => {
    expect(retryAfterMs(value, NOW)).toBeUndefined();
  });

  it("of absurd length is a number still, for the caller of the function to cap", () => {
    expect(retryAfterMs("9".repeat(400), NOW)).toBe(Number.POSITIVE_INFINITY);
  });
});
