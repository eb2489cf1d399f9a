import { describe, expect, it } from "vitest";

import { createFlights } from "../../../src/singleflight/flight.ts";
import { Problem } from "../../../src/errors.ts";
import type { Waiting, RefuseLate } from "../../../src/ratelimit/throttled.ts";
import type { Priority } from "../../../src/telemetry/events.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

function setup(): {
  clock: ReturnType<typeof createFakeClock>;
  calls: { waiting: Waiting; landing: PromiseWithResolvers<string> }[];
  join: (
    deadlineMs?: number,
    gone?: AbortSignal,
    priority?: Priority,
    app?: string,
  ) => Promise<{ value: string | undefined; collapsed: boolean }>;
} {
  const clock = createFakeClock(1_000_000);
  const flights = createFlights<string>(clock);
  const calls: { waiting: Waiting; landing: PromiseWithResolvers<string> }[] = [];
  const join = (
    deadlineMs = 10_000,
    gone = new AbortController().signal,
    priority: Priority = "interactive",
    app = "web",
  ): Promise<{ value: string | undefined; collapsed: boolean }> =>
    flights.join("key", { app, deadlineAt: clock.now() + deadlineMs, gone, priority }, (waiting) => {
      const landing = Promise.withResolvers<string>();
      calls.push({ waiting, landing });
      return landing.promise;
    });
  return { clock, calls, join };
}

const errorOf = (result: Promise<unknown>): Promise<unknown> => result.catch((error: unknown) => error);

describe("a flight", () => {
  it.each([
    ["that is in the queue by then refuses", true],
    ["that was sent by then is waited for by", false],
  ])("%s a waiter with such a queue deadline", async (_name, isQueued) => {
    const clock = createFakeClock(1_000_000);
    const flights = createFlights<string>(clock);
    const landing = Promise.withResolvers<string>();
    const refusal = new Problem("temporary-reduced-capacity");
    const waiter = { app: "web", gone: new AbortController().signal, priority: "refresh" as const };
    const patient = { ...waiter, queueDeadlineAt: clock.now() + 2_000, deadlineAt: clock.now() + 10_000 };
    const joined = flights
      .join("key", patient, ({ inQueue }) => {
        inQueue(() => (isQueued ? refusal : undefined));
        return landing.promise;
      })
      .then(({ value }): unknown => value)
      .catch((error: unknown) => error);
    await clock.advance(2_000);
    landing.resolve("landed");
    expect(await joined).toBe(isQueued ? refusal : "landed");
    expect(clock.pending).toBe(0);
  });

  it("counts a waiter with a shorter queue deadline until that deadline", async () => {
    const clock = createFakeClock(1_000_000);
    const flights = createFlights<string>(clock);
    const landing = Promise.withResolvers<string>();
    const deadlines: Waiting["deadlineAt"][] = [];
    const waiter = { app: "web", gone: new AbortController().signal, priority: "refresh" as const };
    const patient = { ...waiter, queueDeadlineAt: clock.now() + 2_000, deadlineAt: clock.now() + 10_000 };
    const joined = flights.join("key", patient, ({ deadlineAt }) => {
      deadlines.push(deadlineAt);
      return landing.promise;
    });
    await clock.advance(0);
    expect(deadlines[0]?.()).toBe(patient.queueDeadlineAt);
    const hasty = { ...waiter, deadlineAt: clock.now() + 3_000 };
    const other = errorOf(flights.join("key", hasty, () => expect.unreachable()));
    expect(deadlines[0]?.()).toBe(hasty.deadlineAt);
    await clock.advance(3_000);
    expect(await other).toMatchObject({ code: "deadline-exceeded" });
    expect(deadlines[0]?.()).toBe(patient.queueDeadlineAt);
    await clock.advance(6_999);
    landing.resolve("landed");
    expect(await joined).toEqual({ value: "landed", collapsed: false });
  });

  it("has the latest of its waiters' deadlines, and each waiter its own", async () => {
    const { clock, calls, join } = setup();
    const patient = join(5_000);
    const hasty = join(1_000);
    hasty.catch(() => undefined);
    await clock.advance(0);
    expect(calls[0]?.waiting.deadlineAt()).toBe(clock.now() + 5_000);
    await clock.advance(1_000);
    await expect(hasty).rejects.toMatchObject({ code: "deadline-exceeded" });
    calls[0]?.landing.resolve("landed");
    expect((await patient).value).toBe("landed");
  });

  it("is abandoned when the last waiter has left, and not before", async () => {
    const { clock, calls, join } = setup();
    const settled = Promise.allSettled([join(1_000), join(2_000)]);
    await clock.advance(1_500);
    expect(calls[0]?.waiting.abandoned.aborted).toBe(false);
    await clock.advance(500);
    await settled;
    expect(calls[0]?.waiting.abandoned.aborted).toBe(true);
  });

  it("that was abandoned and succeeds nevertheless serves the callers that joined meanwhile", async () => {
    const { clock, calls, join } = setup();
    await Promise.all([
      expect(join(1_000)).rejects.toMatchObject({ code: "deadline-exceeded" }),
      clock.advance(1_000),
    ]);
    const late = join();
    await clock.advance(0);
    calls[0]?.landing.resolve("came home");
    expect(await late).toEqual({ value: "came home", collapsed: true });
    expect(calls).toHaveLength(1);
  });

  it("has the priority of its most urgent waiter so far, and reports when that rises", async () => {
    const { clock, calls, join } = setup();
    const leaving = new AbortController();
    const ends = [join(10_000, undefined, "prefetch")];
    await clock.advance(0);
    const waiting = calls[0]?.waiting;
    const told: (string | undefined)[] = [];
    waiting?.onChange(() => told.push(waiting.priority()));
    expect(waiting?.priority()).toBe("prefetch");
    for (const priority of ["refresh", "refresh", "prefetch", "interactive", "background"] as const)
      ends.push(join(10_000, priority === "interactive" ? leaving.signal : undefined, priority));
    expect(told).toEqual(["refresh", "interactive"]);
    const allEnded = Promise.allSettled(ends);
    leaving.abort();
    await clock.advance(0);
    expect(waiting?.priority()).toBe("interactive");
    calls[0]?.landing.resolve("landed");
    await allEnded;
    const next = join(10_000, undefined, "refresh");
    await clock.advance(0);
    expect(calls[1]?.waiting.priority()).toBe("refresh");
    calls[1]?.landing.resolve("landed");
    await next;
  });

  it("knows the apps of its waiters, and reports each change once", async () => {
    const { clock, calls, join } = setup();
    const leaving = new AbortController();
    const joinAs = (app: string, gone?: AbortSignal): number =>
      ends.push(errorOf(join(10_000, gone, undefined, app)));
    const ends: Promise<unknown>[] = [];
    joinAs("web", leaving.signal);
    joinAs("mobile");
    await clock.advance(0);
    const waiting = calls[0]?.waiting;
    expect(waiting?.apps()).toEqual(["web", "mobile"]);
    const told: unknown[] = [];
    waiting?.onChange(() => told.push(waiting.apps()));
    for (let count = 0; count < 1_000; count++) joinAs(count % 2 === 0 ? "other" : "mobile");
    expect(told).toEqual([["web", "mobile", "other"]]);
    leaving.abort();
    await clock.advance(0);
    expect(told.slice(1)).toEqual([["mobile", "other"]]);
    // A caller that returns has not waited longest.
    joinAs("web");
    expect(told.slice(2)).toEqual([["mobile", "other", "web"]]);
    calls[0]?.landing.resolve("landed");
    await Promise.all(ends);
    expect(waiting?.apps()).toEqual([]);
  });

  it("does not accept a caller that has hung up", async () => {
    const { join } = setup();
    await expect(join(10_000, AbortSignal.abort())).rejects.toMatchObject({ name: "CallerGone" });
  });
});

describe("a waiter whose deadline passes", () => {
  const REFUSED = new Problem("temporary-reduced-capacity", { refusedHere: true });

  /** A queue that a call is in, or not, and those whom it has refused. */
  function queueWith(): { isIn: boolean; refused: string[]; refuseLate: RefuseLate } {
    const refused: string[] = [];
    const queue = {
      isIn: true,
      refused,
      refuseLate: ({ app, priority }: Parameters<RefuseLate>[0]) => {
        if (queue.isIn) refused.push(`${app} ${priority}`);
        return queue.isIn ? REFUSED : undefined;
      },
    };
    return queue;
  }

  it("while the call is queued is refused with the queue's reason; the others wait on", async () => {
    const { clock, calls, join } = setup();
    const patient = join(5_000);
    const hasty = errorOf(join(1_000, undefined, "background"));
    await clock.advance(0);
    const queue = queueWith();
    calls[0]?.waiting.inQueue(queue.refuseLate);
    await clock.advance(1_000);
    expect(await hasty).toBe(REFUSED);
    expect(queue.refused).toEqual(["web background"]);
    expect(calls[0]?.waiting.abandoned.aborted).toBe(false);
    calls[0]?.landing.resolve("landed");
    expect((await patient).value).toBe("landed");
    expect(queue.refused).toHaveLength(1);
  });

  it("gets deadline-exceeded once the call has left the queue, and the next queue's reason in the next queue", async () => {
    const { clock, calls, join } = setup();
    const ends = [1_000, 2_000, 3_000].map((deadlineMs) => errorOf(join(deadlineMs)));
    await clock.advance(0);
    const [first, second] = [queueWith(), queueWith()];
    calls[0]?.waiting.inQueue(first.refuseLate);
    first.isIn = false;
    await clock.advance(1_000);
    calls[0]?.waiting.inQueue(second.refuseLate);
    await clock.advance(1_000);
    second.isIn = false;
    await clock.advance(1_000);
    const [sent, queuedAgain, sentAgain] = await Promise.all(ends);
    for (const late of [sent, sentAgain]) expect(late).toMatchObject({ code: "deadline-exceeded" });
    expect(queuedAgain).toBe(REFUSED);
  });

  it("but that has hung up is not refused", async () => {
    const { clock, calls, join } = setup();
    const hangUp = new AbortController();
    const gone = errorOf(join(1_000, hangUp.signal));
    await clock.advance(0);
    const queue = queueWith();
    calls[0]?.waiting.inQueue(queue.refuseLate);
    const stays = errorOf(join(2_000));
    await clock.advance(999);
    hangUp.abort();
    await clock.advance(1);
    expect(await gone).toMatchObject({ name: "CallerGone" });
    expect(queue.refused).toEqual([]);
    await clock.advance(1_000);
    await stays;
    expect(queue.refused).toEqual(["web interactive"]);
  });
});

describe("all flights", () => {
  it("have landed when none is left, including failed ones and those started meanwhile", async () => {
    const clock = createFakeClock();
    const flights = createFlights<string>(clock);
    const gone = new AbortController().signal;
    const [one, other] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
    let landed = false;
    void flights.join(
      "one",
      { app: "web", deadlineAt: clock.now() + 1_000, gone, priority: "interactive" },
      () => one.promise,
    );
    void flights.settled().then(() => (landed = true));
    await clock.advance(0);
    void flights
      .join(
        "other",
        { app: "web", deadlineAt: clock.now() + 1_000, gone, priority: "interactive" },
        () => other.promise,
      )
      .catch(() => undefined);
    one.resolve("landed");
    await clock.advance(0);
    expect(landed).toBe(false);
    other.reject(new Error("lost"));
    await clock.advance(0);
    expect(landed).toBe(true);
    await flights.settled();
  });
});
