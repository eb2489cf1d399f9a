/** The fair order over time: shares hold in every window, and apps use what others leave. */
import { describe, expect, it } from "vitest";

import { p95, play, type Play } from "./fair-simulation.ts";

const SECOND = 1_000;
const MINUTE = 60_000;
const HOUR = 3_600_000;

/** The part of each limit that was used from an instant on. */
function used(played: Awaited<ReturnType<typeof play>>, { windows, forMs }: Play, fromMs: number): number[] {
  return windows.map(
    ({ limit, windowMs }) => played.sent(undefined, fromMs) / ((limit * (forMs - fromMs)) / windowMs),
  );
}

const hog = { app: "hog", callers: 150, thinkMs: 0 };

describe("an unlisted app beside a greedy app with 150 callers at 20 per second", () => {
  it.each([
    { replicas: 1, most: 400 },
    { replicas: 3, most: 1_000 },
  ])(
    "waits at most $most ms at p95 on $replicas replicas, and at least 95 % is used",
    async ({ replicas, most }) => {
      const scene: Play = {
        windows: [{ limit: 20, windowMs: SECOND }],
        replicas,
        callers: [hog, { app: "quiet", callers: 1, thinkMs: SECOND, fromMs: 5 * SECOND }],
        forMs: MINUTE,
      };
      const played = await play(scene);
      const quiet = played.waits.get("quiet") ?? [];
      expect(quiet.length).toBeGreaterThan(40);
      expect(p95(quiet)).toBeLessThan(most / 4);
      expect(Math.max(...quiet.map(({ ms }) => ms))).toBeLessThan(most);
      expect(Math.min(...used(played, scene, 10 * SECOND))).toBeGreaterThan(0.97);
    },
  );
});

describe("on the default limit, an app that asks once a second beside 30 loops of another", () => {
  it.each([1, 3])("gets its share, on %i replicas", async (replicas) => {
    const scene: Play = {
      windows: [{ limit: 60, windowMs: MINUTE }],
      replicas,
      callers: [
        { ...hog, callers: 30 },
        { app: "looping", callers: 1, thinkMs: SECOND },
      ],
      forMs: 10 * MINUTE,
    };
    const played = await play(scene);
    const perMinute = ["hog", "looping"].map((app) => played.sent(app, MINUTE) / 9);
    for (const calls of perMinute) expect(calls).toBeGreaterThan(26);
    expect(Math.min(...used(played, scene, MINUTE))).toBeGreaterThan(0.97);
  });
});

/** Pairs of windows, and an app within its share of both, beside an app that takes everything it can get. */
describe("shares hold in every window", () => {
  const weights = [
    { id: "big", weight: 4, perDay: null },
    { id: "hog", weight: 1, perDay: null },
  ];
  it.each([
    {
      windows: [
        [60, MINUTE],
        [1_000, HOUR],
      ],
      everyMs: 10 * SECOND,
      replicas: 1,
      forMs: 3 * HOUR,
    },
    {
      windows: [
        [60, MINUTE],
        [1_000, HOUR],
      ],
      everyMs: 10 * SECOND,
      replicas: 3,
      forMs: 2 * HOUR,
    },
    {
      windows: [
        [60, MINUTE],
        [1_000, HOUR],
      ],
      everyMs: 6 * SECOND,
      replicas: 1,
      forMs: 2 * HOUR,
    },
    {
      windows: [
        [10, SECOND],
        [100, MINUTE],
      ],
      everyMs: SECOND,
      replicas: 1,
      forMs: 10 * MINUTE,
    },
    {
      windows: [
        [20, SECOND],
        [600, MINUTE],
      ],
      everyMs: 200,
      replicas: 3,
      forMs: 5 * MINUTE,
    },
    {
      windows: [
        [5, SECOND],
        [60, MINUTE],
      ],
      everyMs: 3 * SECOND,
      replicas: 1,
      forMs: 10 * MINUTE,
    },
    {
      windows: [
        [100, MINUTE],
        [400, 10 * MINUTE],
      ],
      everyMs: 5 * SECOND,
      replicas: 1,
      forMs: 50 * MINUTE,
    },
  ] as const)(
    "$windows, asking every $everyMs ms, $replicas replicas",
    async ({ windows, everyMs, replicas, forMs }) => {
      const limits = windows.map(([limit, windowMs]) => ({ limit, windowMs }));
      const scene: Play = {
        windows: limits,
        listed: weights,
        replicas,
        callers: [
          { ...hog, callers: 10 },
          { app: "big", callers: 1, thinkMs: everyMs - 50 },
        ],
        forMs,
        latencyMs: 50,
      };
      const played = await play(scene);
      const big = played.waits.get("big") ?? [];
      const longest = limits.at(-1)?.windowMs ?? 0;
      // The app is never locked out, neither while the windows fill nor later.
      expect(Math.max(...big.map(({ ms }) => ms))).toBeLessThan(longest / 10);
      expect(p95(big)).toBeLessThan(everyMs / 2);
      expect(Math.max(...used(played, scene, longest))).toBeGreaterThan(0.95);
    },
  );
});

describe("unlisted apps together", () => {
  it("get no more than listed apps while these want their share", async () => {
    const inventor = (id: number) => ({ app: `invented-${id}`, callers: 3, thinkMs: 0 });
    const scene: Play = {
      windows: [{ limit: 100, windowMs: 10 * SECOND }],
      listed: [{ id: "web", weight: 1, perDay: null }],
      callers: [
        { app: "web", callers: 30, thinkMs: 0 },
        ...Array.from({ length: 20 }, (_, id) => inventor(id)),
      ],
      forMs: 2 * MINUTE,
    };
    const played = await play(scene);
    expect(played.sent("web", 20 * SECOND) / played.sent(undefined, 20 * SECOND)).toBeGreaterThan(0.47);
  });

  it("get everything when no app is listed, in equal shares", async () => {
    const scene: Play = {
      windows: [{ limit: 100, windowMs: 10 * SECOND }],
      callers: Array.from({ length: 5 }, (_, id) => ({ app: `app-${id}`, callers: 2 + id * 5, thinkMs: 0 })),
      forMs: 2 * MINUTE,
    };
    const played = await play(scene);
    const sent = scene.callers.map(({ app }) => played.sent(app, 20 * SECOND));
    expect(Math.min(...sent) / Math.max(...sent)).toBeGreaterThan(0.9);
  });
});

describe("predicted waits", () => {
  it.each([1, 3])("are right for at least 99 % of the calls, on %i replicas", async (replicas) => {
    const scene: Play = {
      windows: [{ limit: 20, windowMs: SECOND }],
      replicas,
      callers: [
        { ...hog, callers: 300 },
        ...Array.from({ length: 5 }, (_, id) => ({
          app: `app-${id}`,
          callers: 4,
          thinkMs: 2 * SECOND,
          fromMs: 10 * SECOND,
        })),
      ],
      forMs: 2 * MINUTE,
      maxWaitMs: 8 * SECOND,
    };
    const { refusedAtOnce, refusedLate, sent } = await play(scene);
    expect(refusedAtOnce()).toBeGreaterThan(100);
    // By then the predictions include the later apps, and the replicas know each other's queues.
    const fromMs = 20 * SECOND;
    expect(refusedLate.filter((at) => at >= fromMs).length / sent(undefined, fromMs)).toBeLessThan(0.01);
  });

  it.each([1, 2, 3])(
    "are right for at least 99 % of the calls on the default limit, on %i replicas",
    async (replicas) => {
      const scene: Play = {
        windows: [{ limit: 60, windowMs: MINUTE }],
        replicas,
        callers: [
          { ...hog, callers: 30 },
          { app: "looping", callers: 1, thinkMs: SECOND },
        ],
        forMs: 10 * MINUTE,
        maxWaitMs: 10 * SECOND,
      };
      const { refusedLate, sent } = await play(scene);
      const fromMs = 2 * MINUTE;
      expect(sent(undefined, fromMs)).toBeGreaterThan(8 * 57);
      expect(refusedLate.filter((at) => at >= fromMs).length / sent(undefined, fromMs)).toBeLessThan(0.01);
    },
  );
});
