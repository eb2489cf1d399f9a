import { expect, it } from "vitest";

import { alertsOver } from "../support/week-of-alerts.ts";

it("a week of an ordinary gateway fires no alert", () => {
  expect(alertsOver({ seed: 23, stepSeconds: 60, steps: 7 * 24 * 60, fromHour: 0 })).toEqual([]);
});
