import { describe, expect, it } from "vitest";

import { elementsOf, secondsIn } from "../../src/http-lists.ts";

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

  it.each(['"', "\\", ",", " ", ";", "="])(
    "is read in no time, even where it is nothing but %j",
    (character) => {
      expect(elementsOf(character.repeat(200_000)).size).toBe(0);
    },
  );
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
