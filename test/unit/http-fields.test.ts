import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { elementsOf, httpDateMs, secondsIn } from "../../src/http-fields.ts";

describe("a header that is a list", () => {
  it.each<[string, Record<string, string>]>([
    ["", {}],
    ["no-cache", { "no-cache": "" }],
    ["max-age=0, no-store", { "max-age": "0", "no-store": "" }],
    ["Max-Age=5,NO-STORE", { "max-age": "5", "no-store": "" }],
    [" , ,max-age = 5 ,, ", { "max-age": "5" }],
    ['private="set-cookie, x", max-age="7"', { private: "set-cookie, x", "max-age": "7" }],
    [String.raw`a="q\"uoted, \\ no-store", b`, { a: String.raw`q"uoted, \ no-store`, b: "" }],
    ["wait=2; q=1, respond-async", { wait: "2", "respond-async": "" }],
    ["max-age=1, max-age=2", { "max-age": "1" }],
    ["max-age=, no-store", { "max-age": "", "no-store": "" }],
  ])("%s has the elements %o", (header, elements) => {
    expect(Object.fromEntries(elementsOf(header))).toEqual(elements);
  });

  it.each([
    ["an unclosed quote, and with it all that follows", 'a, b="c, no-store', ["a"]],
    ["a value with a blank in it", "max-age=1 2, b", ["b"]],
    ["a name that is none", "max age, =5, b", ["b"]],
  ])("leaves out %s", (_name, header, names) => {
    expect([...elementsOf(header).keys()]).toEqual(names);
  });
});

describe("a number of seconds", () => {
  it.each([
    ["0", 0],
    ["5", 5_000],
    ["007", 7_000],
    ["2147483648", 2 ** 31 * 1_000],
    ["9".repeat(400), 2 ** 31 * 1_000],
    ["", undefined],
    ["-1", undefined],
    ["+1", undefined],
    ["1.5", undefined],
    ["1e3", undefined],
    ["0x10", undefined],
    [" 5", undefined],
    [undefined, undefined],
  ])("%s is in milliseconds: %s", (text, ms) => {
    expect(secondsIn(text)).toBe(ms);
  });
});

const NOW = Date.UTC(2026, 0, 15, 12);

/** Only the three forms of RFC 9110, section 5.6.7. `Date.parse` accepts nearly anything, and puts 18-Aug-50 in 1950. */
describe("an HTTP date", () => {
  // On a machine in GMT, a date that is read in the wrong zone would go unnoticed.
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
    // The limit of 50 years is exact to the second.
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

  it("with a two-digit year depends on the current century", () => {
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
