import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createThrottle } from "../../../src/budget/throttle.ts";
import type { Window } from "../../../src/budget/windows.ts";
import type { Throttled, Waiting } from "../../../src/exchange.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";

const NEVER = Number.POSITIVE_INFINITY;
const MINUTE = 60_000;
const AMPLE: readonly Window[] = [{ name: "1m", limit: 1_000, windowMs: MINUTE }];
const ONE_A_MINUTE: readonly Window[] = [{ name: "1m", limit: 1, windowMs: MINUTE }];

function waiting(deadlineAt = NEVER, abandoned = new AbortController().signal): Waiting {
  return { deadlineAt: () => deadlineAt, abandoned };
}

/** A job that ends when told. */
function heldJob(): {
  job: () => Promise<void>;
  started: Promise<void>;
  finish: () => void;
  runs: () => number;
} {
  const begin = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  let runs = 0;
  return {
    job: () => {
      runs += 1;
      begin.resolve();
      return end.promise;
    },
    started: begin.promise,
    finish: end.resolve,
    runs: () => runs,
  };
}

const atOnce = async (): Promise<void> => undefined;

/** Lets time pass in steps until the work is done. */
async function advanceUntil(work: Promise<unknown>, clock: FakeClock, stepMs: number): Promise<void> {
  const end = new AbortController();
  void work.finally(() => end.abort()).catch(() => undefined);
  while (!end.signal.aborted) await clock.advance(stepMs);
}

/** Lasts as long as a queue of the same kind takes for many jobs one after the other. */
async function manyTurnsElsewhere(): Promise<void> {
  const throttled = createThrottle({ windows: AMPLE, concurrency: 1, clock: createFakeClock() });
  await Promise.all(Array.from({ length: 20 }, () => throttled(atOnce, waiting())));
}

/** How a job ends that should not get its turn: the code of the problem. */
async function refusalOf(throttled: Throttled, who: Waiting): Promise<unknown> {
  return await throttled(async () => "ran", who).catch((error: unknown) => error);
}

describe("jobs on their way", () => {
  it("are never more than the concurrency, however they come and go", async () => {
    const throttled = createThrottle({ windows: AMPLE, concurrency: 3, clock: createFakeClock() });
    let active = 0;
    let peak = 0;
    const jobs = Array.from({ length: 12 }, heldJob);
    const all = jobs.map(({ job }) =>
      throttled(async () => {
        peak = Math.max(peak, (active += 1));
        await job();
        active -= 1;
      }, waiting()),
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
    const throttled = createThrottle({ windows: AMPLE, concurrency: 1, clock: createFakeClock() });
    const { job, started, finish } = heldJob();
    const controller = new AbortController();
    const result = throttled(() => job().then(() => "home"), waiting(NEVER, controller.signal));
    await started;
    controller.abort();
    finish();
    expect(await result).toBe("home");
  });

  it("outlast the deadline of the queue: it is no concern of theirs", async () => {
    const clock = createFakeClock();
    const throttled = createThrottle({ windows: AMPLE, concurrency: 1, clock });
    const { job, started, finish } = heldJob();
    const result = throttled(() => job().then(() => "home"), waiting(clock.now() + 1_000));
    await started;
    await clock.advance(2_000);
    finish();
    expect(await result).toBe("home");
    expect(clock.pending).toBe(0);
  });

  it("that fail make way for the next", async () => {
    const throttled = createThrottle({ windows: AMPLE, concurrency: 1, clock: createFakeClock() });
    const failing = throttled(() => Promise.reject(new Error("job")), waiting());
    const next = throttled(async () => "next", waiting());
    await expect(failing).rejects.toThrow("job");
    expect(await next).toBe("next");
  });
});

describe("jobs that wait for a place", () => {
  it("get one when every window has one, in the order they came", async () => {
    const clock = createFakeClock();
    const windows = [
      { name: "1m", limit: 2, windowMs: MINUTE },
      { name: "150s", limit: 3, windowMs: 150_000 },
    ];
    const throttled = createThrottle({ windows, concurrency: 4, clock });
    const start = clock.now();
    const departures: [number, number][] = [];
    const jobs = Array.from({ length: 7 }, (_, index) =>
      throttled(async () => void departures.push([index, (clock.now() - start) / 1_000]), waiting()),
    );
    for (const times of [1, 2]) {
      await clock.armed(60_000, times);
      await clock.advance(60_000);
      await clock.armed(90_000, times);
      await clock.advance(90_000);
    }
    await Promise.all(jobs);
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
    const clock = createFakeClock(undefined, "last-armed");
    const throttled = createThrottle({ windows: ONE_A_MINUTE, concurrency: 4, clock });
    const order: number[] = [];
    const jobs = Array.from({ length: 6 }, (_, index) =>
      throttled(async () => void order.push(index), waiting()),
    );
    await clock.armed(MINUTE);
    // All that the concurrency allows are out of the queue by then, and could race for the place.
    await manyTurnsElsewhere();
    for (let times = 1; times <= 5; times++) {
      await clock.armed(MINUTE, times);
      await clock.advance(MINUTE);
    }
    await Promise.all(jobs);
    expect(order).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it("count for those who come after: the refusal names the time behind them all", async () => {
    const clock = createFakeClock();
    const throttled = createThrottle({ windows: ONE_A_MINUTE, concurrency: 2, clock });
    await throttled(atOnce, waiting());
    const queued = [throttled(atOnce, waiting()), throttled(atOnce, waiting())];
    expect(await refusalOf(throttled, waiting(clock.now() + 3 * MINUTE - 1))).toMatchObject({
      code: "temporary-reduced-capacity",
      details: { retryAfterSeconds: 180 },
    });
    const admitted = throttled(atOnce, waiting(clock.now() + 3 * MINUTE));
    await advanceUntil(Promise.all([...queued, admitted]), clock, 1_000);
  });

  it("make room for those behind them when they are withdrawn", async () => {
    const clock = createFakeClock();
    const throttled = createThrottle({ windows: ONE_A_MINUTE, concurrency: 2, clock });
    await throttled(atOnce, waiting());
    const controller = new AbortController();
    const withdrawn = refusalOf(throttled, waiting(NEVER, controller.signal));
    await clock.armed(MINUTE);
    controller.abort();
    expect(await withdrawn).toMatchObject({ code: "temporary-reduced-capacity" });
    const departed = throttled(async () => clock.now(), waiting(clock.now() + MINUTE));
    const start = clock.now();
    await clock.armed(MINUTE, 2);
    await clock.advance(MINUTE);
    expect((await departed) - start).toBe(MINUTE);
  });

  it("spend nothing when refused: the place is still there for who may wait", async () => {
    const clock = createFakeClock();
    const throttled = createThrottle({ windows: ONE_A_MINUTE, concurrency: 2, clock });
    await throttled(atOnce, waiting());
    for (let times = 0; times < 20; times++) {
      expect(await refusalOf(throttled, waiting(clock.now() + MINUTE - 1))).toMatchObject({
        details: { retryAfterSeconds: 60 },
      });
    }
    await clock.advance(MINUTE);
    expect(await throttled(async () => "ran", waiting(clock.now()))).toBe("ran");
  });
});

describe("jobs behind one that does not end", () => {
  it("are refused at their deadline, and are not run after it", async () => {
    const clock = createFakeClock();
    const throttled = createThrottle({ windows: AMPLE, concurrency: 1, clock });
    const stuck = heldJob();
    const held = throttled(stuck.job, waiting());
    await stuck.started;
    const late = heldJob();
    late.finish();
    let ended = false;
    const refused = throttled(late.job, waiting(clock.now() + 5_000)).catch((error: unknown) => {
      ended = true;
      return error;
    });
    await clock.advance(5_000);
    expect(ended).toBe(false);
    await clock.advance(1);
    expect(await refused).toMatchObject({ code: "deadline-exceeded" });

    stuck.finish();
    await held;
    expect(await throttled(async () => "next", waiting())).toBe("next");
    expect(late.runs()).toBe(0);
    expect(clock.pending).toBe(0);
  });

  it("wait on where their deadline has moved, because others have joined them", async () => {
    const clock = createFakeClock();
    const throttled = createThrottle({ windows: AMPLE, concurrency: 1, clock });
    const stuck = heldJob();
    const held = throttled(stuck.job, waiting());
    await stuck.started;
    let deadlineAt = clock.now() + 5_000;
    const result = throttled(async () => "ran", { ...waiting(), deadlineAt: () => deadlineAt });
    await clock.advance(4_000);
    deadlineAt += 5_000;
    await clock.advance(5_999);
    stuck.finish();
    await held;
    expect(await result).toBe("ran");
  });

  it("leave at once when nobody waits for them", async () => {
    const clock = createFakeClock();
    const throttled = createThrottle({ windows: AMPLE, concurrency: 1, clock });
    const stuck = heldJob();
    const held = throttled(stuck.job, waiting());
    await stuck.started;
    const controller = new AbortController();
    const left = heldJob();
    const refused = throttled(left.job, waiting(NEVER, controller.signal)).catch((error: unknown) => error);
    controller.abort();
    expect(await refused).toMatchObject({ code: "temporary-reduced-capacity" });
    stuck.finish();
    await held;
    expect(await throttled(async () => "next", waiting())).toBe("next");
    expect(left.runs()).toBe(0);
  });
});

describe("whatever is asked of the throttle", () => {
  const request = fc.record({
    afterMs: fc.nat(300),
    patienceMs: fc.integer({ min: 0, max: 2_000 }),
    leaves: fc.boolean(),
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
        async (limits, concurrency, requests) => {
          const windows = limits.map((each, index) => ({ name: `w${index}`, ...each }));
          const clock = createFakeClock();
          const throttled = createThrottle({ windows, concurrency, clock });
          const departures: number[] = [];
          const all: Promise<unknown>[] = [];
          for (const { afterMs, patienceMs, leaves } of requests) {
            await clock.advance(afterMs);
            const controller = new AbortController();
            if (leaves) clock.after(patienceMs / 2, () => controller.abort());
            const who = waiting(clock.now() + patienceMs, controller.signal);
            all.push(throttled(async () => void departures.push(clock.now()), who).catch(() => undefined));
          }
          await advanceUntil(Promise.all(all), clock, 20);
          for (const { limit, windowMs } of windows) {
            for (const end of departures) {
              const within = departures.filter((at) => at > end - windowMs && at <= end);
              expect(within.length).toBeLessThanOrEqual(limit);
            }
          }
        },
      ),
      { numRuns: 25 },
    );
  });
});
