/**
 * A model of the queue on a fake clock, where jobs start without any delay: random apps, deadlines, callers that hang up,
 * and an upstream that fails for a while.
 */
import fc from "fast-check";
import { expect, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import type { Limiter, News } from "../../../src/ratelimit/limiter.ts";
import { ANSWERED, createScene, fakeTime, listedWith, MINUTE, SECOND } from "../../support/calls-scene.ts";
import { mostWithin } from "../../support/arrivals.ts";
import { createFakeLimiters } from "../../support/limiters.ts";
import { waitingOf } from "../../support/waiting.ts";

const ASK = fc.record({
  app: fc.constantFrom("web", "ios", "id1", "id2", "id3"),
  atMs: fc.integer({ min: 0, max: 2 * MINUTE }),
  deadlineMs: fc.integer({ min: 1, max: 20 * SECOND }),
  hangsUpMs: fc.option(fc.integer({ min: 0, max: 5 * SECOND }), { nil: undefined }),
  lastsMs: fc.integer({ min: 0, max: 3 * SECOND }),
  status: fc.constantFrom(200, 200, 200, 500),
});
type Ask = typeof ASK extends fc.Arbitrary<infer T> ? T : never;
const LIMITS = [
  { limit: 5, windowMs: 10 * SECOND },
  { limit: 12, windowMs: MINUTE },
];

/** @param change replaces methods of the limiter */
function sceneWith(change: (limiter: Limiter) => Partial<Limiter>, options: object = {}) {
  const clock = fakeTime();
  const limiters = createFakeLimiters({ windows: LIMITS, clock });
  const limiter = limiters.join();
  const join = (): Limiter => ({ ...limiter, ...change(limiter) });
  return createScene({ clock, windows: LIMITS, ...options, limiters: { ...limiters, join } });
}

it("keeps every window, answers every caller by its deadline, and loses no permit", async () => {
  const clock = fakeTime();
  const play = async (asks: readonly Ask[], spacingMs: number): Promise<void> => {
    const listed = listedWith({ web: 4, ios: 1 });
    const scene = createScene({ clock, windows: LIMITS, listed, concurrency: 3, spacingMs });
    const startedAt = clock.now();
    let [ended, abandonedCalls] = [0, 0];
    const start = async ({ app, deadlineMs, hangsUpMs, lastsMs, status }: Ask, n: number): Promise<void> => {
      const hangUp = new AbortController();
      const deadlineAt = clock.now() + deadlineMs;
      if (hangsUpMs !== undefined) clock.after(hangsUpMs, () => hangUp.abort());
      let departed = false;
      const waiting = { ...waitingOf({ deadlineAt, abandoned: hangUp.signal }), apps: () => [app] };
      await scene.calls
        .run({ app, cause: "miss", resource: "listings", query: `q${n}`, waiting }, async (settle) => {
          departed = true;
          if (hangUp.signal.aborted) abandonedCalls++;
          await new Promise<void>((resolve) => void clock.after(lastsMs, resolve));
          settle({ status, arrivedAfterMs: 0, durationMs: lastsMs });
        })
        .catch(() => undefined);
      ended++;
      // A caller whose call was sent waits for the call, and leaves by its own deadline elsewhere.
      if (!departed) expect(clock.now()).toBeLessThanOrEqual(deadlineAt + 1);
    };
    for (const [n, asked] of asks.entries()) clock.after(asked.atMs, () => void start(asked, n));
    await clock.advance(3 * MINUTE);
    const at = scene.limiters.sends.map((send) => send.at);
    for (const { limit, windowMs } of LIMITS) expect(mostWithin(at, windowMs)).toBeLessThanOrEqual(limit);
    expect([ended, abandonedCalls]).toEqual([asks.length, 0]);
    // Every permit that was not given back belongs to a call that ended.
    expect(scene.limiters.completed).toHaveLength(scene.limiters.sends.length);
    expect([scene.calls.waiting("interactive"), scene.calls.inFlight()]).toEqual([0, 0]);
    expect(clock.now() - startedAt).toBe(3 * MINUTE);
  };
  await fc.assert(fc.asyncProperty(fc.array(ASK, { maxLength: 60 }), fc.constantFrom(0, 25), play), {
    numRuns: 40,
  });
}, 60_000);

it("a caller that hangs up while its call gets its permit never costs a call", async () => {
  const hangUp = new AbortController();
  const { call, clock, limiters } = sceneWith(({ acquire }) => ({
    acquire: (request) => acquire(request).finally(() => hangUp.abort()),
  }));
  const abandoned = call("app", {}, { abandoned: hangUp.signal });
  await clock.advance(SECOND);
  expect([hangUp.signal.aborted, abandoned.hasStarted(), limiters.sends]).toEqual([true, false, []]);
});

it("sends a call at once although answers usually take longer than its caller waits: they may be faster now", async () => {
  const { call, clock } = createScene({ spacingMs: 25 });
  for (let n = 0; n < 50; n++) call("app", { query: `q${n}` }).answer({ durationMs: 5 * SECOND });
  await clock.advance(2 * SECOND);
  const waiting = waitingOf({ deadlineAt: clock.now() + SECOND });
  const calls = ["a", "b"].map((query) => call("app", { query }, waiting));
  await clock.advance(50);
  expect(calls.map(({ hasStarted }) => hasStarted())).toEqual([true, true]);
});

it("calls go on when the time of day is set back by an hour, also one that waits for the end of another", async () => {
  const { call, clock } = createScene({ spacingMs: 25, concurrency: 1 });
  const calls = ["first", "second", "third"].map((query) => call("app", { query }));
  await clock.advance(0);
  Object.assign(Date, { now: () => clock.now() - 60 * MINUTE });
  for (const { answer } of calls) answer();
  await clock.advance(100);
  expect(calls.map(({ hasStarted }) => hasStarted())).toEqual([true, true, true]);
});

it("a call that has waited too long to be answered in time leaves its permit to the next one", async () => {
  const { ask, call, clock } = createScene({ concurrency: 1 });
  for (let n = 0; n < 50; n++) await ask({ query: `q${n}` }, { durationMs: 2 * SECOND });
  const slow = call("app", { query: "slow" });
  const first = call("app", { query: "first" }, waitingOf({ deadlineAt: clock.now() + 5 * SECOND }));
  await clock.advance(3_500);
  const second = call("app", { query: "second" }, waitingOf({ deadlineAt: clock.now() + 5 * SECOND }));
  slow.answer();
  await clock.advance(100);
  expect([first.hasStarted(), second.hasStarted()]).toEqual([false, true]);
  expect(await first.result).toMatchObject({ code: "temporary-reduced-capacity" });
});

it("a refresh waits for its permit until its deadline, however long answers take: no caller waits for its answer", async () => {
  const { ask, call, clock } = createScene({ windows: [{ limit: 5, windowMs: 10 * SECOND }] });
  for (let n = 0; n < 4; n++) await ask({ query: `q${n}` }, { durationMs: 5 * SECOND });
  await clock.advance(9 * SECOND);
  const waiting = { deadlineAt: clock.now() + 3 * SECOND, priority: "refresh" } as const;
  const refresh = call("app", { cause: "refresh", query: "old" }, waitingOf(waiting));
  await clock.advance(2 * SECOND);
  expect(refresh.hasStarted()).toBe(true);
});

it.each([
  { name: "spacingMs apart", limit: 1_000, windowMs: MINUTE, apartMs: 25 },
  { name: "closer if the shortest window could not be used", limit: 100, windowMs: SECOND, apartMs: 5 },
])("calls of a burst leave $name", async ({ limit, windowMs, apartMs }) => {
  const scene = createScene({ windows: [{ limit, windowMs }], concurrency: 100, spacingMs: 25 });
  for (let index = 0; index < 30; index++) scene.call("app", { query: `q${index}` }).answer();
  await scene.clock.advance(10 * SECOND);
  const at = scene.limiters.sends.map((send) => send.at);
  const gaps = at.slice(1).map((each, index) => each - (at[index] ?? 0));
  expect(gaps).toEqual(Array.from({ length: 29 }, () => apartMs));
});

it("a call that can go at once is not told to the other replicas, which know it as spent a moment later", async () => {
  const told: string[] = [];
  const announce = (news: readonly News[]) => void told.push(...news.map(([what]) => what));
  const scene = sceneWith(() => ({ announce }), { replicas: 2 });
  for (let index = 0; index < 5; index++) await scene.ask({ query: `q${index}` });
  expect(new Set(told)).toEqual(new Set(["asked"]));
  scene.call("app", { query: "one too many" });
  await scene.clock.advance(SECOND);
  expect(told).toContain("interactive");
});

it("a caller that waited in vain for the end of other calls comes back when those that wait are answered", async () => {
  const scene = createScene({ concurrency: 2 });
  for (let index = 0; index < 100; index++) await scene.ask({}, { durationMs: 3 * SECOND });
  const waiting = waitingOf({ deadlineAt: scene.clock.now() + 10 * SECOND });
  const calls = Array.from({ length: 22 }, (_, index) => scene.call("app", { query: `q${index}` }, waiting));
  await scene.clock.advance(11 * SECOND);
  // 20 calls wait. Two are answered every three seconds.
  expect(await calls[2]?.result).toMatchObject({ details: { retryAfterSeconds: 30 } });
});

it("while more calls than the limit count, no call waits for permits that the first ones to leave do not free", async () => {
  const windows = [{ limit: 5, windowMs: 20 * SECOND }];
  const { ask, budget, clock, config } = createScene({ windows, mode: "observe" });
  for (let n = 0; n < 20; n++) {
    await ask({ query: `q${n}` });
    await clock.advance(SECOND);
  }
  budget.configure({ ...config, mode: "enforce" });
  // Sixteen calls must leave the window, one each second. The deadline is in ten seconds.
  const deadlineAt = clock.now() + 10 * SECOND;
  const refused = await ask({ query: "refused", waiting: waitingOf({ deadlineAt }) });
  expect(refused).toMatchObject({ details: { retryAfterSeconds: 16 } });
});

it("apps that wait for the end of other calls take turns by weight", async () => {
  const listed = listedWith({ a: 4, b: 2, c: 1 });
  const scene = createScene({ listed, concurrency: 1 });
  for (let index = 0; index < 70; index++)
    for (const { id } of listed) scene.call(id, { query: `q${index}` }).answer();
  await scene.clock.advance(MINUTE);
  const first = scene.departed.slice(0, 70);
  expect(listed.map(({ id }) => first.filter((app) => app === id).length)).toEqual([40, 20, 10]);
});

const [DAY, EQUAL] = [24 * 60 * MINUTE, { web: 1, hog: 1 }];

it.each([
  { what: "a quarter of its share to a listed app", windowMs: DAY, weights: EQUAL, got: [0, 70, 10] },
  { what: "no more than its perDay to it", windowMs: DAY, weights: EQUAL, perDay: 4, got: [0, 76, 4] },
  { what: "as much as it used to an unlisted app", windowMs: DAY, weights: {}, used: 10, got: [10, 60, 10] },
  // A tenth of a short window is free for any app.
  { what: "nothing beyond perDay", windowMs: MINUTE, weights: EQUAL, perDay: 4, used: 20, got: [4, 68, 0] },
])("an app leaves $what", async ({ weights, perDay = null, used = 0, windowMs, got }) => {
  const listed = listedWith(weights).map((app) => ({ ...app, perDay: app.id === "web" ? perDay : null }));
  const scene = createScene({ listed, windows: [{ limit: 80, windowMs }] });
  const waiting = waitingOf({ deadlineAt: scene.clock.now() + SECOND });
  const answered = async (app: string, asked: number): Promise<number> => {
    const before = scene.departed.length;
    for (let index = 0; index < asked; index++)
      await scene.ask({ app, query: `q${before + index}`, waiting: { ...waiting, apps: () => [app] } });
    return scene.departed.length - before;
  };
  expect([await answered("web", used), await answered("hog", 80), await answered("web", 20)]).toEqual(got);
});

it("a caller that comes back much too early is treated like any other", async () => {
  const { clock, ask } = createScene({ windows: [{ limit: 60, windowMs: MINUTE }] });
  const answered = async (app: string, query: string): Promise<boolean> => {
    const waiting = { ...waitingOf({ deadlineAt: clock.now() + SECOND }), apps: () => [app] };
    return (await ask({ app, query, waiting })) === ANSWERED;
  };
  expect(await answered("quiet", "q")).toBe(true);
  // A tenth of the window is left to others.
  for (let n = 0; n < 53; n++) expect(await answered("hog", `q${n}`)).toBe(true);
  for (const _ of [1, 2]) expect(await answered("hog", "same")).toBe(false);
  await clock.advance(MINUTE + SECOND);
  expect(await answered("hog", "same")).toBe(true);
});

it("from the change to observe on, no call waits for a permit", async () => {
  const clock = fakeTime();
  const windows = [{ limit: 1, windowMs: 24 * 60 * MINUTE }];
  const limiters = createFakeLimiters({ windows, clock });
  const waiting = waitingOf({ deadlineAt: clock.now() + MINUTE });
  const [, second] = [1, 2].map(() => {
    const scene = createScene({ clock, windows, limiters });
    // Both expect the only permit.
    scene.call("app", {}, waiting).answer();
    return scene;
  });
  await clock.advance(2 * SECOND);
  second?.budget.configure({ ...second.config, mode: "observe" });
  const observed = second?.call("app", { query: "observed" }, waiting);
  await clock.advance(SECOND);
  // The call that had waited goes, too. No caller was told to come back, so no permit is kept.
  expect([limiters.sends.length, observed?.hasStarted()]).toEqual([3, true]);
  expect(second?.calls.admission.promises.queued()).toEqual([]);
});

it.each([
  { when: "from a change of the settings on", isChanged: true, withinMs: 100 },
  { when: "a moment after a refusal", isChanged: false, withinMs: SECOND },
])("$when the limiter is asked again", async ({ isChanged, withinMs }) => {
  let isSpent = true;
  const { budget, config, call, clock, limiters } = sceneWith(({ acquire }) => ({
    acquire: async (request) => (isSpent ? { kind: "wait", reason: "budget" } : await acquire(request)),
  }));
  const waiting = waitingOf({ deadlineAt: clock.now() + MINUTE });
  call("app", {}, waiting);
  await clock.advance(SECOND);
  isSpent = false;
  if (isChanged) budget.configure(config);
  const next = call("app", { query: "next" }, waiting);
  await clock.advance(withinMs);
  expect([limiters.sends.length, next.hasStarted()]).toEqual([2, true]);
});

it("after the stop, a call is refused at once with the reason", async () => {
  const { calls, ask } = createScene();
  await calls.stop(new Problem("shutting-down"));
  expect(await ask()).toMatchObject({ code: "shutting-down" });
});

it("looks twice a second at calls that wait, also if many calls may be in flight", async () => {
  let looks = 0;
  const { call, clock } = sceneWith(({ state }) => ({ state: () => (looks++, state()) }), {
    concurrency: 50,
  });
  const waiting = waitingOf({ deadlineAt: clock.now() + MINUTE });
  for (let index = 0; index < 20; index++) call("app", { query: `q${index}` }, waiting).answer();
  await clock.advance(SECOND);
  looks = 0;
  await clock.advance(5 * SECOND);
  // Each time, it looks for calls to refuse, and for one to send.
  expect(looks).toBe(20);
});
