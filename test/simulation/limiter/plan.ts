/** The plan of a history: its limits, its settings, and its kinds of faults. */
import type { RateWindow } from "../../../src/usage/rate-window.ts";
import type { TestRandom } from "../../support/random.ts";

const FAULTS = [
  "partition",
  "kill",
  "freeze",
  "deploy",
  "surge",
  "dead",
  "outage",
  "redis-slow",
  "redis-frozen",
  "redis-empty",
  "redis-restarted-empty",
  "failover",
  "clock-forward",
  "clock-back",
  "limits",
  "replicas",
] as const;
export type Fault = (typeof FAULTS)[number];

/** These faults are rarer than the others, because after each of them only escrow is granted for a while. */
const RARE: readonly Fault[] = [
  "redis-empty",
  "redis-restarted-empty",
  "failover",
  "clock-forward",
  "clock-back",
  "limits",
  "replicas",
];

/** Few kinds of faults in quick succession: each one begins before the effects of the last one have ended. */
const DENSE: readonly (readonly Fault[])[] = [
  ["kill", "deploy", "redis-empty", "redis-restarted-empty"],
  ["partition", "failover", "kill"],
  ["clock-forward", "kill", "partition"],
];

export interface Plan {
  readonly windows: readonly RateWindow[];
  /** New processes use these after the limits have changed. */
  readonly laterWindows: readonly RateWindow[];
  readonly slots: number;
  readonly laterSlots: number;
  readonly running: number;
  readonly arrivalMs: number;
  readonly leaseMs: number;
  readonly timeoutMs: number;
  readonly degradedForMs: number;
  readonly faults: readonly Fault[];
  readonly betweenFaultsMs: number;
  /** How many permits each replica requests at once; 0 for an idle replica. */
  readonly dispatchers: readonly number[];
  readonly faultyMs: number;
  /** The part of the calls whose end is never reported. */
  readonly unsettled: number;
  /** Whether to measure how much of the limits is used. That doubles the time of the history. */
  readonly isMeasured: boolean;
}

const window = (limit: number, windowMs: number): RateWindow => ({ name: `${windowMs}ms`, limit, windowMs });

const LIMITS: readonly (readonly RateWindow[])[] = [
  [window(40, 1_000), window(120, 5_000)],
  [window(40, 1_000), window(120, 5_000)],
  [window(10, 1_000)],
  [window(12, 600), window(40, 1_900), window(100, 6_000)],
  [window(45, 5_000), window(15, 1_000)],
  [window(40, 4_000)],
];

export function drawPlan(random: TestRandom): Plan {
  const windows = random.pick(LIMITS);
  const mayRare = random.some(RARE);
  const slots = random.pick([3, 4]);
  const factor = random.pick([0.5, 0.8, 1.5]);
  const plan: Plan = {
    windows,
    laterWindows: windows.map((one) => ({ ...one, limit: Math.floor(one.limit * factor) })),
    slots,
    laterSlots: random.pick([2, 3, 5]),
    running: 3,
    arrivalMs: 100,
    leaseMs: 400,
    timeoutMs: 150,
    degradedForMs: 2_500,
    faults: random
      .some(FAULTS)
      .filter((fault) => !RARE.includes(fault) || (mayRare.includes(fault) && random.chance(0.5))),
    betweenFaultsMs: random.pick([800, 3_000]),
    dispatchers: random.pick([
      [3, 3, 3],
      [4, 0, 0],
      [2, 1, 0],
    ]),
    faultyMs: random.pick([3_000, 6_000, 12_000]),
    unsettled: random.pick([0, 0, 0.1, 1]),
    isMeasured: random.chance(0.25),
  };
  return random.chance(0.3)
    ? { ...plan, faults: random.pick(DENSE), betweenFaultsMs: 400, faultyMs: Math.max(plan.faultyMs, 6_000) }
    : plan;
}
