import { describe, expect, it } from "vitest";

import { createChecks } from "../../../src/cache/lifetimes/checks.ts";

describe("checks", () => {
  it("make at most one per cent of the other calls, one at a time, and both kinds get their turn", async () => {
    const checks = createChecks({ budgetLeft: () => 1, failed: () => expect.unreachable() });
    let [others, calls, running, mostRunning] = [0, 0, 0, 0];
    const done = { answer: 0, page: 0 };
    const ends: (() => void)[] = [];

    function check(kind: "answer" | "page"): void {
      void checks.run(kind, async (spend) => {
        mostRunning = Math.max(mostRunning, ++running);
        for (let call = 0; call < (kind === "page" ? 3 : 1); call++) {
          spend();
          checks.called();
          calls++;
        }
        await new Promise<void>((end) => ends.push(end));
        running--;
        done[kind]++;
      });
    }
    for (; others < 5_000; others++) {
      checks.called();
      for (const kind of ["answer", "page"] as const) if (checks.isDue(kind, "listings")) check(kind);
      expect(calls).toBeLessThanOrEqual(others / 100 + 0.01);
      // Longer than it takes until another check would be due.
      if (others % 150 > 0) continue;
      ends.splice(0).forEach((end) => end());
      await Promise.resolve();
      await new Promise(setImmediate);
    }
    expect(mostRunning).toBe(1);
    expect([done.answer > 2, done.page > 2]).toEqual([true, true]);
  });

  it("are made only while half of the budget is left", () => {
    let left = 0.49;
    let asked = 0;
    const budgetLeft = (): number => (asked++, left);
    const checks = createChecks({ budgetLeft, failed: () => expect.unreachable() });
    const called = (): void => {
      for (let call = 0; call < 1_000; call++) checks.called();
    };
    called();
    for (let hit = 0; hit < 100; hit++) expect(checks.isDue("answer", "listings")).toBe(false);
    expect(asked).toBe(1);
    left = 0.5;
    called();
    expect(checks.isDue("answer", "listings")).toBe(true);
  });

  it("that fail are reported, and others follow", async () => {
    const errors: unknown[] = [];
    const checks = createChecks({ budgetLeft: () => 1, failed: (error) => errors.push(error) });
    for (let call = 0; call < 1_000; call++) checks.called();
    await checks.run("page", () => Promise.reject(new Error("a mistake")));
    expect(errors).toHaveLength(1);
    expect(checks.isDue("answer", "listings")).toBe(true);
  });
});
