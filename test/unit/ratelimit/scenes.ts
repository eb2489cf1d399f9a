/** What apps get on common days: the real queue on a fake clock, on one replica, and in the long tests on three. */
import { describe, expect, it } from "vitest";

import { MINUTE } from "../../support/calls-scene.ts";
import { type AppLoad, type Played, play } from "../../support/scenes.ts";

const DAY = 24 * 60 * MINUTE;
const HOUR = 60 * MINUTE;

const listed = (weights: Readonly<Record<string, number>>) =>
  Object.entries(weights).map(([id, weight]) => ({ id, weight, perDay: null }));
const ids = (count: number, perMinute: number): AppLoad[] =>
  Array.from({ length: count }, (_, index) => ({ app: `id${index}`, perMinute }));

/** What holds in every scene: hardly any call is refused late, and callers that come back are let in. */
function expectKept({ all, late }: Played): void {
  expect(late).toBeLessThanOrEqual(0.03);
  expect(all.letIn).toBeGreaterThanOrEqual(0.9 * all.cameBack);
}

/** @param seeds each scene is played with each of them */
export function playScenes(replicas: number, seeds: readonly number[]): void {
  describe.each(seeds)(`on ${replicas} replicas, seed %d,`, (seed) => {
    it.each([
      { others: 10, perMinute: 20 },
      { others: 50, perMinute: 10 },
    ])(
      "an app that asks $perMinute per minute for hours beside $others apps that ask once an hour is hardly refused",
      async ({ others, perMinute }) => {
        const windows = [
          { limit: 60, windowMs: MINUTE },
          { limit: 10_000, windowMs: DAY },
        ];
        const loads = [{ app: "one", perMinute }, ...ids(others, 1 / 60)];
        const seen = await play({ replicas, seed, windows, loads, forMs: 4 * HOUR });
        const one = seen.of("one");
        expectKept(seen);
        expect(one.answered).toBeGreaterThanOrEqual(0.98 * one.asked);
        expect(seen.all.asked - seen.all.answered).toBe(one.asked - one.answered);
      },
      60_000,
    );

    it("an unlisted crawler leaves listed apps that come later all that they need", async () => {
      const windows = [
        { limit: 120, windowMs: MINUTE },
        { limit: 2_000, windowMs: DAY },
      ];
      const loads = [
        { app: "crawler", loops: 20 },
        { app: "web", perMinute: 0.4, fromMs: 2 * MINUTE },
        { app: "ios", perMinute: 0.2, fromMs: 2 * MINUTE },
      ];
      const seen = await play({
        replicas,
        seed,
        windows,
        loads,
        listed: listed({ web: 1, ios: 1 }),
        forMs: DAY,
      });
      expectKept(seen);
      for (const app of ["web", "ios"]) expect(seen.of(app).answered).toBe(seen.of(app).asked);
      expect(seen.of("web").answered).toBeGreaterThan(500);
      expect(seen.of("crawler").answered).toBe(1_000);
    }, 60_000);

    it("a quiet app is served at once beside a hog, which gets what the quiet app leaves", async () => {
      const loads = [
        { app: "hog", loops: 60 },
        { app: "quiet", perMinute: 5 },
      ];
      const seen = await play({ replicas, seed, loads, forMs: 12 * MINUTE, countFromMs: MINUTE });
      const { asked, answered, waitedMs } = seen.of("quiet");
      if (replicas === 1) expect(answered).toBe(asked);
      // A refused call is not served at once.
      expect(waitedMs.filter((ms) => ms <= 400).length).toBeGreaterThanOrEqual(0.95 * asked);
      expect(seen.of("hog").answered).toBeGreaterThanOrEqual(0.8 * (11 * 60 - answered));
      expectKept(seen);
    }, 60_000);

    it("hungry apps share by weight, and use everything", async () => {
      const weights = { a: 4, b: 2, c: 1 };
      const loads = Object.keys(weights).map((app) => ({ app, perMinute: 120 }));
      const seen = await play({
        replicas,
        seed,
        loads,
        listed: listed(weights),
        forMs: 12 * MINUTE,
        countFromMs: 2 * MINUTE,
      });
      expectKept(seen);
      const total = seen.all.answered;
      for (const [app, weight] of Object.entries(weights)) {
        const part = seen.of(app).answered / total / (weight / 7);
        expect([app, part > 0.9 && part < 1.1, part]).toEqual([app, true, part]);
      }
      expect(seen.used).toBeGreaterThanOrEqual(0.98);
    }, 60_000);

    it("a hungry app that is alone uses everything, and is let in when it comes back", async () => {
      const seen = await play({
        replicas,
        seed,
        loads: [{ app: "one", loops: 30 }],
        forMs: 12 * MINUTE,
        countFromMs: MINUTE,
      });
      expect(seen.used).toBeGreaterThanOrEqual(0.99);
      expectKept(seen);
    }, 60_000);

    it("50 apps that ask for more than there is each get between half and twice the mean", async () => {
      const seen = await play({
        replicas,
        seed,
        loads: ids(50, 2),
        forMs: 22 * MINUTE,
        countFromMs: 2 * MINUTE,
      });
      expectKept(seen);
      const mean = seen.all.answered / 50;
      const answered = ids(50, 2).map(({ app }) => seen.of(app).answered);
      expect(Math.min(...answered)).toBeGreaterThanOrEqual(mean / 2);
      expect(Math.max(...answered)).toBeLessThanOrEqual(mean * 2);
    }, 60_000);

    it("a listed app beside 99 invented ids gets its share, and an honest unlisted app half of its calls", async () => {
      const loads = [{ app: "web", perMinute: 40 }, ...ids(99, 600 / 99), { app: "honest", perMinute: 1 }];
      const seen = await play({
        replicas,
        seed,
        loads,
        listed: listed({ web: 4 }),
        forMs: 12 * MINUTE,
        countFromMs: 2 * MINUTE,
      });
      expectKept(seen);
      expect(seen.of("web").answered / 10).toBeGreaterThanOrEqual(30);
      expect(seen.of("honest").answered).toBeGreaterThanOrEqual(0.5 * seen.of("honest").asked);
    }, 60_000);
  });
}
