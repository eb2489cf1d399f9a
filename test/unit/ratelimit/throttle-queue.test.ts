import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createFakeClock } from "../../support/fake-clock.ts";
import { waitingOf } from "../../support/waiting.ts";
import { MINUTE } from "./arbiter-support.ts";
import {
  advanceUntil,
  AMPLE,
  atOnce,
  bringing,
  createSetting,
  type Ended,
  errorOf,
  heldJob,
  NEVER,
  ONE_A_MINUTE,
  turnsElsewhere,
  waiting,
} from "./throttle-support.ts";
import { mostWithinClosed } from "./windows-support.ts";

describe("jobs on their way", () => {
  it("are never more than the concurrency, however they come and go", async () => {
    const { throttled } = createSetting({ concurrency: 3 });
    let active = 0;
    let peak = 0;
    const jobs = Array.from({ length: 12 }, () => heldJob());
    const all = jobs.map(({ job }) =>
      throttled(async (ended) => {
        peak = Math.max(peak, (active += 1));
        await job(ended);
        active -= 1;
      }),
    );
    for (const [index, { started }] of jobs.entries()) {
      await started;
      jobs[index - 2]?.finish();
    }
    for (const { finish } of jobs) finish();
    await Promise.all(all);
    expect(peak).toBe(3);
  });

  it("are not called back when everyone has left: what was sent comes home", async () => {
    const { throttled } = createSetting({ concurrency: 1 });
    const { job, started, finish } = heldJob();
    const controller = new AbortController();
    const result = throttled((ended) => job(ended).then(() => "home"), waiting(NEVER, controller.signal));
    await started;
    controller.abort();
    finish();
    expect(await result).toBe("home");
  });

  it("outlast the deadline of the queue: it is no concern of theirs", async () => {
    const { throttled, clock } = createSetting({ concurrency: 1 });
    const { job, started, finish } = heldJob();
    const result = throttled((ended) => job(ended).then(() => "home"), waiting(clock.now() + 1_000));
    await started;
    await clock.advance(2_000);
    finish();
    expect(await result).toBe("home");
    expect(clock.pending).toBe(0);
  });

  it("that fail make way for the next", async () => {
    const { throttled } = createSetting({ concurrency: 1 });
    const failing = errorOf(throttled(() => Promise.reject(new Error("job"))));
    const next = throttled(bringing(() => "next"));
    expect(await failing).toMatchObject({ message: "job" });
    expect(await next).toBe("next");
  });
});

describe("jobs that wait for a place", () => {
  it("get one when every window has one, in the order they came", async () => {
    const windows = [
      { limit: 2, windowMs: 59_999 },
      { limit: 3, windowMs: 149_999 },
    ];
    const { throttled, clock } = createSetting({ windows });
    const start = clock.now();
    const departures: [number, number][] = [];
    const jobs = Array.from({ length: 7 }, (_, index) =>
      throttled(bringing(() => void departures.push([index, (clock.now() - start) / 1_000]))),
    );
    await advanceUntil(Promise.all(jobs), clock, 30_000);
    expect(departures).toEqual([
      [0, 0],
      [1, 0],
      [2, 60],
      [3, 150],
      [4, 150],
      [5, 210],
      [6, 300],
    ]);
  });

  it("keep their order however the clock wakes them", async () => {
    const clock = createFakeClock(undefined, { ties: "last-armed" });
    const { throttled } = createSetting({ windows: ONE_A_MINUTE, clock });
    const order: number[] = [];
    const jobs = Array.from({ length: 6 }, (_, index) => throttled(bringing(() => void order.push(index))));
    await clock.armed(MINUTE + 1);
    // All that the concurrency allows are out of the queue by then, and could race for the place.
    await turnsElsewhere(20);
    await advanceUntil(Promise.all(jobs), clock, 10_000);
    expect(order).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it("count for those who come after: the refusal names the time behind them all", async () => {
    const { throttled, clock } = createSetting({ windows: ONE_A_MINUTE, concurrency: 2 });
    await throttled(atOnce);
    const queued = [throttled(atOnce), throttled(atOnce)];
    const behind = 3 * (MINUTE + 1);
    expect(await errorOf(throttled(atOnce, waiting(clock.now() + behind - 1)))).toMatchObject({
      code: "temporary-reduced-capacity",
      details: { retryAfterSeconds: 181 },
    });
    const admitted = throttled(atOnce, waiting(clock.now() + behind));
    await advanceUntil(Promise.all([...queued, admitted]), clock, 10_000);
  });

  it("make room for those behind them when they are withdrawn", async () => {
    const { throttled, clock } = createSetting({ windows: ONE_A_MINUTE, concurrency: 2 });
    await throttled(atOnce);
    const controller = new AbortController();
    const withdrawn = errorOf(throttled(atOnce, waiting(NEVER, controller.signal)));
    await clock.armed(MINUTE + 1);
    controller.abort();
    expect(await withdrawn).toMatchObject({ code: "temporary-reduced-capacity" });
    const start = clock.now();
    const departed = throttled(
      bringing(() => clock.now()),
      waiting(start + MINUTE + 1),
    );
    await clock.armed(MINUTE + 1, 2);
    await clock.advance(MINUTE + 1);
    expect((await departed) - start).toBe(MINUTE + 1);
  });

  it("spend nothing when refused: the place is still there for who may wait", async () => {
    const { throttled, clock } = createSetting({ windows: ONE_A_MINUTE, concurrency: 2 });
    await throttled(atOnce);
    for (let times = 0; times < 20; times++) {
      expect(await errorOf(throttled(atOnce, waiting(clock.now() + MINUTE)))).toMatchObject({
        details: { retryAfterSeconds: 60 },
      });
    }
    await clock.advance(MINUTE + 1);
    expect(
      await throttled(
        bringing(() => "ran"),
        waiting(clock.now()),
      ),
    ).toBe("ran");
  });

  it("go as soon as a place is given back, not only when the window has one", async () => {
    const { throttled, clock, allowance } = createSetting({ windows: ONE_A_MINUTE });
    const wish = {
      app: "app",
      priority: "interactive",
      resource: "listings",
      cause: "miss",
      query: "",
    } as const;
    const grant = await allowance.takeAnyway(wish);
    const result = throttled(bringing(() => clock.now()));
    const start = clock.now();
    await clock.armed(MINUTE + 1);
    allowance.giveBack(grant);
    expect(await result).toBe(start);
  });
});

describe("jobs behind one that does not end", () => {
  it("are refused at their deadline, and are not run after it", async () => {
    const { throttled, clock, reports } = createSetting({ concurrency: 1 });
    const stuck = heldJob();
    const held = throttled(stuck.job);
    await stuck.started;
    const late = heldJob();
    late.finish();
    let ended = false;
    const refused = errorOf(throttled(late.job, waiting(clock.now() + 5_000))).finally(() => (ended = true));
    await clock.advance(5_000);
    expect(ended).toBe(false);
    await clock.advance(1);
    const details = {
      refusedHere: true,
      retryAfterSeconds: 1,
      detail: expect.stringContaining("nothing was sent"),
    };
    expect(await refused).toMatchObject({ code: "temporary-reduced-capacity", details });
    expect(reports.refused).toEqual(["app: deadline"]);

    stuck.finish();
    await held;
    expect(await throttled(bringing(() => "next"))).toBe("next");
    expect(late.runs()).toBe(0);
    expect(clock.pending).toBe(0);
  });

  it("wait on where their deadline has moved, because others have joined them", async () => {
    const { throttled, clock } = createSetting({ concurrency: 1 });
    const stuck = heldJob();
    const held = throttled(stuck.job);
    await stuck.started;
    let deadlineAt = clock.now() + 5_000;
    const result = throttled(
      bringing(() => "ran"),
      { ...waiting(), deadlineAt: () => deadlineAt },
    );
    await clock.advance(4_000);
    deadlineAt += 5_000;
    await clock.advance(5_999);
    stuck.finish();
    await held;
    expect(await result).toBe("ran");
  });

  it("leave at once when nobody waits for them", async () => {
    const { throttled } = createSetting({ concurrency: 1 });
    const stuck = heldJob();
    const held = throttled(stuck.job);
    await stuck.started;
    const controller = new AbortController();
    const left = heldJob();
    const refused = errorOf(throttled(left.job, waiting(NEVER, controller.signal)));
    controller.abort();
    expect(await refused).toMatchObject({ code: "temporary-reduced-capacity" });
    stuck.finish();
    await held;
    expect(await throttled(bringing(() => "next"))).toBe("next");
    expect(left.runs()).toBe(0);
  });

  it("never join the queue where nobody waits for them any more", async () => {
    const { throttle, throttled } = createSetting({ windows: AMPLE });
    const left = heldJob();
    const refused = errorOf(throttled(left.job, waiting(NEVER, AbortSignal.abort())));
    expect(await refused).toMatchObject({ code: "temporary-reduced-capacity" });
    await turnsElsewhere(20);
    expect(left.runs()).toBe(0);
    expect(throttle.queueLength("interactive")).toBe(0);
  });
});

describe("whatever is asked of the throttle", () => {
  const request = fc.record({
    afterMs: fc.nat(300),
    patienceMs: fc.integer({ min: 0, max: 2_000 }),
    leaves: fc.boolean(),
    app: fc.constantFrom("app", "other"),
    priority: fc.constantFrom("interactive" as const, "background" as const, "prefetch" as const),
    travelsMs: fc.nat(200),
    fails: fc.boolean(),
  });

  it("no window is ever overrun, and everybody is answered", async () => {
    const limits = fc.record({
      limit: fc.integer({ min: 1, max: 4 }),
      windowMs: fc.integer({ min: 100, max: 900 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(limits, { minLength: 1, maxLength: 2 }),
        fc.integer({ min: 1, max: 3 }),
        fc.array(request, { maxLength: 15 }),
        async (windows, concurrency, requests) => {
          const { throttled, clock, throttle } = createSetting({ windows, concurrency });
          const arrivals: number[] = [];
          const all: Promise<unknown>[] = [];
          for (const { afterMs, patienceMs, leaves, app, priority, travelsMs, fails } of requests) {
            await turnsElsewhere(2);
            await clock.advance(afterMs);
            const controller = new AbortController();
            if (leaves) clock.after(patienceMs / 2, () => controller.abort());
            const deadlineAt = clock.now() + patienceMs;
            const who = waitingOf({ deadlineAt, abandoned: controller.signal, priority });
            const travel = (): Promise<void> => new Promise((resolve) => clock.after(travelsMs, resolve));
            const job = async (ended: Ended): Promise<void> => {
              await travel();
              arrivals.push(clock.now());
              if (fails) throw new Error("job");
              ended({ status: 200, arrivedAfterMs: travelsMs, durationMs: travelsMs });
            };
            all.push(errorOf(throttled(job, who, { app })));
          }
          await advanceUntil(Promise.all(all), clock, 100);
          for (const { limit, windowMs } of windows)
            expect(mostWithinClosed(arrivals, windowMs)).toBeLessThanOrEqual(limit);
          expect(throttle.queueLength("interactive")).toBe(0);
        },
      ),
      { numRuns: 25 },
    );
  });
});
