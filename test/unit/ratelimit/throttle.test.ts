import { describe, expect, it } from "vitest";

import type { SendEnd } from "../../../src/types.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { MINUTE } from "./arbiter-support.ts";
import {
  atOnce,
  bringing,
  createSetting,
  errorOf,
  heldJob,
  HOME,
  ONE_A_MINUTE,
  waiting,
} from "./throttle-support.ts";

const TWO_A_MINUTE = [{ limit: 2, windowMs: MINUTE }];

describe("the throttle", () => {
  it("lets no more go at once than it is told, in the order they came", async () => {
    const { throttled } = createSetting({ concurrency: 2 });
    const started: number[] = [];
    const doors = [0, 1, 2, 3].map(() => Promise.withResolvers<void>());
    const jobs = doors.map((door, index) =>
      throttled(() => {
        started.push(index);
        return door.promise;
      }),
    );
    await expect.poll(() => started).toEqual([0, 1]);
    doors[1]?.resolve();
    await expect.poll(() => started).toEqual([0, 1, 2]);
    for (const door of doors) door.resolve();
    await Promise.all(jobs);
    expect(started).toEqual([0, 1, 2, 3]);
  });

  it("holds the next back until the window has a place, and says how long each waited", async () => {
    const clock = createFakeClock(1_000_000);
    const { throttled, reports } = createSetting({ windows: TWO_A_MINUTE, clock });
    const departures: number[] = [];
    const depart = bringing(() => void departures.push(clock.now()));
    await throttled(depart);
    await clock.advance(10_000);
    await throttled(depart);
    const third = throttled(depart);
    await clock.armed(50_001);
    await clock.advance(50_001);
    await third;
    expect(departures).toEqual([1_000_000, 1_010_000, 1_060_001]);
    expect(reports.waited).toEqual([0, 0, 50_001]);
  });

  it("refuses at once, with an honest time, whose turn would come after its deadline", async () => {
    const { throttled, clock, reports } = createSetting({ windows: TWO_A_MINUTE });
    await throttled(atOnce);
    await throttled(atOnce);
    const refused = throttled(async () => expect.unreachable(), waiting(clock.now() + MINUTE));
    await expect(refused).rejects.toMatchObject({
      code: "temporary-reduced-capacity",
      details: { retryAfterSeconds: 60, refusedHere: true },
    });
    expect(reports.refused).toEqual(["app: budget"]);
    expect(clock.pending).toBe(0);
  });

  it("withdraws a job for which nobody waits any more, and spends nothing on it", async () => {
    const { throttled, clock, allowance } = createSetting({ windows: TWO_A_MINUTE, concurrency: 1 });
    const first = heldJob();
    const held = throttled(first.job);
    const controller = new AbortController();
    const left = throttled(async () => expect.unreachable(), waiting(undefined, controller.signal));
    controller.abort();
    expect(await errorOf(left)).toMatchObject({ code: "temporary-reduced-capacity" });
    first.finish();
    await held;
    expect(allowance.overview().windows[0]?.spent).toBe(1);
    expect(
      await throttled(
        bringing(() => "ran"),
        waiting(clock.now()),
      ),
    ).toBe("ran");
  });

  it("hands on what a job returns, and how it fails", async () => {
    const { throttled } = createSetting({ concurrency: 1 });
    expect(await throttled(bringing(() => 7))).toBe(7);
    await expect(throttled(() => Promise.reject(new Error("job")))).rejects.toThrow("job");
  });

  it("says how long one would wait that came now, behind those who wait already", async () => {
    const { throttle, throttled, clock } = createSetting({ windows: ONE_A_MINUTE });
    const who = { app: "app", priority: "interactive", resource: "listings" } as const;
    expect(throttle.expect(who)).toMatchObject({ forMs: 0 });
    await throttled(atOnce);
    expect(throttle.expect(who)).toMatchObject({ forMs: MINUTE + 1, why: "budget" });
    const controller = new AbortController();
    const queued = errorOf(throttled(atOnce, waiting(undefined, controller.signal)));
    expect(throttle.expect(who)).toMatchObject({ forMs: 2 * (MINUTE + 1) });
    expect(throttle.queueLength("interactive")).toBe(1);
    expect(throttle.queueLength("background")).toBe(0);
    controller.abort();
    await queued;
    expect(throttle.queueLength("interactive")).toBe(0);
    expect(clock.pending).toBe(0);
  });
});

describe("the end of a job", () => {
  it("counts in the window from when its send had arrived", async () => {
    const { throttled, clock } = createSetting({ windows: ONE_A_MINUTE });
    const end: SendEnd = { status: 200, arrivedAfterMs: 300, durationMs: 2_000 };
    const held = heldJob(end);
    const first = throttled(held.job);
    await held.started;
    const second = throttled(bringing(() => clock.now()));
    const start = clock.now();
    await clock.advance(2_000);
    held.finish();
    await first;
    await clock.armed(300 + MINUTE + 1 - 2_000);
    await clock.advance(MINUTE);
    expect((await second) - start).toBe(300 + MINUTE + 1);
  });

  it("is settled where it throws without having said how its send ended", async () => {
    const { throttled, clock, allowance } = createSetting({ windows: ONE_A_MINUTE });
    const held = heldJob();
    const job = async (): Promise<void> => {
      await held.job(() => undefined);
      throw new Error("job");
    };
    const failing = errorOf(throttled(job));
    await held.started;
    await clock.advance(1_000);
    held.finish();
    expect(await failing).toMatchObject({ message: "job" });
    // It may have arrived as late as it ended, and no later: not at the end of its lease.
    expect(allowance.expect(CANDIDATE, []).forMs).toBe(MINUTE + 1);
    await clock.advance(MINUTE + 1);
    expect(
      await throttled(
        bringing(() => "next"),
        waiting(clock.now()),
      ),
    ).toBe("next");
  });

  it("is settled where it returns without having said how its send ended", async () => {
    const { throttled, clock, allowance } = createSetting({ windows: ONE_A_MINUTE });
    expect(await throttled(async () => "home")).toBe("home");
    expect(allowance.expect(CANDIDATE, []).forMs).toBe(MINUTE + 1);
    await clock.advance(1_000);
    expect(allowance.expect(CANDIDATE, []).forMs).toBe(MINUTE + 1 - 1_000);
  });

  it("is heard once: what is said first counts", async () => {
    const { throttled, clock, allowance } = createSetting({ windows: ONE_A_MINUTE });
    await throttled(async (ended) => {
      ended(HOME);
      await clock.advance(5_000);
      ended({ ...HOME, status: 429, slowDown: { cause: "too-many-requests", forMs: undefined } });
    });
    expect(allowance.overview().circuits).toEqual([]);
    expect(allowance.expect(CANDIDATE, []).forMs).toBe(MINUTE + 1 - 5_000);
  });
});

const CANDIDATE = { app: "app", priority: "interactive", resource: "listings" } as const;
