import fc from "fast-check";
import { expect, it } from "vitest";

import { WindowLog } from "../../../src/ratelimit/limits/window-log.ts";

const calls = fc.array(
  fc.record({
    id: fc.integer({ min: 0, max: 15 }).map(String),
    app: fc.constantFrom("a", "b"),
    at: fc.integer({ min: 0, max: 100 }),
    isDropped: fc.boolean(),
  }),
);

it("counts the same calls as a plain list, and returns when each leaves the window", () => {
  fc.assert(
    fc.property(calls, fc.nat(120), fc.integer({ min: 1, max: 60 }), (all, now, windowMs) => {
      const log = new WindowLog();
      const plain = new Map<string, { app: string; at: number }>();
      for (const { id, app, at, isDropped } of all) {
        if (isDropped) log.drop(id);
        else log.enter(id, at, app);
        plain.delete(id);
        if (!isDropped) plain.set(id, { app, at });
      }
      const within = [...plain.values()]
        .filter(({ at }) => at > now - windowMs)
        .toSorted((x, y) => x.at - y.at);
      expect(log.spent(windowMs, now)).toBe(within.length);
      expect(log.spent(windowMs, now, "a")).toBe(within.filter(({ app }) => app === "a").length);
      const freeAt = within.map(({ at }) => Math.min(at, now) + windowMs + 1);
      expect(log.freeInstants(windowMs, now, 100)).toEqual(freeAt);
      expect(log.freeInstants(windowMs, now, 1)).toEqual(freeAt.slice(0, 1));
      log.forget(now - windowMs);
      expect(log.spent(windowMs, now)).toBe(within.length);
    }),
  );
});

it("forgets a day of calls at once", () => {
  const log = new WindowLog();
  // One by one, each would move all calls after it, and the test would take minutes.
  const count = 500_000;
  for (let at = 0; at < count; at++) log.enter(String(at), at, "a");
  log.forget(count - 1);
  expect([log.spent(count, count), log.facts(count, count).byApp]).toEqual([1, new Map([["a", 1]])]);
});
