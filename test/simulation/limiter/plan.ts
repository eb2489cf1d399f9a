/** What a history is about: its limits, its settings, and what may go wrong in it. */
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

/** These are rarer than the others: after each, nothing but the escrow is granted for a while. */
const RARE: readonly Fault[] = [
  "redis-empty",
  "redis-restarted-empty",
  "failover",
  "clock-forward",
  "clock-back",
  "limits",
  "replicas",
];

/** Few kinds of faults, one right after another: each hits what the last one has left behind. */
const DENSE: readonly (readonly Fault[])[] = [
  ["kill", "deploy", "redis-empty", "redis-restarted-empty"],
  ["partition", "failover", "kill"],
  ["clock-forward", "kill", "partition"],
];

export interface Plan {
  readonly windows: readonly RateWindow[];
  /** In force for new processes, once the limits change. */
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
  /** How many permits each replica asks for at once; 0: it asks for none. */
  readonly dispatchers: readonly number[];
  readonly faultyMs: number;
  /** Permits whose calls never say how they ended. */
  readonly unsettled: number;
  /** How much of the limits is used is looked at too: that takes as long as all the rest. */
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
