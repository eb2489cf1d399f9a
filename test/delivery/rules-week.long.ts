import { expect, it } from "vitest";

import { alertsOver } from "../support/ordinary-gateway.ts";

/** promtool evaluates every rule 10,080 times. */
const LONG_MS = 900_000;

it("a week of an ordinary gateway fires no alert", { timeout: LONG_MS }, () => {
  expect(alertsOver({ seed: 23, stepSeconds: 60, steps: 7 * 24 * 60, fromHour: 0 })).toEqual([]);
});
