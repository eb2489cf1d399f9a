/**
 * Processes that share a file, on clocks of their own: what they send together, as the upstream would count
 * it, and that a process which has the file to itself decides as if there were none.
 */
import { describe, expect, it, onTestFinished } from "vitest";

import type { Allowance, Grant, Wish } from "../../../src/ratelimit/allowance.ts";
import { arrive, decide, newStanding, type Terms } from "../../../src/ratelimit/arbiter.ts";
import type { LedgerBounds } from "../../../src/usage/ledger.ts";
import { createLocalAllowance } from "../../../src/ratelimit/local-allowance.ts";
import { createSqliteLedger } from "../../../src/usage/sqlite-ledger.ts";
import { createUnfailingLedger } from "../../../src/usage/unfailing-ledger.ts";
import type { Clock } from "../../../src/process/clock.ts";
import { mostWithin, utilisation } from "../../support/arrivals.ts";
import { createDice, type Dice } from "../../support/dice.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { openSqliteBackend, temporaryDirectory } from "../../support/sqlite.ts";
import { termsOf } from "./arbiter-support.ts";

const NOON = Date.UTC(2026, 0, 15, 12);
const SECOND = { name: "1s", limit: 10, windowMs: 1_000 };
const HALF_MINUTE = { name: "30s", limit: 150, windowMs: 30_000 };
const LEASE_MS = 400;
const TERMS = termsOf({ a: 2, b: 1 }, { windows: [SECOND, HALF_MINUTE], leaseMs: LEASE_MS });

const wishOf = (app: string): Wish => ({
  app,
  priority: "interactive",
  resource: "areas",
  cause: "miss",
  query: "",
});

/** An allowance on the file of a directory, through a connection of its own. */
function onFile(
  directory: string,
  clock: Clock,
  replica: string,
  { terms = TERMS, bounds = {} }: { readonly terms?: Terms; readonly bounds?: Partial<LedgerBounds> } = {},
): Allowance {
  const { database, close } = openSqliteBackend(directory);
  onTestFinished(close);
  const ledger = createUnfailingLedger(
    createSqliteLedger(database, { retentionMs: 86_400_000, maxRecords: 100_000, now: clock.now, ...bounds }),
    { now: clock.now, warn: (message, fields) => expect.fail(`${message} ${JSON.stringify(fields)}`) },
  );
  return createLocalAllowance({ origin: "api", terms, ledger, clock, replica });
}

/** A machine whose time runs in fractions of milliseconds, and whose processes tell it in whole ones. */
interface Machine {
  /** Milliseconds since it began. */
  at: number;
  /** How far the time of day was set. */
  setBy: number;
  readonly clock: () => Clock;
}

function createMachine(dice: Dice): Machine {
  const machine: Machine = {
    at: 0,
    setBy: 0,
    clock() {
      const began = NOON + dice.between(0, 999) / 1_000;
      return {
        now: () => Math.floor(NOON + machine.at + machine.setBy),
        steady: () => Math.floor(began + machine.at),
        after: () => expect.unreachable(),
      };
    },
  };
  return machine;
}

interface Sending {
  readonly allowance: Allowance;
  readonly grant: Grant;
  readonly sentAt: number;
  readonly arrivesAt: number;
  readonly endsAt: number;
  arrivedAt?: number;
}

interface Events {
  /** The time of day is set now and then. */
  readonly isSet?: boolean;
  /** Processes are killed now and then, and others begin. */
  readonly isKilled?: boolean;
  readonly bounds?: Partial<LedgerBounds>;
}

/** Lets processes send whatever they may for a while. @returns when what they sent arrived */
async function saturate(seed: number, forMs: number, events: Events = {}): Promise<number[]> {
  const dice = createDice(seed);
  const machine = createMachine(dice);
  const directory = temporaryDirectory();
  let begun = 0;
  const begin = (): Allowance => onFile(directory, machine.clock(), `process-${++begun}`, events);
  const processes = [begin(), begin(), begin()];
  const arrivals: number[] = [];
  let underWay: Sending[] = [];

  async function ask(allowance: Allowance): Promise<void> {
    const taken = await allowance.take(dice.some(["a", "b"]).map(wishOf));
    if (taken.kind === "wait") return;
    if (dice.chance(0.05)) return allowance.giveBack(taken.grant);
    const arrivesAt = machine.at + (dice.chance(0.1) ? dice.between(1, 300) : dice.between(1, 9_999) / 1_000);
    const endsAt = arrivesAt + dice.between(0, 40);
    underWay.push({ allowance, grant: taken.grant, sentAt: machine.at, arrivesAt, endsAt });
  }

  function deliver(sending: Sending): boolean {
    const { allowance, grant, sentAt, arrivesAt, endsAt } = sending;
    if (sending.arrivedAt === undefined && arrivesAt <= machine.at)
      arrivals.push((sending.arrivedAt = arrivesAt));
    if (endsAt > machine.at) return true;
    // What was killed has arrived, and nobody says so.
    if (processes.includes(allowance)) {
      const durationMs = Math.floor(machine.at - sentAt);
      allowance.settle(grant, { status: 200, arrivedAfterMs: Math.ceil(arrivesAt - sentAt), durationMs });
    }
    return false;
  }

  while (machine.at < forMs) {
    machine.at += dice.between(0, 4_000) / 1_000;
    underWay = underWay.filter(deliver);
    // Some look often, one seldom.
    const index = dice.pick([0, 0, 0, 1, 1, 1, 1, 2]);
    await ask(processes[index] ?? expect.unreachable());
    if (events.isSet && dice.chance(0.005))
      machine.setBy += dice.pick([-3_600_000, -20, -2, 2, 20, 500, 3_600_000]);
    if (events.isKilled && dice.chance(0.001)) processes[index] = begin();
  }
  return arrivals;
}

describe("processes on one file", () => {
  it.each([1, 2, 3, 4])(
    "use up what they share and no more, whatever comes between (seed %i)",
    async (seed) => {
      const arrivals = await saturate(seed, 60_000);
      for (const window of [SECOND, HALF_MINUTE])
        expect(mostWithin(arrivals, window.windowMs)).toBeLessThanOrEqual(window.limit);
      expect(utilisation(arrivals, HALF_MINUTE, 0, 60_000)).toBeGreaterThan(0.9);
    },
  );

  it.each([5, 6])("overrun nothing when some are killed and others begin (seed %i)", async (seed) => {
    const arrivals = await saturate(seed, 60_000, { isKilled: true });
    for (const window of [SECOND, HALF_MINUTE])
      expect(mostWithin(arrivals, window.windowMs)).toBeLessThanOrEqual(window.limit);
    expect(utilisation(arrivals, HALF_MINUTE, 0, 60_000)).toBeGreaterThan(0.8);
  });

  it.each([7, 8, 9, 10])("overrun nothing when the time of day is set (seed %i)", async (seed) => {
    const arrivals = await saturate(seed, 60_000, { isSet: true });
    for (const window of [SECOND, HALF_MINUTE])
      expect(mostWithin(arrivals, window.windowMs)).toBeLessThanOrEqual(window.limit);
    expect(utilisation(arrivals, HALF_MINUTE, 0, 60_000)).toBeGreaterThan(0.5);
  });

  it.each([11, 12])("overrun nothing though lines are dropped meanwhile (seed %i)", async (seed) => {
    const arrivals = await saturate(seed, 60_000, { isSet: true, bounds: { maxRecords: 300 } });
    for (const window of [SECOND, HALF_MINUTE])
      expect(mostWithin(arrivals, window.windowMs)).toBeLessThanOrEqual(window.limit);
  });

  it("know of each other's places without asking for one: in what they predict, show and tell apps", async () => {
    const clock = createFakeClock();
    const directory = temporaryDirectory();
    const terms = termsOf({ a: 1 }, { windows: [{ name: "1m", limit: 2, windowMs: 60_000 }] });
    const [one, other] = ["one", "other"].map((replica) => onFile(directory, clock, replica, { terms }));
    if (one === undefined || other === undefined) return expect.unreachable();
    const seenBy = ({ overview, shareOf, expect: predict }: Allowance): unknown[] => [
      predict(wishOf("a"), []).forMs,
      overview().windows[0]?.byApp,
      shareOf("a")[0]?.remaining,
    ];
    const taken = [await one.take([wishOf("a")]), await one.take([wishOf("a")])];
    expect(seenBy(other)).toEqual([60_001, { a: 2 }, 0]);
    const [first, second] = taken.flatMap((each) => (each.kind === "granted" ? [each.grant] : []));
    if (first === undefined || second === undefined) return expect.unreachable();
    await clock.advance(50);
    one.giveBack(second);
    one.settle(first, { status: 200, arrivedAfterMs: 20, durationMs: 50 });
    expect(seenBy(other)).toEqual([0, { a: 1 }, 1]);
    const anyway = await other.takeAnyway(wishOf("a"));
    expect(seenBy(one)).toEqual([60_001 + 20 - 50, { a: 2 }, 0]);
    other.giveBack(anyway);
    expect(seenBy(one)).toEqual([0, { a: 1 }, 1]);
  });

  it("each leave the upstream alone by what they have been told themselves", async () => {
    const clock = createFakeClock();
    const directory = temporaryDirectory();
    const [one, other] = ["one", "other"].map((replica) => onFile(directory, clock, replica));
    const taken = await one?.take([wishOf("a")]);
    if (taken?.kind !== "granted") return expect.unreachable();
    const slowDown = { cause: "unavailable", forMs: 7_000 } as const;
    one?.settle(taken.grant, { status: 503, arrivedAfterMs: 0, durationMs: 0, slowDown });
    expect(one?.overview().circuits).toMatchObject([{ scope: "areas", state: "open" }]);
    expect(other?.overview().circuits).toEqual([]);
  });
});

describe("a process that has the file to itself", () => {
  it.each([1, 2, 3])("decides as the arbiter does (seed %i)", async (seed) => {
    const dice = createDice(seed);
    const clock = createFakeClock();
    const allowance = onFile(temporaryDirectory(), clock, "alone");
    const standing = newStanding();
    const sends: { grant: Grant; sentAt: number }[] = [];
    for (let step = 0; step < 3_000; step++) {
      await clock.advance(dice.between(0, 30));
      if (dice.chance(0.01)) clock.set(clock.now() + dice.pick([-3_600_000, 5_000, 3_600_000]));
      const wishes = dice.some(["a", "b"]).map(wishOf);
      const taken = await allowance.take(wishes);
      const id = taken.kind === "granted" ? taken.grant.id : "";
      const decided = decide(standing, TERMS, { idOf: () => id, candidates: wishes }, clock.steady());
      if (decided.kind === "wait") {
        expect(taken).toEqual({ kind: "wait", forMs: decided.at - clock.steady() });
      } else {
        expect(taken).toMatchObject({ kind: "granted", grant: { wish: wishes[decided.index] } });
        if (taken.kind === "granted") sends.push({ grant: taken.grant, sentAt: clock.steady() });
      }
      const [next] = sends;
      if (next === undefined || dice.chance(0.5)) continue;
      sends.shift();
      const durationMs = clock.steady() - next.sentAt;
      allowance.settle(next.grant, { status: 200, arrivedAfterMs: durationMs, durationMs });
      arrive(standing, { id: next.grant.id, app: next.grant.wish.app }, clock.steady());
    }
  });
});
