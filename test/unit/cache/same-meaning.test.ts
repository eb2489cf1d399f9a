import { describe, expect, it } from "vitest";

import { sameMeaning } from "../../../src/cache/same-meaning.ts";

const JSON_TYPE = "application/json";

function isSame(before: string, after: string, contentType = JSON_TYPE): boolean {
  return sameMeaning(contentType, Buffer.from(before), Buffer.from(after));
}

describe("two bodies", () => {
  it.each([
    ["the same bytes", '{"a":1}', '{"a":1}', true],
    ["the members in another order", '{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}', true],
    ["other white space", '{"a":[1,2]}', ' {\n "a" : [ 1 , 2 ]\r\n}\t', true],
    ["escapes written otherwise", '{"a":"\\u00e4\\/"}', '{"\\u0061":"ä/"}', true],
    ["another value", '{"a":1}', '{"a":2}', false],
    ["the elements in another order", "[1,2]", "[2,1]", false],
    ["a text for a number", '{"a":1}', '{"a":"1"}', false],
    ["a text that looks like a number's record", '{"a":1}', '{"a":{"digits":"1"}}', false],
    ["numbers that are rounded to one", '{"a":9007199254740993}', '{"a":9007199254740992}', false],
    ["a number written otherwise", '{"a":1.0}', '{"a":1}', false],
    ["a number too large for any", "[1e400]", "[2e400]", false],
    ["a zero with another sign", "[0]", "[-0]", false],
    ["a member with a special name", '{"__proto__":{"a":1}}', '{"__proto__":{"a":2}}', false],
    ["a body that is broken", '{"a":1}', '{"a":1', false],
  ])("that differ in %s", (_name, before, after, same) => {
    expect([isSame(before, after), isSame(after, before)]).toEqual([same, same]);
  });

  it.each([
    ["application/json; charset=utf-8", true],
    ["application/vnd.propertyservice-v2+json", true],
    ["APPLICATION/JSON", true],
    ["image/jpeg", false],
    ["application/jsonp", false],
  ])("of type %s are compared as JSON: %s", (contentType, asJson) => {
    expect(isSame("[1,2]", "[1, 2]", contentType)).toBe(asJson);
  });
});
