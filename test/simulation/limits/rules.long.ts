/** Each rule of the shared purse is needed: without it, one of a few random histories exceeds a limit. */
import { expect, it } from "vitest";

import { playHistory } from "./history.ts";
import type { Plan } from "./plan.ts";
import { LUA, stageForFile } from "../../support/redis-stage.ts";

interface Removal {
  /** The rule that is left out, and what happens then. */
  readonly without: string;
  /** The history to play first: one that exceeds a limit, so that few are played. 1 where absent. */
  readonly seed?: number;
  /** The code of the rule in the script, and its replacement. */
  readonly change: readonly [rule: string, without: string];
  readonly plan: Partial<Plan>;
}

/** This many seeds are tried until one exceeds a limit. */
const MOST_SEEDS = 120;
const AT_ONCE = 6;

const window = (limit: number, windowMs: number) => ({ name: `${windowMs}ms`, limit, windowMs });
const SHORT = [window(40, 4_000)];
const PAIR = [window(40, 4_000), window(120, 20_000)];
/** Many calls at once, no delays that hide an overrun, and large own purses. */
const GREEDY: Partial<Plan> = {
  windows: PAIR,
  reserve: 0.3,
  slots: 3,
  redisRate: 1,
  lostReplies: 0,
  arrivalMs: 100,
  degradedForMs: 6_000,
  dispatchers: [5, 5, 5],
  faultyMs: 40_000,
  betweenFaultsMs: 1_500,
  unsettled: 0,
  isMeasured: false,
};

const REMOVALS: readonly Removal[] = [
  {
    without: "rule 1: the script does not check the shared purse",
    change: ["if rooms[i] < 1 and", "if false and"],
    plan: { faults: [], faultyMs: 1_000, dispatchers: [5, 0, 0] },
  },
  {
    without: "rule 1: the shared purse has the whole limit",
    change: [
      "return w.limit - math.max(ownTotal(request.purses, w.windowMs), ownTotal(state.purses, w.windowMs))",
      "return w.limit",
    ],
    plan: { faults: [] },
  },
  {
    without: "rule 3: a slot is free before its holder has certainly stopped",
    change: ["now > slot.renewedAt + slot.holdMs", "now > slot.renewedAt + 1000"],
    plan: { windows: SHORT, slots: 2, faults: ["partition", "freeze"], reserve: 0.5 },
  },
  {
    without: "rule 3: slots of two sizes are held at once",
    change: ["if slot.holder then return false end", ""],
    plan: {
      windows: SHORT,
      faults: ["replicas", "kill", "stop"],
      reserve: 0.5,
      laterSlots: 1,
      dispatchers: [5, 5, 5],
    },
  },
  {
    without: "rule 4: a new holder takes over nothing",
    seed: 2,
    change: ["reply.inherited = redis.call('ZRANGE', OWN, 0, -1, 'WITHSCORES')", ""],
    plan: { faults: ["stop", "kill"], reserve: 0.5, dispatchers: [5, 5, 5] },
  },
  {
    without: "rule 4: calls that a dead holder did not report are forgotten",
    change: ["most = math.max(slot.most, lost.most)", "most = lost.most"],
    plan: {
      windows: [window(40, 4_000), window(80, 60_000)],
      faults: ["redis-down", "kill", "partition"],
      reserve: 0.5,
    },
  },
  {
    without: "rule 5: nobody notices that data were lost",
    change: ["< known.seq then return lose(", "< 0 then return lose("],
    plan: { faults: ["empty", "roll-back"] },
  },
  {
    without: "rule 5: nobody notices that a key is gone",
    change: ["if sizes() ~= state.sizes then lose(state.counts, 0, state.purses) end", ""],
    plan: { faults: ["evict"] },
  },
  {
    without: "rule 5: the shared purse stays open after a loss",
    change: [
      "state.openAt, state.since = now + span(shortest.windowMs + state.countMs) + request.unknownMs, now",
      "state.since = now",
    ],
    plan: { windows: SHORT, faults: ["empty", "roll-back"] },
  },
  {
    without: "rule 5: longer windows begin anew after a loss",
    change: ["if ms ~= shortest.windowMs then owe(ms, one[1]) end", ""],
    plan: { faults: ["empty", "roll-back"] },
  },
  {
    without: "rule 5: slots are free after a loss",
    seed: 3,
    change: ["state.slots[k] = { holder = UNKNOWN,", "state.slots[k] = {"],
    plan: { windows: SHORT, faults: ["empty", "partition", "surge"], reserve: 0.5 },
  },
  {
    without: "rule 5: what a slot spent before a loss is new to its next holder",
    change: ["{ most = slot.most, at = now + state.countMs }", "nil"],
    plan: { windows: [window(40, 4_000), window(80, 60_000)], faults: ["empty", "stop"], reserve: 0.5 },
  },
  {
    without: "rule 6: the time follows Redis' clock",
    change: ["local to = math.max(now, request.time)", "local to = math.max(now, now + clock - state.clock)"],
    plan: { windows: SHORT, faults: ["clock-step"] },
  },
  {
    without: "rule 6: a process works before those who know more",
    seed: 3,
    change: [
      "local isMember =",
      `me, request.time = me or { joinedBy = 0, seq = 0, number = 0, at = now }, request.time or now
      state.processes[request.process] = me
      local isMember =`,
    ],
    plan: { windows: [window(40, 12_000)], faults: ["empty", "kill"] },
  },
  {
    without: "rule 6: the time jumps to what the clock of a replica shows that was away",
    change: ["(isAhead and state.workedSeq > me.seq)", "false"],
    plan: { windows: SHORT, faults: ["partition", "kill", "freeze"] },
  },
  {
    without: "rule 6: Redis' clock alone says what passed while nobody measured",
    seed: 262,
    change: ["math.min(clock - state.clock, request.wall - state.wall)", "clock - state.clock"],
    plan: { windows: SHORT, faults: ["clock-step", "kill", "partition"], betweenFaultsMs: 800 },
  },
];

const stage = stageForFile();

it.each(REMOVALS)("a limit is exceeded without $without", { timeout: 240_000 }, async (removal) => {
  const { seed: known = 1, plan } = removal;
  const [rule, without] = removal.change;
  expect(LUA).toContain(rule);
  const lua = LUA.replace(rule, without);
  const change = (drawn: Plan): Plan => ({ ...drawn, ...GREEDY, laterWindows: PAIR, ...plan });
  async function isExceeded(seeds: readonly number[]): Promise<boolean> {
    const outcomes = await Promise.all(seeds.map((seed) => playHistory(stage(), seed, { lua, change })));
    const problems = outcomes.flatMap((outcome) => outcome.problems);
    expect(problems.filter((problem) => problem.includes("ERR"))).toEqual([]);
    return problems.some((problem) => problem.includes("within"));
  }
  if (await isExceeded([known])) return;
  for (let first = 1; first <= MOST_SEEDS; first += AT_ONCE)
    if (await isExceeded(Array.from({ length: AT_ONCE }, (_, index) => first + index))) return;
  expect.fail("no history exceeds a limit");
});
