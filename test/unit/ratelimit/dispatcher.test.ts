/** The queue in front of the upstream: which calls go, which wait, and which are refused. */
import { describe, expect, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import type { Acquired } from "../../../src/ratelimit/limiter.ts";
import type { Waiting, RefuseLate } from "../../../src/types.ts";
import { createFakeClock, settled } from "../../support/fake-clock.ts";
import { createFakeLimiters, type FakeLimiter } from "../../support/fake-limiter.ts";
import { ANSWERED, comeTrue, createScene, MINUTE, passUntil, SECOND } from "./dispatcher-support.ts";

const ONE_A_SECOND = [{ limit: 1, windowMs: SECOND }];

function codeOf(result: unknown): unknown {
  return result instanceof Problem ? result.code : result;
}

describe("a call", () => {
  it("starts without a timer when nothing waits and a permit is free", async () => {
    const { call, clock } = createScene();
    const first = call("app");
    await settled();
    expect(first.hasStarted()).toBe(true);
    expect(clock.pending).toBe(0);
    first.answer();
    expect(await first.result).toBe(ANSWERED);
  });

  it("waits for a permit, and departs when one is free", async () => {
    const { call, ask, clock, dispatcher } = createScene({ windows: ONE_A_SECOND });
    await ask();
    const second = call("app");
    await settled();
    expect([second.hasStarted(), dispatcher.queueLength("interactive")]).toEqual([false, 1]);
    await passUntil(clock, second.hasStarted);
    expect(dispatcher.queueLength("interactive")).toBe(0);
  });

  it("departs as soon as a permit is free, while a call that waited before it is still in flight", async () => {
    const { call, ask, clock } = createScene({ windows: ONE_A_SECOND });
    await ask();
    const slow = call("app");
    await passUntil(clock, slow.hasStarted);
    const next = call("app");
    await passUntil(clock, next.hasStarted);
  });

  it("departs while the call that it joined behind is in flight, even if it joined in the moment of that departure", async () => {
    const clock = createFakeClock();
    const limiters = createFakeLimiters({ windows: ONE_A_SECOND, now: clock.monotonic });
    let onAnnounced = (): void => undefined;
    const limiter = limiters.join();
    const join = (): FakeLimiter => ({
      ...limiter,
      announce(waiting) {
        limiter.announce(waiting);
        onAnnounced();
      },
    });
    const { call, ask } = createScene({ windows: ONE_A_SECOND, clock, limiters: { ...limiters, join } });
    await ask();
    const slow = call("app");
    await settled();
    const { promise: joined, resolve } = Promise.withResolvers<ReturnType<typeof call>>();
    // The queue announces that the slow call has left it, before that call starts.
    onAnnounced = () => {
      onAnnounced = () => undefined;
      resolve(call("app"));
    };
    await passUntil(clock, slow.hasStarted);
    await passUntil(clock, (await joined).hasStarted);
  });

  it("departs after a call before it was refused a permit and could not wait for one", async () => {
    const clock = createFakeClock();
    const limiters = createFakeLimiters({ windows: ONE_A_SECOND, now: clock.monotonic });
    const limiter = limiters.join();
    const { promise: refusal, resolve: refuse } = Promise.withResolvers<Acquired>();
    const replies = [refusal];
    const join = (): FakeLimiter => ({
      ...limiter,
      acquire: (request) => replies.shift() ?? limiter.acquire(request),
    });
    const { call, dispatcher } = createScene({ clock, concurrency: 1, limiters: { ...limiters, join } });
    const hurried = call("app", {}, { deadlineAt: () => clock.now() + SECOND });
    await settled();
    const next = call("app");
    await settled();
    expect(dispatcher.queueLength("interactive")).toBe(1);
    // A moment for Bottleneck, so that the next call waits for room.
    await comeTrue(() => clock.pending > 2);
    refuse({ kind: "wait", until: clock.monotonic() + 5 * SECOND, reason: "budget" });
    expect(codeOf(await hurried.result)).toBe("temporary-reduced-capacity");
    await passUntil(clock, next.hasStarted);
  });

  it("departs even if the limiter failed for the call before it", async () => {
    const limiters = createFakeLimiters({ windows: ONE_A_SECOND, now: () => 0 });
    const limiter = limiters.join();
    const faults = [new Error("a bug")];
    const join = (): FakeLimiter => ({
      ...limiter,
      acquire: (request) => (faults.length > 0 ? Promise.reject(faults.pop()) : limiter.acquire(request)),
    });
    const { call } = createScene({ concurrency: 1, limiters: { ...limiters, join } });
    expect(await call("app").result).toMatchObject({ message: "a bug" });
    const next = call("app");
    await comeTrue(next.hasStarted);
  });

  it("departs even if it waited while the limiter failed for the call before it", async () => {
    const limiters = createFakeLimiters({ windows: ONE_A_SECOND, now: () => 0 });
    const limiter = limiters.join();
    const { promise: reply, reject } = Promise.withResolvers<Acquired>();
    const replies = [reply];
    const join = (): FakeLimiter => ({
      ...limiter,
      acquire: (request) => replies.shift() ?? limiter.acquire(request),
    });
    const { call, dispatcher, clock } = createScene({ concurrency: 1, limiters: { ...limiters, join } });
    const failing = call("app");
    await settled();
    const next = call("app");
    // A moment for Bottleneck, so that the next call waits for room.
    await comeTrue(() => dispatcher.queueLength("interactive") === 1 && clock.pending > 2);
    reject(new Error("a bug"));
    expect(await failing.result).toMatchObject({ message: "a bug" });
    await comeTrue(next.hasStarted);
  });

  it("waits while too many calls are in flight", async () => {
    const { call } = createScene({ concurrency: 1 });
    const [first, second] = [call("app"), call("app")];
    await settled();
    expect(second.hasStarted()).toBe(false);
    first.answer();
    await comeTrue(second.hasStarted);
  });

  it("departs without a delay when a call before it ends", async () => {
    const { call } = createScene({ concurrency: 1 });
    const calls = Array.from({ length: 20 }, () => call("app"));
    calls[0]?.answer();
    await comeTrue(() => calls[1]?.hasStarted() === true);
    for (const [index, { answer, result }] of calls.entries()) {
      answer();
      await result;
      await settled();
      expect(calls[index + 1]?.hasStarted() ?? true).toBe(true);
    }
  });

  it("leaves the queue and costs nothing when no caller waits for it any more", async () => {
    const { call, ask, limiters, dispatcher } = createScene({ windows: ONE_A_SECOND });
    await ask();
    const gone = new AbortController();
    const second = call("app", {}, { abandoned: gone.signal });
    await settled();
    gone.abort();
    expect(await second.result).toMatchObject({ details: { refusedHere: true } });
    expect([dispatcher.queueLength("interactive"), limiters.sends.length]).toEqual([0, 1]);
  });

  it("overtakes calls of lower priority", async () => {
    const { call, ask, clock, departed } = createScene({ windows: [{ limit: 5, windowMs: SECOND }] });
    await Promise.all([1, 2, 3, 4].map(() => ask()));
    await ask();
    const prefetch = call("nightly", {}, { priority: () => "prefetch" });
    const interactive = call("web");
    await passUntil(clock, () => prefetch.hasStarted() && interactive.hasStarted());
    expect(departed.slice(5)).toEqual(["web", "nightly"]);
  });

  it("counts as reset when its job does not report the end", async () => {
    const { dispatcher, limiters } = createScene();
    const order = { app: "app", cause: "miss", resource: "listings", query: "?" } as const;
    const waiting = { ...unwatched(), apps: () => ["app"] };
    const lost = dispatcher.run({ ...order, waiting }, async () => {
      throw new Error("a bug");
    });
    await expect(lost).rejects.toThrow("a bug");
    expect(limiters.completed).toMatchObject([{ status: "reset" }]);
  });
});

describe("a call that several apps wait for", () => {
  it("is sent once, and charged to the app that is first in the fair order", async () => {
    const { call, ask, clock, limiters } = createScene({ windows: [{ limit: 4, windowMs: SECOND }] });
    await ask({ app: "quiet" });
    for (let index = 0; index < 3; index++) await ask({ app: "hog" });
    const shared = call("hog", {}, { apps: () => ["hog", "quiet"] });
    await passUntil(clock, shared.hasStarted);
    expect(limiters.sends.slice(4).map(({ request }) => request.app)).toEqual(["quiet"]);
    shared.answer();
    expect(await shared.result).toBe(ANSWERED);
  });

  it("is charged to an app that joins while the call waits, if that app is first", async () => {
    const { call, ask, clock, limiters } = createScene({ windows: [{ limit: 4, windowMs: SECOND }] });
    for (let index = 0; index < 4; index++) await ask({ app: index === 0 ? "quiet" : "hog" });
    const apps = ["hog"];
    let joined = (): void => undefined;
    const shared = call("hog", {}, { apps: () => apps, onChange: (listen) => void (joined = listen) });
    await settled();
    apps.push("quiet");
    joined();
    await passUntil(clock, shared.hasStarted);
    expect(limiters.sends.at(-1)?.request.app).toBe("quiet");
  });
});

describe("calls in flight", () => {
  it("are shared: while calls of other apps wait, no app has more than its share", async () => {
    const { call, departed } = createScene({ concurrency: 4 });
    const hog = Array.from({ length: 8 }, () => call("hog"));
    await settled();
    const quiet = Array.from({ length: 4 }, () => call("quiet"));
    await settled();
    for (const slow of hog.slice(0, 4)) slow.answer();
    await comeTrue(() => departed.length >= 8);
    expect(departed.slice(4, 8).toSorted()).toEqual(["hog", "hog", "quiet", "quiet"]);
    expect(hog.filter((slow) => slow.hasStarted())).toHaveLength(6);
    for (const one of [...hog, ...quiet]) one.answer();
    await Promise.all([...hog, ...quiet].map(({ result }) => result));
  });

  it("leave room for an app that was seen a moment ago, beside slow calls of another app", async () => {
    const { call, ask } = createScene({ concurrency: 6 });
    await ask({ app: "quiet" });
    const hog = Array.from({ length: 12 }, () => call("hog"));
    await settled();
    const quiet = call("quiet");
    await comeTrue(quiet.hasStarted);
    expect(hog.filter((slow) => slow.hasStarted())).toHaveLength(5);
  });

  it("are never all background work", async () => {
    const { call } = createScene({ concurrency: 2 });
    const refreshes = [1, 2].map(() => call("app", {}, { priority: () => "refresh" }));
    await settled();
    const urgent = call("app");
    await comeTrue(urgent.hasStarted);
    expect(refreshes.map((refresh) => refresh.hasStarted())).toEqual([true, false]);
  });
});

describe("a call with a deadline", () => {
  const within = (clock: { now: () => number }, ms: number): Partial<Waiting> => ({
    deadlineAt: (
      (at) => () =>
        at
    )(clock.now() + ms),
  });

  it("is refused at once when there is no time for the permit, with the time until one is free", async () => {
    const { call, ask, clock, refused } = createScene({ windows: [{ limit: 1, windowMs: MINUTE }] });
    await ask();
    await clock.advance(20_500);
    const late = await call("app", {}, within(clock, 10 * SECOND)).result;
    expect(late).toMatchObject({ code: "temporary-reduced-capacity", details: { retryAfterSeconds: 40 } });
    expect(refused).toEqual(["app: budget"]);
  });

  it("is refused at once when there is time for the permit but not for a usual call", async () => {
    const { call, clock, limiters } = createScene({ windows: ONE_A_SECOND });
    const slow = call("app");
    await clock.advance(3 * SECOND);
    slow.answer();
    await slow.result;
    const next = call("app");
    await settled();
    next.answer();
    const late = call("app", {}, within(clock, 3_500));
    expect(codeOf(await late.result)).toBe("temporary-reduced-capacity");
    expect(limiters.sends).toHaveLength(2);
  });

  it("is refused when its deadline passes in the queue, with the reason of the wait", async () => {
    const { call, clock, refused } = createScene({ concurrency: 1 });
    const slow = call("app");
    await settled();
    const late = call("app", {}, within(clock, SECOND));
    await passUntil(clock, () => refused.length > 0);
    expect(await late.result).toMatchObject({
      code: "temporary-reduced-capacity",
      details: { late: true, retryAfterSeconds: 1 },
    });
    slow.answer();
    expect(refused).toEqual(["app: deadline"]);
  });

  it("refuses one of several callers alone while it waits, and none after it has departed", async () => {
    const { call, ask, clock } = createScene({ windows: ONE_A_SECOND });
    await ask();
    let refuseLate: RefuseLate = () => undefined;
    const shared = call("app", {}, { inQueue: (refuse) => void (refuseLate = refuse) });
    await settled();
    expect(refuseLate({ app: "app", priority: "interactive" })).toMatchObject({ details: { late: true } });
    await passUntil(clock, shared.hasStarted);
    expect(refuseLate({ app: "app", priority: "interactive" })).toBeUndefined();
  });
});

describe("a refusal names what is used up:", () => {
  const windows = [{ limit: 10, windowMs: MINUTE }];

  it("the budget of all apps", async () => {
    const { ask, clock, call } = createScene({ windows });
    for (let index = 0; index < 10; index++) await ask({ app: "hog" });
    const refused = await call("quiet", {}, { deadlineAt: () => clock.now() + 10 * SECOND }).result;
    expect(refused).toMatchObject({ code: "temporary-reduced-capacity", details: { retryAfterSeconds: 60 } });
  });

  it("the app's share, and the rest of the window is spread evenly", async () => {
    const { ask, clock, call } = createScene({ windows });
    await ask({ app: "quiet" });
    for (let index = 0; index < 6; index++) await ask({ app: "hog" });
    const refused = await call("hog", {}, { deadlineAt: () => clock.now() + 10 * SECOND }).result;
    expect(refused).toMatchObject({
      code: "quota-exceeded",
      details: { retryAfterSeconds: 15, ofApp: "hog" },
    });
    expect(await ask({ app: "quiet" })).toBe(ANSWERED);
  });

  it("the app's perDay", async () => {
    const listed = [{ id: "nightly", weight: 1, perDay: 2 }];
    const { ask } = createScene({ listed, perDay: new Map([["nightly", 2]]) });
    for (let index = 0; index < 2; index++) await ask({ app: "nightly" });
    const waiting = { ...unwatched(), apps: () => ["nightly"], deadlineAt: () => 0 };
    expect(await ask({ app: "nightly", waiting })).toMatchObject({
      code: "quota-exceeded",
      details: { retryAfterSeconds: 86_400 },
    });
  });
});

describe("in mode observe", () => {
  it("nothing waits for a permit, and refusals are only reported", async () => {
    const { ask, refused, limiters } = createScene({
      windows: [{ limit: 1, windowMs: MINUTE }],
      mode: "observe",
    });
    await ask();
    const waiting = { ...unwatched(), deadlineAt: () => Date.UTC(2026, 0, 15, 12) };
    expect(await ask({ waiting })).toBe(ANSWERED);
    expect(limiters.sends).toHaveLength(2);
    expect(refused).toEqual(["app: budget, not enforced"]);
  });
});

describe("a closed dispatcher", () => {
  it("rejects waiting calls and new ones", async () => {
    const { call, ask, dispatcher } = createScene({ windows: ONE_A_SECOND });
    await ask();
    const waiting = call("app");
    await settled();
    dispatcher.close(new Problem("shutting-down"));
    expect(codeOf(await waiting.result)).toBe("shutting-down");
    expect(codeOf(await ask())).toBe("shutting-down");
  });
});

function unwatched(): Waiting {
  return {
    abandoned: new AbortController().signal,
    deadlineAt: () => Number.POSITIVE_INFINITY,
    priority: () => "interactive",
    apps: () => [],
    onChange: () => undefined,
    inQueue: () => undefined,
  };
}
