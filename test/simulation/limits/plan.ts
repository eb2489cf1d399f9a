/** The plan of a history: its limits, its settings, and its kinds of faults. */
import type { RateWindow } from "../../../src/usage/rate-window.ts";
import type { TestRandom } from "../../support/random.ts";

const FAULTS = [
  "partition",
  "kill",
  "freeze",
  "stop",
  "surge",
  "redis-down",
  "redis-slow",
  "redis-frozen",
  "empty",
  "roll-back",
  "evict",
  "failover",
  "clock-step",
  "limits",
  "replicas",
] as const;
export type Fault = (typeof FAULTS)[number];

/** After these, only own purses pay for a while. */
const RARE: readonly Fault[] = ["empty", "roll-back", "evict", "failover", "limits", "replicas"];

export type Plan = Readonly<ReturnType<typeof drawPlan>>;

const window = (limit: number, windowMs: number): RateWindow => ({ name: `${windowMs}ms`, limit, windowMs });

const LIMITS: readonly (readonly RateWindow[])[] = [
  [window(40, 4_000), window(120, 20_000)],
  [window(40, 4_000), window(120, 20_000)],
  [window(20, 4_000)],
  [window(20, 3_000), window(50, 9_000), window(100, 30_000)],
  [window(60, 20_000), window(24, 4_000)],
  [window(40, 10_000)],
];

export function drawPlan(random: TestRandom) {
  const windows = random.pick(LIMITS);
  const mayRare = random.some(RARE);
  const slots = random.pick([3, 4]);
  const factor = random.pick([0.5, 0.8, 1.5]);
  return {
    windows,
    /** New processes use these after the limits have changed. */
    laterWindows: windows.map((one) => ({ ...one, limit: Math.floor(one.limit * factor) })),
    slots,
    laterSlots: random.pick([2, 3, 5]),
    running: 3,
    reserve: random.pick([0.1, 0.3, 0.3, 0]),
    arrivalMs: random.pick([100, 400, 2_000]),
    timeoutMs: 150,
    degradedForMs: random.pick([6_000, 10_000]),
    /** The speed of Redis' clock. */
    redisRate: random.chance(0.4) ? 1 + random.between(-100, 100) / 1_000 : 1,
    lostReplies: random.pick([0, 0.02]),
    faults: random.some(FAULTS).filter((fault) => !RARE.includes(fault) || mayRare.includes(fault)),
    betweenFaultsMs: random.pick([1_500, 4_000]),
    /** How many permits each replica requests at once; 0 for an idle replica. */
    dispatchers: random.pick([
      [3, 3, 3],
      [5, 0, 0],
      [3, 1, 0],
    ]),
    /** Time before the first fault. */
    quietMs: random.between(500, 5_000),
    faultyMs: random.pick([15_000, 40_000]),
    /** The part of the calls whose end is never reported. */
    unsettled: random.pick([0, 0, 0.1, 1]),
    /** Whether to measure how much of the limits is used. That takes longer. */
    isMeasured: random.chance(0.1),
    /** Whether the script counts the day of the app before any purse pays. */
    hasPerDay: random.chance(0.3),
  };
}
