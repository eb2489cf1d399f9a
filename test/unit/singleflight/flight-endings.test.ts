import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createFlights, type Flights } from "../../../src/singleflight/flight.ts";
import type { Waiting } from "../../../src/types.ts";
import { createFakeClock, settled, type FakeClock } from "../../support/fake-clock.ts";

interface Launched {
  readonly waiting: Waiting;
  readonly landing: PromiseWithResolvers<string>;
  /** Sent, and so not to be withdrawn any more. */
  sent: boolean;
  ended: boolean;
}

/** An upstream call as the stages behind make one: abandoned in the queue, it is withdrawn a moment later. */
function launchInto(launches: Launched[]): (waiting: Waiting) => Promise<string> {
  return (waiting) => {
    const landing = Promise.withResolvers<string>();
    const launched: Launched = { waiting, landing, sent: false, ended: false };
    launches.push(launched);
    const withdraw = async (): Promise<void> => {
      await settled();
      if (!launched.sent) landing.reject(new Error("withdrawn"));
    };
    waiting.abandoned.addEventListener("abort", () => void withdraw());
    const ended = (): void => void (launched.ended = true);
    void landing.promise.then(ended, ended);
    return landing.promise;
  };
}

interface Passenger {
  readonly leave: () => void;
  /** How it ended: the value, or the name or code of what was thrown. */
  outcome: string | undefined;
  endedAt: number | undefined;
  readonly deadlineAt: number;
}

function board(
  flights: Flights<string>,
  clock: FakeClock,
  launch: (waiting: Waiting) => Promise<string>,
  patienceMs = 60_000,
  key = "key",
): Passenger {
  const controller = new AbortController();
  const waiter = {
    app: "web",
    deadlineAt: clock.now() + patienceMs,
    gone: controller.signal,
    priority: "interactive",
  } as const;
  const passenger: Passenger = {
    leave: () => controller.abort(),
    outcome: undefined,
    endedAt: undefined,
    deadlineAt: waiter.deadlineAt,
  };
  const end = (outcome: string): void => {
    passenger.outcome = outcome;
    passenger.endedAt = clock.now();
  };
  // As the loader does it: a withdrawn flight is followed by another one.
  const join = async (): Promise<string> => {
    const { value } = await flights.join(key, waiter, launch);
    return value ?? (await join());
  };
  join().then(
    (value) => end(value),
    (error: unknown) => end(nameOf(error)),
  );
  return passenger;
}

function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ("code" in error && typeof error.code === "string") return error.code;
  return error.name === "Error" ? error.message : error.name;
}

function setup(): {
  clock: FakeClock;
  flights: Flights<string>;
  launches: Launched[];
  join: (patienceMs?: number, key?: string) => Passenger;
} {
  const clock = createFakeClock();
  const flights = createFlights<string>(clock);
  const launches: Launched[] = [];
  const launch = launchInto(launches);
  return {
    clock,
    flights,
    launches,
    join: (patienceMs, key) => board(flights, clock, launch, patienceMs, key),
  };
}

describe("flights", () => {
  it("of two keys are two, and neither waits for the other", async () => {
    const { flights, launches, join } = setup();
    const [one, other] = [join(1_000, "one"), join(1_000, "other")];
    await settled();
    expect(flights.size).toBe(2);
    launches[1]?.landing.resolve("landed");
    await settled();
    expect([one.outcome, other.outcome]).toEqual([undefined, "landed"]);
    expect(flights.size).toBe(1);
  });

  it("are one for a thousand that ask at once, and leave nothing behind", async () => {
    const { clock, flights, launches, join } = setup();
    const all = Array.from({ length: 1_000 }, () => join());
    await settled();
    launches[0]?.landing.resolve("landed");
    await settled();
    expect(all.filter(({ outcome }) => outcome !== "landed")).toEqual([]);
    expect([launches.length, flights.size, clock.pending]).toEqual([1, 0, 0]);
  });

  it("that fail are not handed to the next who asks, not even at once", async () => {
    const { launches, flights, clock } = setup();
    const launch = launchInto(launches);
    const waiter = {
      app: "web",
      deadlineAt: clock.now() + 1_000,
      gone: new AbortController().signal,
      priority: "interactive",
    } as const;
    const again = flights.join("key", waiter, launch).catch(() => flights.join("key", waiter, launch));
    await settled();
    launches[0]?.landing.reject(new Error("failed"));
    await settled();
    launches[1]?.landing.resolve("landed");
    expect(await again).toEqual({ value: "landed", collapsed: false });
  });

  it("that cannot even be launched fail like others", async () => {
    const { clock, flights } = setup();
    const passenger = board(flights, clock, () => {
      throw new Error("never left");
    });
    await settled();
    expect([passenger.outcome, flights.size, clock.pending]).toEqual(["never left", 0, 0]);
  });

  it("whose waiters all hang up are told, and may fail unheard", async () => {
    const { flights, launches, clock, join } = setup();
    const [one, other] = [join(), join()];
    await settled();
    const [launched] = launches;
    if (launched) launched.sent = true;
    one.leave();
    await settled();
    expect(launched?.waiting.abandoned.aborted).toBe(false);
    other.leave();
    await settled();
    expect(launched?.waiting.abandoned.aborted).toBe(true);
    expect([one.outcome, other.outcome]).toEqual(["CallerGone", "CallerGone"]);
    launched?.landing.reject(new Error("nobody hears this"));
    await settled();
    expect([flights.size, clock.pending]).toEqual([0, 0]);
  });

  it("withdrawn for want of waiters are launched anew, once, for all who joined meanwhile", async () => {
    const { launches, join } = setup();
    const first = join();
    await settled();
    first.leave();
    await settled();
    expect(launches[0]?.waiting.abandoned.aborted).toBe(true);
    const late = [join(), join(), join()];
    await settled();
    await settled();
    expect(launches).toHaveLength(2);
    launches[1]?.landing.resolve("landed");
    await settled();
    expect(late.map(({ outcome }) => outcome)).toEqual(["landed", "landed", "landed"]);
  });

  it("that were abandoned and then joined have the deadline of who joined", async () => {
    const { clock, launches, join } = setup();
    join(1_000);
    await settled();
    const [launched] = launches;
    if (launched) launched.sent = true;
    await clock.advance(1_000);
    const late = join(3_000);
    expect(launched?.waiting.deadlineAt()).toBe(clock.now() + 3_000);
    await clock.advance(3_000);
    expect(late.outcome).toBe("deadline-exceeded");
    expect(launches).toHaveLength(1);
  });

  it("are refused to one whose deadline has passed", async () => {
    const { clock, join } = setup();
    const passenger = join(0);
    await clock.advance(0);
    expect(passenger.outcome).toBe("deadline-exceeded");
  });
});

function expectGoodEnd({ outcome, endedAt, deadlineAt }: Passenger, left: boolean): void {
  // In particular nobody who is still there is told of a withdrawal.
  expect(outcome).toBeOneOf(["landed", "failed", "deadline-exceeded", "CallerGone"]);
  expect(endedAt).toBeLessThanOrEqual(deadlineAt);
  if (outcome === "CallerGone") expect(left).toBe(true);
  if (outcome === "deadline-exceeded") expect(endedAt).toBe(deadlineAt);
}

describe("whatever happens to flights and waiters", () => {
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

  it("one flight at most is in the air, and everyone has an answer by the deadline", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const { clock, flights, launches, join } = setup();
        const passengers: Passenger[] = [];
        const left = new Set<Passenger>();
        for (const { does, amount } of steps) {
          const current = launches.at(-1);
          if (does === "join") passengers.push(join(amount));
          const passenger = passengers[amount % Math.max(1, passengers.length)];
          if (does === "leave" && passenger !== undefined) {
            left.add(passenger);
            passenger.leave();
          }
          if (does === "wait") await clock.advance(amount);
          if (does === "send" && current) current.sent = true;
          if (does === "land") current?.landing.resolve("landed");
          if (does === "fail") current?.landing.reject(new Error("failed"));
          // Not after every step: some things happen in one instant.
          if (amount % 3 > 0) await settled();
          expect(launches.filter(({ ended }) => !ended).length).toBeLessThanOrEqual(1);
        }
        await clock.advance(60);
        await settled();
        for (const { landing } of launches) landing.resolve("late");
        await settled();

        for (const passenger of passengers) expectGoodEnd(passenger, left.has(passenger));
        expect([flights.size, clock.pending]).toEqual([0, 0]);
      }),
      { numRuns: 300 },
    );
  });
});
