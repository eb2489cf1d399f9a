/** A model of flights under random events, and what callers cannot see of them. */
import fc from "fast-check";
import { expect, it } from "vitest";

import { createFlights } from "../../../src/singleflight/callers-flights.ts";
import { Problem } from "../../../src/errors.ts";
import type { Waiting } from "../../../src/ratelimit/call-facts.ts";
import { PRIORITIES, type Priority } from "../../../src/telemetry/events.ts";
import { createFakeClock, settled } from "../../support/fake-clock.ts";

interface StartedCall {
  readonly waiting: Waiting;
  readonly landing: PromiseWithResolvers<string>;
  /** Sent, and so not to be withdrawn any more. */
  sent: boolean;
  ended: boolean;
}

interface TestWaiter {
  readonly app: string;
  readonly priority: Priority;
  readonly deadlineAt: number;
  readonly isPatient?: boolean;
  readonly leave: () => void;
  hasLeft: boolean;
  /** How it ended: the value, or the name or code of what was thrown. */
  outcome?: string;
  endedAt?: number;
}

function setup() {
  const clock = createFakeClock(1_000_000);
  const flights = createFlights<string>(clock);
  const calls: StartedCall[] = [];

  /** An upstream call like those of the real stages. If it is abandoned in the queue, it is withdrawn a moment later. */
  function call(waiting: Waiting): Promise<string> {
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
  }

  function join(deadlineMs = 60_000, more: Partial<TestWaiter> = {}): TestWaiter {
    const controller = new AbortController();
    const waiter: TestWaiter = {
      app: "web",
      priority: "interactive",
      deadlineAt: clock.now() + deadlineMs,
      hasLeft: false,
      leave() {
        waiter.hasLeft = true;
        controller.abort();
      },
      ...more,
    };
    // Like the loader: join another flight after a withdrawn one.
    const land = async (): Promise<string> =>
      (await flights.join("key", { ...waiter, gone: controller.signal }, call)).value ?? (await land());
    const end = (outcome: string): void => {
      waiter.outcome = outcome;
      waiter.endedAt = clock.now();
    };
    land().then(end, (error: Error) => end(error instanceof Problem ? error.code : nameOf(error)));
    return waiter;
  }
  return { clock, flights, calls, join };
}

const nameOf = ({ name, message }: Error): string => (name === "Error" ? message : name);

function expectGoodEnd({ outcome, endedAt, deadlineAt, hasLeft }: TestWaiter): void {
  // A waiter that remains never gets the withdrawal of the flight.
  expect(outcome).toBeOneOf(["landed", "failed", "deadline-exceeded", "the caller hung up"]);
  expect(endedAt).toBeLessThanOrEqual(deadlineAt);
  if (outcome === "the caller hung up") expect(hasLeft).toBe(true);
  if (outcome === "deadline-exceeded") expect(endedAt).toBe(deadlineAt);
}

/** A call knows its waiters, and when there are none left. */
function expectKnows(call: Waiting, waiters: readonly TestWaiter[]): void {
  if (waiters.length === 0) return expect(call.abandoned.aborted).toBe(true);
  expect(call.deadlineAt()).toBe(Math.max(...waiters.map(({ deadlineAt }) => deadlineAt)));
  expect(new Set(call.apps())).toEqual(new Set(waiters.map(({ app }) => app)));
  const ranks = waiters.map(({ priority }) => PRIORITIES.indexOf(priority));
  expect(PRIORITIES.indexOf(call.priority())).toBeLessThanOrEqual(Math.min(...ranks));
}

const step = fc.record({
  does: fc.constantFrom("join", "join", "join", "leave", "leave", "wait", "send", "land", "fail"),
  amount: fc.nat(50),
  app: fc.constantFrom("web", "ios", "feed"),
  priority: fc.constantFrom(...PRIORITIES),
});

it("at most one call is in flight, it knows its waiters, and every waiter has an answer by its deadline", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const { clock, flights, calls, join } = setup();
      const waiters: TestWaiter[] = [];
      for (const { does, amount, app, priority } of steps) {
        const current = calls.at(-1);
        if (does === "join") waiters.push(join(amount, { app, priority }));
        if (does === "leave") waiters[amount % Math.max(1, waiters.length)]?.leave();
        if (does === "wait") await clock.advance(amount);
        if (does === "send" && current) current.sent = true;
        if (does === "land") current?.landing.resolve("landed");
        if (does === "fail") current?.landing.reject(new Error("failed"));
        // Not after every step: some things happen in one instant.
        if (amount % 3 === 0) continue;
        await settled();
        await settled();
        expect(calls.filter(({ ended }) => !ended).length).toBeLessThanOrEqual(1);
        const flying = calls.find(({ ended }) => !ended);
        if (flying)
          expectKnows(
            flying.waiting,
            waiters.filter(({ outcome }) => outcome === undefined),
          );
      }
      await clock.advance(60);
      await settled();
      for (const { landing } of calls) landing.resolve("late");
      await settled();
      for (const waiter of waiters) expectGoodEnd(waiter);
      expect([flights.size(), clock.pending]).toEqual([0, 0]);
    }),
    { numRuns: 300 },
  );
});

it("a flight reports that its priority rises, and each change of the apps that wait for it, once", async () => {
  const { calls, join } = setup();
  const first = join(10_000, { priority: "prefetch" });
  await settled();
  const waiting = calls[0]?.waiting;
  const told: unknown[] = [];
  waiting?.onChange(() => told.push([waiting.priority(), ...waiting.apps()]));
  for (const priority of ["refresh", "refresh", "prefetch", "interactive", "background"] as const)
    join(10_000, { priority });
  for (let count = 0; count < 1_000; count++) join(10_000, { app: "ios" });
  first.leave();
  const other = join(10_000, { app: "feed" });
  other.leave();
  await settled();
  expect(told).toEqual([
    ["refresh", "web"],
    ["interactive", "web"],
    ["interactive", "web", "ios"],
    ["interactive", "web", "ios", "feed"],
    ["interactive", "web", "ios"],
  ]);
});

it.each([
  ["that is in the queue by then refuses", true],
  ["that was sent by then is waited for by", false],
])("a flight %s a patient waiter whose deadline passes", async (_name, isQueued) => {
  const { clock, calls, join } = setup();
  const patient = join(2_000, { isPatient: true });
  const hasty = join(3_000);
  await settled();
  const waiting = calls[0]?.waiting;
  waiting?.inQueue(() => (isQueued ? new Problem("temporary-reduced-capacity") : undefined));
  expect(waiting?.deadlineAt()).toBe(hasty.deadlineAt);
  await clock.advance(2_000);
  calls[0]?.landing.resolve("landed");
  await settled();
  expect(patient.outcome).toBe(isQueued ? "temporary-reduced-capacity" : "landed");
  expect(hasty.outcome).toBe("landed");
});
