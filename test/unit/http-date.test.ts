import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { httpDateMs } from "../../src/http-date.ts";

const NOW = Date.UTC(2026, 0, 15, 12);

/**
 * Before: "Thu, 18-Aug-2050 2:01:18 GMT" was a date, and 18-Aug-50 was in 1950.
 * Cause: the text was only roughly matched, and `Date.parse` read it, which takes nearly anything and has a
 * century of its own.
 * After: the three forms of RFC 9110, section 5.6.7, and nothing else.
 */
describe("an HTTP date", () => {
  // Where the machine's own zone is GMT, a date read in the wrong zone goes unseen.
  beforeEach(() => void vi.stubEnv("TZ", "America/St_Johns"));
  afterEach(() => void vi.unstubAllEnvs());

  it.each([
    ["Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37.000Z"],
    ["Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37.000Z"],
    ["Sun Nov  6 08:49:37 1994", "1994-11-06T08:49:37.000Z"],
    ["Wed Nov 16 08:49:37 1994", "1994-11-16T08:49:37.000Z"],
    ["THU, 18 AUG 2050 02:01:18 gmt", "2050-08-18T02:01:18.000Z"],
    ["Fri, 29 Feb 2008 23:59:59 GMT", "2008-02-29T23:59:59.000Z"],
    // A leap second.
    ["Sat, 31 Dec 2016 23:59:60 GMT", "2017-01-01T00:00:00.000Z"],
    ["Mon, 01 Jan 0050 00:00:00 GMT", "0050-01-01T00:00:00.000Z"],
  ])("%s is %s", (text, expected) => {
    expect(new Date(httpDateMs(text, NOW) ?? Number.NaN).toISOString()).toBe(expected);
  });

  it.each([
    // Within 50 years, to the second.
    ["Thursday, 18-Aug-50 02:01:18 GMT", 2050],
    ["Wednesday, 15-Jan-76 12:00:00 GMT", 2076],
    ["Thursday, 15-Jan-76 12:00:01 GMT", 1976],
    ["Friday, 16-Jan-76 00:00:00 GMT", 1976],
    ["Saturday, 15-Jan-77 12:00:00 GMT", 1977],
    ["Saturday, 01-Jan-00 00:00:00 GMT", 2000],
    ["Thursday, 31-Dec-25 00:00:00 GMT", 2025],
  ])("%s is in %i: the nearest such year", (text, year) => {
    expect(new Date(httpDateMs(text, NOW) ?? Number.NaN).getUTCFullYear()).toBe(year);
  });

  it("with two digits for its year follows the century", () => {
    const text = "Tuesday, 01-Mar-05 00:00:00 GMT";
    expect(httpDateMs(text, Date.UTC(2095, 0, 1))).toBe(Date.UTC(2105, 2, 1));
  });

  it.each([
    undefined,
    "",
    "0",
    "tomorrow 12",
    "2050-08-18T02:01:18Z",
    "Thu, 18  Aug  2050 02:01:18 GMT",
    "Thu,  18 Aug 2050 02:01:18 GMT",
    "Thu, 18-Aug-2050 02:01:18 GMT",
    "Thu, 18-Aug-50 02:01:18 GMT",
    "Thursday, 18 Aug 2050 02:01:18 GMT",
    "Thursday, 18-Aug-2050 02:01:18 GMT",
    "Thu, 18 Aug 2050 2:01:18 GMT",
    "Thu, 18 Aug 2050 02.01.18 GMT",
    "Thu, 18 Aug 2050 02:01 GMT",
    "Thu, 8 Aug 2050 02:01:18 GMT",
    "Thu, 18 Aug 50 02:01:18 GMT",
    "Thu 18 Aug 2050 02:01:18 GMT",
    "Thu, 18 Aug 2050 02:01:18 UTC",
    "Thu, 18 Aug 2050 02:01:18 AEST",
    "Thu, 18 Aug 2050 02:01:18 +0000",
    "Thu, 18 Aug 2050 02:01:18",
    "Thx, 18 Aug 2050 02:01:18 GMT",
    "Thu, 18 Agu 2050 02:01:18 GMT",
    "Thu, 18 Aug 2050 24:00:00 GMT",
    "Thu, 18 Aug 2050 02:60:00 GMT",
    "Thu, 18 Aug 2050 02:01:61 GMT",
    "Sat, 29 Feb 2025 00:00:00 GMT",
    "Wed, 31 Apr 2025 00:00:00 GMT",
    "Wed, 00 Apr 2025 00:00:00 GMT",
    "Thursday, 29-Feb-26 02:01:18 GMT",
    "Thu Aug 8 02:01:18 2050",
    "Thu Aug  8 02:01:18 2050 GMT",
    "Thu Aug 08 02:01:18 50",
    "Thu, 18 Aug 2050 02:01:18 GMT, Thu, 18 Aug 2050 02:01:19 GMT",
  ])("is not %s", (text) => {
    expect(httpDateMs(text, NOW)).toBeUndefined();
  });
});
