import { expect, it } from "vitest";

import { valueText } from "../../../src/admin/page/format.js";

it.each([
  ["expected", 0.0312, "0.031"],
  ["expected", 0, "0"],
  ["callsForHalf", 1.37, "1.4"],
  ["spent", 12_345.6, "12,345"],
  ["waitMs", 0.4, "0 ms"],
] as const)("shows %s %d as %s", (name, value, text) => {
  expect(valueText(name, value)).toBe(text);
});
