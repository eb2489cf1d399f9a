import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createFlights, type Flights } from "../../../src/singleflight/flight.ts";
import type { Waiting } from "../../../src/ratelimit/throttled.ts";
import { createFakeClock, settled, type FakeClock } from "../../support/fake-clock.ts";

interface StartedCall {
  readonly waiting: Waiting;
  readonly landing: PromiseWithResolvers<string>;
  /** Sent, and so not to be withdrawn any more. */
  sent: boolean;
  ended: boolean;
}

/** An upstream call as the stages behind make one: abandoned in the queue, it is withdrawn a moment later. */
function startInto(calls: StartedCall[]): (waiting: Waiting) => Promise<string> {
  return (waiting) => {
    const landing = Promise.withResolvers<string>();
    const started: StartedCall = { waiting, landing, sent: false, ended: false };
    calls.push(started);
    const withdraw = async (): Promise<void> => {
      await settled();
      if (!started.sent) landing.reject(new Error("withdrawn"));
    };
    waiting.abandoned.addEventListener("abort", () => void withdraw());
    const ended = (): void => void (started.ended = true);
    void landing.promise.then(ended, ended);
    return landing.promise;
  };
}

interface TestWaiter {
  readonly leave: () => void;
  /** How it ended: the value, or the name or code of what was thrown. */
  outcome: string | undefined;
  endedAt: number | undefined;
  readonly deadlineAt: number;
}

function waitFor(
  flights: Flights<string>,
  clock: FakeClock,
  call: (waiting: Waiting) => Promise<string>,
  deadlineMs = 60_000,
  key = "key",
): TestWaiter {
  const controller = new AbortController();
  const waiter = {
    app: "web",
    deadlineAt: clock.now() + deadlineMs,
    gone: controller.signal,
    priority: "interactive",
  } as const;
  const waiting: TestWaiter = {
    leave: () => controller.abort(),
    outcome: undefined,
    endedAt: undefined,
    deadlineAt: waiter.deadlineAt,
  };
  const end = (outcome: string): void => {
    waiting.outcome = outcome;
    waiting.endedAt = clock.now();
  };
  // As the loader does it: a withdrawn flight is followed by another one.
  const join = async (): Promise<string> => {
    const { value } = await flights.join(key, waiter, call);
    return value ?? (await join());
  };
  join().then(
    (value) => end(value),
    (error: unknown) => end(nameOf(error)),
  );
  return waiting;
}

function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ("code" in error && typeof error.code === "string") return error.code;
  return error.name === "Error" ? error.message : error.name;
}

function setup(): {
  clock: FakeClock;
  flights: Flights<string>;
  calls: StartedCall[];
  join: (deadlineMs?: number, key?: string) => TestWaiter;
} {
  const clock = createFakeClock();
  const flights = createFlights<string>(clock);
  const calls: StartedCall[] = [];
  const call = startInto(calls);
  return {
    clock,
    flights,
    calls,
    join: (deadlineMs, key) => waitFor(flights, clock, call, deadlineMs, key),
  };
}

describe("flights", () => {
  it("are aborted when all waiters hang up, and may then fail silently", async () => {
    const { flights, calls, clock, join } = setup();
    const [one, other] = [join(), join()];
    await settled();
    const [started] = calls;
    if (started) started.sent = true;
    one.leave();
    await settled();
    expect(started?.waiting.abandoned.aborted).toBe(false);
    other.leave();
    await settled();
    expect(started?.waiting.abandoned.aborted).toBe(true);
    expect([one.outcome, other.outcome]).toEqual(["CallerGone", "CallerGone"]);
    started?.landing.reject(new Error("nobody hears this"));
    await settled();
    expect([flights.size, clock.pending]).toEqual([0, 0]);
  });

  it("that were withdrawn are started once more for all callers that have joined", async () => {
    const { calls, join } = setup();
    const first = join();
    await settled();
    first.leave();
    await settled();
    expect(calls[0]?.waiting.abandoned.aborted).toBe(true);
    const late = [join(), join(), join()];
    await settled();
    await settled();
    expect(calls).toHaveLength(2);
    calls[1]?.landing.resolve("landed");
    await settled();
    expect(late.map(({ outcome }) => outcome)).toEqual(["landed", "landed", "landed"]);
  });
});

function expectGoodEnd({ outcome, endedAt, deadlineAt }: TestWaiter, left: boolean): void {
  // In particular no remaining waiter gets a withdrawal.
  expect(outcome).toBeOneOf(["landed", "failed", "deadline-exceeded", "CallerGone"]);
  expect(endedAt).toBeLessThanOrEqual(deadlineAt);
  if (outcome === "CallerGone") expect(left).toBe(true);
  if (outcome === "deadline-exceeded") expect(endedAt).toBe(deadlineAt);
}

describe("under random events", () => {
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.record({ does: fc.constant("join" as const), amount: fc.nat(50) }) },
    { weight: 2, arbitrary: fc.record({ does: fc.constant("leave" as const), amount: fc.nat(20) }) },
    {
      weight: 4,
      arbitrary: fc.record({
        does: fc.constantFrom("wait" as const, "send" as const, "land" as const, "fail" as const),
        amount: fc.nat(30),
      }),
    },
  );

  it("at most one call is in flight, and every waiter has an answer by its deadline", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const { clock, flights, calls, join } = setup();
        const passengers: TestWaiter[] = [];
        const left = new Set<TestWaiter>();
        for (const { does, amount } of steps) {
          const current = calls.at(-1);
          if (does === "join") passengers.push(join(amount));
          const waiting = passengers[amount % Math.max(1, passengers.length)];
          if (does === "leave" && waiting !== undefined) {
            left.add(waiting);
            waiting.leave();
          }
          if (does === "wait") await clock.advance(amount);
          if (does === "send" && current) current.sent = true;
          if (does === "land") current?.landing.resolve("landed");
          if (does === "fail") current?.landing.reject(new Error("failed"));
          // Not after every step: some things happen in one instant.
          if (amount % 3 > 0) await settled();
          expect(calls.filter(({ ended }) => !ended).length).toBeLessThanOrEqual(1);
        }
        await clock.advance(60);
        await settled();
        for (const { landing } of calls) landing.resolve("late");
        await settled();

        for (const waiting of passengers) expectGoodEnd(waiting, left.has(waiting));
        expect([flights.size, clock.pending]).toEqual([0, 0]);
      }),
      { numRuns: 300 },
    );
  });
});
