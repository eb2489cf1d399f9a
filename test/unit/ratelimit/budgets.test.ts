/** The state of a budget, as callers and operators see it. */
import { expect, it } from "vitest";

import { createScene, MINUTE } from "../../support/calls-scene.ts";

it("an app's share is the same array for half a second, and is computed again after each call", async () => {
  const { budget, ask, clock } = createScene({ listed: [{ id: "app", weight: 1, perDay: 10 }] });
  expect(budget.shareOf("app")).toBe(budget.shareOf("app"));
  await ask();
  const after = budget.shareOf("app");
  expect(after).toMatchObject([{ remaining: 999 }, { name: "per-day", limit: 10, remaining: 9 }]);
  await clock.advance(500);
  expect(budget.shareOf("app")).not.toBe(after);
});

it("what the other apps need is added up once for all apps, because there may be thousands", () => {
  let looks = 0;
  const app = { weight: 1, perDay: null };
  const listed = Array.from({ length: 200 }, (_, n) => ({ ...app, id: `app${n}` }));
  for (const one of listed) Object.defineProperty(one, "perDay", { get: () => (looks++, null) });
  const { budget } = createScene({ listed, windows: [{ limit: 1_000, windowMs: 1_440 * MINUTE }] });
  for (const { id } of listed) budget.shareOf(id);
  expect(looks).toBeLessThan(10 * listed.length);
});
