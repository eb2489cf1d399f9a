import { expect, it } from "vitest";

import { readText } from "../../../src/config/env.ts";
import { optional } from "../../../src/config/setting.ts";
import { flag, fraction, port } from "../../../src/config/shapes.ts";
import { text } from "../../../src/config/text-shapes.ts";

it.each([
  ["a whole number", port(), "8080", 8080],
  ["a fraction", fraction(0, 1), "0.25", 0.25],
  ["a number that may be empty", optional(fraction(0, 1)), "0.25", 0.25],
  ["true", flag(), "true", true],
  ["text that looks like a number", text(), "8080", "8080"],
  ["a fraction where a whole number is meant, left for the check", port(), "80.5", "80.5"],
  ["a word where a flag is meant, left for the check", flag(), "yes", "yes"],
])("a variable is read as %s", (_name, shape, value, expected) => {
  expect(readText(value, shape)).toBe(expected);
});
