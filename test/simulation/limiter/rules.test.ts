/** Each rule of the hard limits is needed: without the rule, a short scenario exceeds a limit. */
import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import type { RateWindow } from "../../../src/usage/rate-window.ts";
import { mostWithin } from "../../support/arrivals.ts";
import { createRandom, type TestRandom } from "../../support/random.ts";
import type { Plan } from "./plan.ts";
import { createWorld, type Replica, start, type World } from "./world.ts";

const LUA = readFileSync(new URL("../../../src/ratelimit/lua/limiter.lua", import.meta.url), "utf8");

const SHORT: RateWindow = { name: "1s", limit: 40, windowMs: 1_000 };
const MEDIUM: RateWindow = { name: "5s", limit: 120, windowMs: 5_000 };
const LONG: RateWindow = { name: "40s", limit: 600, windowMs: 40_000 };

interface Scenario {
  readonly rule: string;
  readonly what: string;
  /** The code of the rule in the script, and its replacement. */
  readonly change: readonly [rule: string, without: string];
  readonly windows: readonly RateWindow[];
  /** How many permits each of the three replicas requests at once. */
  readonly asks: readonly number[];
  /** The first seed that exceeds a limit without the rule, if that is not 1 or 2. */
  readonly seed?: number;
  readonly play: (world: World, random: TestRandom) => Promise<void>;
}

/** The seed decides when messages arrive. This many seeds are tried until one exceeds a limit. */
const MOST_SEEDS = 60;

/** @returns the limits that were exceeded */
async function exceededBy({ windows, asks, play }: Scenario, lua: string, seed: number): Promise<string[]> {
  const random = createRandom(seed);
  const world = createWorld(planOf(windows, asks), random, createRandom(~seed), lua);
  await play(world, random);
  for (const replica of world.replicas) replica.isAlive = false;
  expect(world.problems).toEqual([]);
  const instants = world.arrivals.map(({ at }) => at);
  return windows
    .map(({ limit, windowMs, name }) => [mostWithin(instants, windowMs), limit, name] as const)
    .filter(([count, limit]) => count > limit)
    .map(([count, limit, name]) => `${count} of ${limit} in ${name}`);
}

function planOf(windows: readonly RateWindow[], dispatchers: readonly number[]): Plan {
  return {
    windows,
    laterWindows: windows,
    dispatchers,
    slots: 3,
    laterSlots: 3,
    running: 3,
    arrivalMs: 100,
    leaseMs: 400,
    timeoutMs: 150,
    degradedForMs: 2_500,
    faults: [],
    betweenFaultsMs: 0,
    faultyMs: 0,
    unsettled: 0,
    isMeasured: false,
  };
}

/** Starts three replicas and lets them share the limits for a while. */
async function three(world: World, ms: number): Promise<[Replica, Replica, Replica]> {
  const replicas: [Replica, Replica, Replica] = [start(world, 0), start(world, 1), start(world, 2)];
  await world.clock.advance(ms);
  return replicas;
}

const BUSY = [3, 3, 3];

const SCENARIOS: readonly Scenario[] = [
  {
    rule: "1",
    what: "a replica is cut off while the others use everything",
    change: [
      "local most = math.max(promise.escrow, promise.quota)",
      "local most = slot.untilAt < now and math.max(promise.escrow, promise.quota) or 0",
    ],
    seed: 6,
    windows: [SHORT, MEDIUM],
    asks: [2, 9, 9],
    async play(world, random) {
      const [one] = await three(world, 5_000 + random.between(0, 5_000));
      one.isPartitioned = true;
      await world.clock.advance(1_000);
    },
  },
  {
    rule: "2",
    what: "a replica is cut off for so long that it spends its part",
    change: ["if slot.untilAt < now and not neverUsedPart then", "if false then"],
    windows: [SHORT],
    asks: BUSY,
    play: cutOffForLong,
  },
  {
    rule: "3",
    what: "a replica spends its part before that has been reserved for a window",
    change: [
      "if slot.untilAt < now and not neverUsedPart then",
      "if slot.untilAt + 2 * w.ms < now and not neverUsedPart then",
    ],
    windows: [SHORT],
    asks: BUSY,
    play: cutOffForLong,
  },
  {
    rule: "4",
    what: "a replica that is cut off continues after its slot is free",
    change: ["local at = slot.untilAt + slot.stopAfterMs", "local at = slot.untilAt"],
    windows: [SHORT],
    asks: BUSY,
    play: cutOffForLong,
  },
  {
    rule: "5",
    what: "a message that arrives late renews a slot",
    change: ["if now > request.timeAtLeast + request.timeoutMs then", "if false then"],
    windows: [SHORT],
    asks: BUSY,
    async play(world) {
      const [one] = await three(world, 3_000);
      one.slowMs = 2_300;
      await world.clock.advance(4_000);
    },
  },
  {
    rule: "6",
    what: "a replica returns and does not upload what it sent",
    change: ["for _, send in ipairs(request.sends) do", "for _, send in ipairs({}) do"],
    windows: [SHORT],
    asks: BUSY,
    async play(world) {
      const [one] = await three(world, 3_000);
      one.isPartitioned = true;
      await world.clock.advance(2_500);
      one.isPartitioned = false;
      await world.clock.advance(1_500);
    },
  },
  {
    rule: "7",
    what: "a new holder spends what is not reserved for it",
    change: ["math.min(wanted, own + rooms[i].fits)", "wanted"],
    seed: 5,
    windows: [SHORT, MEDIUM],
    asks: BUSY,
    async play(world, random) {
      const [one] = await three(world, 5_000);
      one.isStopping = true;
      void one.limiter.close();
      await world.clock.advance(1_000 + random.between(0, 5_000));
      one.isAlive = false;
      const next = start(world, 0);
      await world.clock.advance(random.between(50, 200));
      next.isPartitioned = true;
      await world.clock.advance(1_000);
    },
  },
  {
    rule: "8",
    what: "a slot is free before the calls of its holder have left the window",
    change: ["now > stopsAt(slot) + slot.shortMs then", "now > stopsAt(slot) then"],
    windows: [SHORT],
    asks: BUSY,
    async play(world) {
      const [one] = await three(world, 3_000);
      one.isPartitioned = true;
      await world.clock.advance(5_000);
    },
  },
  {
    rule: "8",
    what: "a dead process's calls without Redis are forgotten at once",
    change: ["then slot.deadAt = now end", "then state.slots[k] = {} end"],
    windows: [SHORT],
    asks: BUSY,
    play: diesCutOff,
  },
  {
    rule: "8",
    what: "a process spends its part and dies, and its part is not counted",
    change: ["slot.deadAt <= slot.untilAt + w.ms", "slot.deadAt <= slot.untilAt + 9 * w.ms"],
    windows: [SHORT],
    asks: BUSY,
    play: diesCutOff,
  },
  {
    rule: "9",
    what: "a loss of data hides the calls of a dead process",
    change: ["if now < state.closedUntil and i == 1 then return true end", ""],
    seed: 6,
    windows: [SHORT],
    asks: [9, 1, 1],
    play: failOver,
  },
  {
    rule: "9",
    what: "a loss of data hides a replica that is cut off",
    change: ["if slot.epoch ~= state.epoch then", "if false then"],
    windows: [SHORT],
    asks: BUSY,
    async play(world) {
      const [one] = await three(world, 3_000);
      one.isPartitioned = true;
      await world.clock.advance(1_000);
      world.server.data.restore(undefined);
      await world.clock.advance(3_000);
    },
  },
  {
    rule: "9",
    what: "a process starts when the clock of Redis has just been set forward",
    change: ["if hasHolder and now - state.now > request.leaseMs then", "if false then"],
    seed: 4,
    windows: [SHORT],
    asks: BUSY,
    async play(world, random) {
      for (const place of [1, 2]) start(world, place);
      await world.clock.advance(3_000 + random.between(0, 1_000));
      world.server.skewMs += 60_000;
      start(world, 0);
      await world.clock.advance(1_500);
    },
  },
  {
    rule: "9",
    what: "a process starts when Redis has just lost its data",
    change: ["openAt = old and now or now + request.settleMs", "openAt = now"],
    seed: 37,
    windows: [SHORT],
    asks: BUSY,
    async play(world, random) {
      for (const place of [1, 2]) start(world, place);
      await world.clock.advance(3_000 + random.between(0, 1_000));
      world.server.data.restore(undefined);
      start(world, 0);
      await world.clock.advance(1_500);
    },
  },
  {
    rule: "10",
    what: "a replica that is cut off spends of a long window what is not reserved",
    change: [
      "local most = math.max(promise.escrow, promise.quota)",
      "local most = math.max(promise.escrow, w.isLong and 0 or promise.quota)",
    ],
    windows: [SHORT, MEDIUM],
    asks: BUSY,
    async play(world, random) {
      const [one] = await three(world, 5_000 + random.between(0, 5_000));
      one.isPartitioned = true;
      await world.clock.advance(5_000);
    },
  },
  {
    rule: "11",
    what: "a holder does not return, and its calls are forgotten with its slot",
    change: ["for i = 1, most do", "for i = 1, 0 do"],
    windows: [SHORT, MEDIUM],
    asks: BUSY,
    async play(world, random) {
      const [one] = await three(world, 5_000 + random.between(0, 5_000));
      one.isPartitioned = true;
      await world.clock.advance(3_000);
      one.isAlive = false;
      await world.clock.advance(5_000);
    },
  },
  {
    rule: "11",
    what: "permits in a lost reply replace calls that their holder sent instead",
    change: ["reserved(k, w) + (slot.lastGrants or 0)", "reserved(k, w)"],
    seed: 19,
    windows: [SHORT, MEDIUM],
    asks: [20, 4, 4],
    async play(world, random) {
      const [one] = await three(world, 5_000 + random.between(0, 5_000));
      world.observe = ({ args: [request = ""], reply }) => {
        const isOwn = request.includes(`"process":"${one.name}"`);
        if (isOwn && reply.split("isGranted").length > 6) one.isPartitioned = true;
      };
      await world.clock.advance(6_000);
      one.isAlive = false;
      await world.clock.advance(8_000);
    },
  },
  {
    rule: "12",
    what: "no replica reports what counted in the long window before a loss of data",
    change: ["if not (digest and state.countsUnknown) then return end", "if true then return end"],
    windows: [SHORT, LONG],
    asks: BUSY,
    play: backAfterLoss,
  },
  {
    rule: "12",
    what: "the replica that reports it was cut off long before the loss",
    change: ["guess(now, digest.grantedSince)", ""],
    windows: [SHORT, LONG],
    asks: BUSY,
    play: backAfterLoss,
  },
  {
    rule: "12",
    what: "the clock jumps, and the calls of dead processes have wrong ages",
    change: ["if state.hasJumped then redis.call('ZREM', SENDS, known[i])", "if false then"],
    windows: [SHORT, LONG],
    asks: BUSY,
    async play(world) {
      const [one] = [start(world, 0), start(world, 1)];
      await world.clock.advance(14_000);
      one.isAlive = false;
      await world.clock.advance(100);
      world.server.skewMs += 20_000;
      await world.clock.advance(30_000);
    },
  },
  {
    rule: "13",
    what: "a copy that lags takes over",
    change: ["if state and state.run == run then", "if state then"],
    windows: [SHORT],
    asks: [9, 1, 1],
    play: failOver,
  },
];

async function cutOffForLong(world: World): Promise<void> {
  const [one] = await three(world, 3_000);
  one.isPartitioned = true;
  await world.clock.advance(3_000);
}

/** Fails over to a copy that lacks the last calls of a dead replica. */
async function failOver(world: World, random: TestRandom): Promise<void> {
  const [one] = await three(world, 3_000 + random.between(0, 1_000));
  const copy = world.server.data.snapshot();
  await world.clock.advance(300);
  one.isAlive = false;
  world.server.data.replaceServer();
  world.server.data.restore(copy);
  await world.clock.advance(1_500);
}

/** A replica spends its part, dies, and a new process starts at its address. */
async function diesCutOff(world: World): Promise<void> {
  const [one] = await three(world, 3_000);
  one.isPartitioned = true;
  await world.clock.advance(2_600);
  one.isAlive = false;
  start(world, 0, one.address);
  await world.clock.advance(1_500);
}

/** One replica is cut off while another spends the long window. Then the other dies and Redis loses its data. */
async function backAfterLoss(world: World): Promise<void> {
  const [one, two] = [start(world, 0), start(world, 1)];
  await world.clock.advance(3_000);
  one.isPartitioned = true;
  await world.clock.advance(11_000);
  two.isAlive = false;
  world.server.data.restore(undefined);
  one.isPartitioned = false;
  await world.clock.advance(20_000);
}

describe("without rule", () => {
  it.each(SCENARIOS)("[$rule], a limit is exceeded when $what", async (scenario) => {
    const [rule, without] = scenario.change;
    expect(LUA.split(rule)).toHaveLength(2);
    const mutilated = LUA.replace(rule, without);
    let exceeded: string[] = [];
    const { seed: first = 1 } = scenario;
    for (let seed = first; seed < first + MOST_SEEDS && exceeded.length === 0; seed++) {
      exceeded = await exceededBy(scenario, mutilated, seed);
      expect(await exceededBy(scenario, LUA, seed)).toEqual([]);
    }
    expect(exceeded).not.toEqual([]);
  });
});

it("a replica that gives its slot back sends nothing from its escrow when the reply is lost", async () => {
  const world = createWorld(planOf([SHORT], [9]), createRandom(1), createRandom(2));
  const one = start(world, 0);
  await world.clock.advance(5_000);
  let freedAt = Number.POSITIVE_INFINITY;
  world.observe = ({ args: [request = ""], reply }) => {
    if (!request.includes('"isLeaving":true')) return;
    expect(reply).toContain('"kind":"left"');
    one.isPartitioned = true;
    freedAt = world.clock.monotonic();
  };
  one.limiter.configure({ ...world.config, windows: [{ ...SHORT, limit: 20 }] });
  await world.clock.advance(2_000);
  one.isAlive = false;
  // Calls that Redis granted before may still arrive.
  const onTheWayMs = 250;
  expect(freedAt).toBeLessThan(world.clock.monotonic());
  expect(world.arrivals.filter(({ at }) => at > freedAt + onTheWayMs)).toEqual([]);
});
