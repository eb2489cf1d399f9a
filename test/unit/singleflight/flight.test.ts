import { describe, expect, it } from "vitest";

import { createFlights } from "../../../src/singleflight/flight.ts";
import { Problem } from "../../../src/errors.ts";
import type { Waiting, Priority, RefuseLate } from "../../../src/types.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

function setup(): {
  clock: ReturnType<typeof createFakeClock>;
  launches: { waiting: Waiting; landing: PromiseWithResolvers<string> }[];
  join: (
    deadlineMs?: number,
    gone?: AbortSignal,
    priority?: Priority,
    app?: string,
  ) => Promise<{ value: string | undefined; collapsed: boolean }>;
} {
  const clock = createFakeClock(1_000_000);
  const flights = createFlights<string>(clock);
  const launches: { waiting: Waiting; landing: PromiseWithResolvers<string> }[] = [];
  const join = (
    deadlineMs = 10_000,
    gone = new AbortController().signal,
    priority: Priority = "interactive",
    app = "web",
  ): Promise<{ value: string | undefined; collapsed: boolean }> =>
    flights.join("key", { app, deadlineAt: clock.now() + deadlineMs, gone, priority }, (waiting) => {
      const landing = Promise.withResolvers<string>();
      launches.push({ waiting, landing });
      return landing.promise;
    });
  return { clock, launches, join };
}

const errorOf = (result: Promise<unknown>): Promise<unknown> => result.catch((error: unknown) => error);

describe("a flight", () => {
  it.each([
    ["that is in the queue by then refuses", true],
    ["that was sent by then is waited for by", false],
  ])("%s one who waits so long for a place", async (_name, isQueued) => {
    const clock = createFakeClock(1_000_000);
    const flights = createFlights<string>(clock);
    const landing = Promise.withResolvers<string>();
    const refusal = new Problem("temporary-reduced-capacity");
    const waiter = { app: "web", gone: new AbortController().signal, priority: "refresh" as const };
    const patient = { ...waiter, placeBy: clock.now() + 2_000, deadlineAt: clock.now() + 10_000 };
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

  it("is waited for by one who waits for a place for less long, who counts in the queue until then", async () => {
    const clock = createFakeClock(1_000_000);
    const flights = createFlights<string>(clock);
    const landing = Promise.withResolvers<string>();
    const deadlines: Waiting["deadlineAt"][] = [];
    const waiter = { app: "web", gone: new AbortController().signal, priority: "refresh" as const };
    const patient = { ...waiter, placeBy: clock.now() + 2_000, deadlineAt: clock.now() + 10_000 };
    const joined = flights.join("key", patient, ({ deadlineAt }) => {
      deadlines.push(deadlineAt);
      return landing.promise;
    });
    await clock.advance(0);
    expect(deadlines[0]?.()).toBe(patient.placeBy);
    const hasty = { ...waiter, deadlineAt: clock.now() + 3_000 };
    const other = errorOf(flights.join("key", hasty, () => expect.unreachable()));
    expect(deadlines[0]?.()).toBe(hasty.deadlineAt);
    await clock.advance(3_000);
    expect(await other).toMatchObject({ code: "deadline-exceeded" });
    expect(deadlines[0]?.()).toBe(patient.placeBy);
    await clock.advance(6_999);
    landing.resolve("landed");
    expect(await joined).toEqual({ value: "landed", collapsed: false });
  });

  it("is one for all who ask for its key while it is in the air", async () => {
    const { clock, launches, join } = setup();
    const all = Promise.all([join(), join(), join()]);
    await clock.advance(0);
    launches[0]?.landing.resolve("landed");
    expect((await all).map(({ value, collapsed }) => `${value} ${collapsed}`)).toEqual([
      "landed false",
      "landed true",
      "landed true",
    ]);
    expect(launches).toHaveLength(1);
  });

  it("fails for all its waiters, and the next to ask launches a new one", async () => {
    const { clock, launches, join } = setup();
    const both = Promise.allSettled([join(), join()]);
    await clock.advance(0);
    launches[0]?.landing.reject(new Error("lost"));
    expect((await both).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    const next = join();
    await clock.advance(0);
    launches[1]?.landing.resolve("second");
    expect(await next).toEqual({ value: "second", collapsed: false });
  });

  it("goes on for the others when the one who launched it hangs up", async () => {
    const { clock, launches, join } = setup();
    const hangUp = new AbortController();
    const leader = join(10_000, hangUp.signal);
    const follower = join();
    await clock.advance(0);
    hangUp.abort();
    await expect(leader).rejects.toMatchObject({ name: "CallerGone" });
    expect(launches[0]?.waiting.abandoned.aborted).toBe(false);
    launches[0]?.landing.resolve("landed");
    expect((await follower).value).toBe("landed");
  });

  it("has the latest of its waiters' deadlines, and each waiter its own", async () => {
    const { clock, launches, join } = setup();
    const patient = join(5_000);
    const hasty = join(1_000);
    hasty.catch(() => undefined);
    await clock.advance(0);
    expect(launches[0]?.waiting.deadlineAt()).toBe(clock.now() + 5_000);
    await clock.advance(1_000);
    await expect(hasty).rejects.toMatchObject({ code: "deadline-exceeded" });
    launches[0]?.landing.resolve("landed");
    expect((await patient).value).toBe("landed");
  });

  it("is abandoned when the last has left, and not before", async () => {
    const { clock, launches, join } = setup();
    const settled = Promise.allSettled([join(1_000), join(2_000)]);
    await clock.advance(1_500);
    expect(launches[0]?.waiting.abandoned.aborted).toBe(false);
    await clock.advance(500);
    await settled;
    expect(launches[0]?.waiting.abandoned.aborted).toBe(true);
  });

  it("that was abandoned and comes home all the same serves who joined it meanwhile", async () => {
    const { clock, launches, join } = setup();
    await Promise.all([
      expect(join(1_000)).rejects.toMatchObject({ code: "deadline-exceeded" }),
      clock.advance(1_000),
    ]);
    const late = join();
    await clock.advance(0);
    launches[0]?.landing.resolve("came home");
    expect(await late).toEqual({ value: "came home", collapsed: true });
    expect(launches).toHaveLength(1);
  });

  it("that was abandoned and withdrawn has no value for who joined it meanwhile", async () => {
    const { clock, launches, join } = setup();
    await Promise.all([
      expect(join(1_000)).rejects.toMatchObject({ code: "deadline-exceeded" }),
      clock.advance(1_000),
    ]);
    const late = join();
    await clock.advance(0);
    launches[0]?.landing.reject(new Error("withdrawn"));
    expect(await late).toEqual({ value: undefined, collapsed: true });
  });

  it("is as urgent as the most urgent who waits, or waited, for it, and says when it becomes more so", async () => {
    const { clock, launches, join } = setup();
    const leaving = new AbortController();
    const ends = [join(10_000, undefined, "prefetch")];
    await clock.advance(0);
    const waiting = launches[0]?.waiting;
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
    launches[0]?.landing.resolve("landed");
    await allEnded;
    const next = join(10_000, undefined, "refresh");
    await clock.advance(0);
    expect(launches[1]?.waiting.priority()).toBe("refresh");
    launches[1]?.landing.resolve("landed");
    await next;
  });

  it("knows the apps of those who wait now, and tells when there is one more or less, once for all its callers", async () => {
    const { clock, launches, join } = setup();
    const leaving = new AbortController();
    const joinAs = (app: string, gone?: AbortSignal): number =>
      ends.push(errorOf(join(10_000, gone, undefined, app)));
    const ends: Promise<unknown>[] = [];
    joinAs("web", leaving.signal);
    joinAs("mobile");
    await clock.advance(0);
    const waiting = launches[0]?.waiting;
    expect(waiting?.apps()).toEqual(["web", "mobile"]);
    const told: unknown[] = [];
    waiting?.onChange(() => told.push(waiting.apps()));
    for (let count = 0; count < 1_000; count++) joinAs(count % 2 === 0 ? "other" : "mobile");
    expect(told).toEqual([["web", "mobile", "other"]]);
    leaving.abort();
    await clock.advance(0);
    expect(told.slice(1)).toEqual([["mobile", "other"]]);
    // Whoever comes back has not waited longest.
    joinAs("web");
    expect(told.slice(2)).toEqual([["mobile", "other", "web"]]);
    launches[0]?.landing.resolve("landed");
    await Promise.all(ends);
    expect(waiting?.apps()).toEqual([]);
  });

  it("is not waited for by one who is gone already", async () => {
    const { join } = setup();
    await expect(join(10_000, AbortSignal.abort())).rejects.toMatchObject({ name: "CallerGone" });
  });
});

describe("one whose deadline passes", () => {
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

  it("while the call is in a queue is refused by that queue, the others wait on", async () => {
    const { clock, launches, join } = setup();
    const patient = join(5_000);
    const hasty = errorOf(join(1_000, undefined, "background"));
    await clock.advance(0);
    const queue = queueWith();
    launches[0]?.waiting.inQueue(queue.refuseLate);
    await clock.advance(1_000);
    expect(await hasty).toBe(REFUSED);
    expect(queue.refused).toEqual(["web background"]);
    expect(launches[0]?.waiting.abandoned.aborted).toBe(false);
    launches[0]?.landing.resolve("landed");
    expect((await patient).value).toBe("landed");
    expect(queue.refused).toHaveLength(1);
  });

  it("each of several is refused for itself, and the call is withdrawn with the last", async () => {
    const { clock, launches, join } = setup();
    const both = [errorOf(join(1_000)), errorOf(join(1_000, undefined, "background"))];
    await clock.advance(0);
    const queue = queueWith();
    launches[0]?.waiting.inQueue(queue.refuseLate);
    await clock.advance(1_000);
    expect(await Promise.all(both)).toEqual([REFUSED, REFUSED]);
    expect(queue.refused).toEqual(["web interactive", "web background"]);
    expect([launches.length, launches[0]?.waiting.abandoned.aborted]).toEqual([1, true]);
  });

  it("after the call has left the queue is told that it was too late, and in another queue by that one", async () => {
    const { clock, launches, join } = setup();
    const ends = [1_000, 2_000, 3_000].map((deadlineMs) => errorOf(join(deadlineMs)));
    await clock.advance(0);
    const [first, second] = [queueWith(), queueWith()];
    launches[0]?.waiting.inQueue(first.refuseLate);
    first.isIn = false;
    await clock.advance(1_000);
    launches[0]?.waiting.inQueue(second.refuseLate);
    await clock.advance(1_000);
    second.isIn = false;
    await clock.advance(1_000);
    const [sent, queuedAgain, sentAgain] = await Promise.all(ends);
    for (const late of [sent, sentAgain]) expect(late).toMatchObject({ code: "deadline-exceeded" });
    expect(queuedAgain).toBe(REFUSED);
  });

  it("but who has hung up by then is not refused: nobody would hear it", async () => {
    const { clock, launches, join } = setup();
    const hangUp = new AbortController();
    const gone = errorOf(join(1_000, hangUp.signal));
    await clock.advance(0);
    const queue = queueWith();
    launches[0]?.waiting.inQueue(queue.refuseLate);
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
  it("have landed when none is in the air, those launched meanwhile and those that fail included", async () => {
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
    void flights.landed().then(() => (landed = true));
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
    await flights.landed();
  });
});
