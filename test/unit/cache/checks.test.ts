import { expect, it } from "vitest";

import { createChecks } from "../../../src/cache/lifetimes/checks.ts";

it("checks make at most one per cent of the other calls, and both kinds get their turn", async () => {
  const checks = createChecks(
    () => 1,
    () => expect.unreachable(),
  );
  const done = { answer: 0, page: 0 };
  let calls = 0;
  for (let others = 1; others <= 20_000; others++) {
    checks.called();
    for (const kind of ["answer", "page"] as const) {
      if (!checks.isDue(kind, "listings")) continue;
      await checks.run(kind, async (spend) => {
        for (let call = 0; call < (kind === "page" ? 3 : 1); call++) {
          spend();
          checks.called();
          calls++;
        }
      });
      done[kind]++;
    }
    expect(calls).toBeLessThanOrEqual(others / 100 + 0.01);
  }
  expect([done.answer > 2, done.page > 2]).toEqual([true, true]);
});
