/** The state of a budget, as callers and operators see it. */
import { describe, expect, it } from "vitest";

import { Apps, type ListedApp } from "../../../src/ratelimit/apps.ts";
import { Budget } from "../../../src/ratelimit/origin-budget.ts";
import { topApps } from "../../../src/ratelimit/overview.ts";
import { unsharedCircuits } from "../../../src/ratelimit/circuits/circuits.ts";
import type { SendEnd } from "../../../src/ratelimit/throttled.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";
import { createFakeLimiters } from "../../support/fake-limiter.ts";
import { waitingOf } from "../../support/waiting.ts";
import { MINUTE, SECOND } from "../../support/calls-scene.ts";

interface Scene {
  readonly budget: Budget;
  readonly clock: FakeClock;
  readonly observed: string[];
  readonly ask: (app: string, end?: Partial<SendEnd>) => Promise<unknown>;
}

function createScene(listed: readonly ListedApp[] = [], labels = 20): Scene {
  const clock = createFakeClock();
  const perDay = new Map(
    listed.flatMap(({ id, perDay }) => (perDay === null ? [] : [[id, perDay] as const])),
  );
  const windows = [{ name: "1m", limit: 60, windowMs: MINUTE }];
  const limiter = createFakeLimiters({ windows, perDay, now: clock.monotonic }).join();
  const apps = new Apps({
    apps: listed,
    unlistedApps: { weight: 1, max: 100, share: 0.5 },
    metrics: { apps: labels },
  });
  const observed: string[] = [];
  const budget = new Budget(
    {
      origin: "api",
      limiter,
      sharedCircuits: unsharedCircuits(),
      apps,
      clock,
      fraction: () => 0,
      observer: {
        refused: (app, reason) => void observed.push(`${app} refused: ${reason}`),
        departed: (app, cause) => void observed.push(`${app} ${cause}`),
        warn: () => undefined,
        outOfOrder: () => undefined,
        backInOrder: () => undefined,
      },
      keyVersion: () => 1,
    },
    {
      windows,
      perDay,
      arrivalMs: SECOND,
      concurrency: 4,
      spacingMs: 0,
      replicas: 1,
      mode: "enforce",
      reserve: 0.2,
      maxCoolOffMs: MINUTE,
    },
  );
  let asked = 0;
  return {
    budget,
    clock,
    observed,
    async ask(app, end = {}) {
      apps.identify(app, undefined, clock.monotonic());
      const order = {
        app,
        cause: "miss",
        resource: "listings",
        query: String(asked++),
        waiting: waitingOf(),
      } as const;
      return await budget
        .run(order, async (ended) => ended({ status: 200, arrivedAfterMs: 0, durationMs: 0, ...end }))
        .catch((error: unknown) => error);
    },
  };
}

describe("an app's share", () => {
  it("is the whole limit while the app is alone, and its part by weight beside others", async () => {
    const { budget, ask } = createScene([{ id: "web", weight: 3, perDay: null }]);
    await ask("web");
    expect(budget.shareOf("web")).toEqual([
      { name: "1m", limit: 60, windowSeconds: 60, remaining: 59, resetSeconds: 60 },
    ]);
    await ask("guest");
    await ask("web");
    expect(budget.shareOf("web")).toMatchObject([{ limit: 45, remaining: 43 }]);
    expect(budget.shareOf("guest")).toMatchObject([{ limit: 15, remaining: 14 }]);
  });

  it("includes its perDay, and is computed again after its own calls and after half a second", async () => {
    const { budget, ask, clock } = createScene([{ id: "web", weight: 1, perDay: 10 }]);
    const [before] = [budget.shareOf("web")];
    expect(before[1]).toMatchObject({ name: "per-day", limit: 10, remaining: 10 });
    expect(budget.shareOf("web")).toBe(before);
    await ask("web");
    const after = budget.shareOf("web");
    expect(after[1]).toMatchObject({ remaining: 9 });
    await clock.advance(500);
    expect(budget.shareOf("web")).not.toBe(after);
  });
});

describe("a budget", () => {
  it("shows what is left, which apps spent calls, and what waits", async () => {
    const { budget, ask, clock } = createScene();
    for (const app of ["a", "b", "a"]) await ask(app);
    expect(budget.windows()).toMatchObject([{ remaining: 57 }]);
    await clock.advance(SECOND);
    expect(budget.overview()).toMatchObject({
      mode: "alone",
      windows: [{ name: "1m", limit: 60, spent: 3, remaining: 57, byApp: { a: 2, b: 1 } }],
      queue: { interactive: 0, background: 0, refresh: 0, prefetch: 0 },
      circuits: [],
    });
  });

  it("counts unlisted apps beyond the first under `other` in metrics", async () => {
    const { ask, observed } = createScene([], 1);
    for (const app of ["a", "b"]) await ask(app);
    expect(observed).toEqual(["a miss", "other miss"]);
  });

  it("shows how long a circuit is open, and allows one call after that", async () => {
    const { budget, ask, clock } = createScene();
    const question = { resource: "listings", query: "?" } as const;
    expect([budget.isCoolingOff(question), budget.retryAfterSeconds("listings")]).toEqual([false, undefined]);
    await ask("a", { status: 503, slowDown: { cause: "unavailable", forMs: 10 * SECOND } });
    expect([budget.isCoolingOff(question), budget.retryAfterSeconds("listings")]).toEqual([true, 10]);
    expect(budget.retryAfterSeconds("areas")).toBeUndefined();
    await clock.advance(10 * SECOND);
    expect(budget.isCoolingOff(question)).toBe(false);
  });
});

describe("an overview of apps", () => {
  it("names the apps that spend most and adds up the rest as `other`", () => {
    const byApp = { a: 1, b: 5, c: 3, other: 2, idle: 0 };
    expect(topApps(byApp, 2)).toEqual({ b: 5, c: 3, other: 3 });
    expect(topApps({ a: 1 }, 2)).toEqual({ a: 1 });
  });
});
