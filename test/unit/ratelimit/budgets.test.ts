/** The state of a budget, as callers and operators see it. */
import { expect, it } from "vitest";

import { createScene } from "../../support/calls-scene.ts";

it("an app's share is the same array for half a second, and is computed again after each call", async () => {
  const { budget, ask, clock } = createScene({ listed: [{ id: "app", weight: 1, perDay: 10 }] });
  expect(budget.shareOf("app")).toBe(budget.shareOf("app"));
  await ask();
  const after = budget.shareOf("app");
  expect(after).toMatchObject([{ remaining: 999 }, { name: "per-day", limit: 10, remaining: 9 }]);
  await clock.advance(500);
  expect(budget.shareOf("app")).not.toBe(after);
});
