import { describe, expect, it } from "vitest";

import { createThrottle } from "../../../src/budget/throttle.ts";
import { Problem } from "../../../src/errors.ts";
import type { Waiting } from "../../../src/exchange.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

function waiting(deadlineAt = Number.POSITIVE_INFINITY, abandoned = new AbortController().signal): Waiting {
  return { deadlineAt: () => deadlineAt, abandoned };
}

const windows = [{ name: "1m", limit: 2, windowMs: 60_000 }];

describe("the throttle", () => {
  it("lets no more go at once than it is told, in the order they came", async () => {
    const throttled = createThrottle({
      windows: [{ name: "1m", limit: 100, windowMs: 60_000 }],
      concurrency: 2,
      clock: createFakeClock(1_000_000),
    });
    const started: number[] = [];
    const doors = [0, 1, 2, 3].map(() => Promise.withResolvers<void>());
    const jobs = doors.map((door, index) =>
      throttled(() => {
        started.push(index);
        return door.promise;
      }, waiting()),
    );
    await expect.poll(() => started).toEqual([0, 1]);
    doors[1]?.resolve();
    await expect.poll(() => started).toEqual([0, 1, 2]);
    for (const door of doors) door.resolve();
    await Promise.all(jobs);
    expect(started).toEqual([0, 1, 2, 3]);
  });

  it("holds the next back until the window has a place", async () => {
    const clock = createFakeClock(1_000_000);
    const throttled = createThrottle({ windows, concurrency: 4, clock });
    const departures: number[] = [];
    const depart = async (): Promise<void> => void departures.push(clock.now());
    await throttled(depart, waiting());
    await clock.advance(10_000);
    await throttled(depart, waiting());
    const third = throttled(depart, waiting());
    await expect.poll(() => clock.advance(49_000).then(() => departures.length)).toBe(3);
    await third;
    expect(departures).toEqual([1_000_000, 1_010_000, 1_060_000]);
  });

  it("refuses at once, with an honest time, whose turn would come after its deadline", async () => {
    const clock = createFakeClock(1_000_000);
    const throttled = createThrottle({ windows, concurrency: 4, clock });
    const nothing = async (): Promise<void> => undefined;
    await throttled(nothing, waiting());
    await throttled(nothing, waiting());
    const refused = throttled(async () => expect.unreachable(), waiting(clock.now() + 59_999));
    await expect(refused).rejects.toMatchObject({
      code: "temporary-reduced-capacity",
      details: { retryAfterSeconds: 60 },
    });
  });

  it("withdraws a job for which nobody waits any more, and spends nothing on it", async () => {
    const clock = createFakeClock(1_000_000);
    const throttled = createThrottle({ windows, concurrency: 1, clock });
    const door = Promise.withResolvers<void>();
    const first = throttled(() => door.promise, waiting());
    const controller = new AbortController();
    const left = throttled(async () => expect.unreachable(), waiting(undefined, controller.signal));
    controller.abort();
    await expect(left).rejects.toBeInstanceOf(Problem);
    door.resolve();
    await first;
    let ran = false;
    await throttled(async () => void (ran = true), waiting(clock.now()));
    expect(ran).toBe(true);
  });

  it("hands on what a job returns, and how it fails", async () => {
    const throttled = createThrottle({ windows, concurrency: 1, clock: createFakeClock(1_000_000) });
    expect(await throttled(async () => 7, waiting())).toBe(7);
    await expect(throttled(() => Promise.reject(new Error("job")), waiting())).rejects.toThrow("job");
  });
});
