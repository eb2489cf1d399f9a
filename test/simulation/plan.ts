/** What is thrown for one history: how big everything is, and what may go wrong in it. */
import type { Terms } from "../../src/ratelimit/arbiter.ts";
import type { Window } from "../../src/ratelimit/windows.ts";
import type { Dice } from "../support/dice.ts";

const FAULTS = [
  "slow",
  "loss",
  "news-loss",
  "outage-of-one",
  "outage-of-all",
  "restart-kept",
  "restart-partly",
  "restart-lost",
  "kill",
  "stop",
  "stall",
  "slow-down",
] as const;
export type Fault = (typeof FAULTS)[number];

export interface Plan {
  readonly replicas: number;
  readonly terms: Terms;
  /** From the middle of the faults on, new replicas start with these. */
  readonly laterTerms: Terms;
  readonly degradedForMs: number;
  readonly faults: readonly Fault[];
  readonly pace: Pace;
}

/** How much happens, and how fast. */
interface Pace {
  /** For how long things go wrong. */
  readonly faultyMs: number;
  /** How likely it is that something does, at each step. */
  readonly faultsPerStep: number;
  readonly longestFaultMs: number;
  /** Over how many windows it is seen whether all that there is gets used. */
  readonly windowsOfUse: number;
}

const LONG: Pace = { faultyMs: 15_000, faultsPerStep: 0.06, longestFaultMs: 9_000, windowsOfUse: 5 };
/** Many of these go into the time of one long history, and most of what can go wrong needs no longer. */
const SHORT: Pace = { faultyMs: 5_000, faultsPerStep: 0.1, longestFaultMs: 3_000, windowsOfUse: 3 };

type Limits = readonly (readonly [limit: number, windowMs: number])[];

const SMALL: Limits = [[6, 2_000]];
const MEDIUM: Limits = [[20, 3_000]];
const LARGE: Limits = [[50, 4_000]];
const TWO: Limits = [
  [6, 1_500],
  [14, 6_000],
];
/** Seldom the one in which most is sent. */
const WINDOWS = [SMALL, MEDIUM, TWO, SMALL, MEDIUM, TWO, LARGE];

export const LEASE_MS = 2_500;
export const APPS = ["web", "batch", "mobile"] as const;

export function drawPlan(dice: Dice, allowed: readonly Fault[] = FAULTS): Plan {
  const windows = dice
    .pick(WINDOWS)
    .map(([limit, windowMs]): Window => ({ name: `${windowMs}`, limit, windowMs }));
  const terms: Terms = {
    windows,
    reserve: dice.pick([0, 0, 0.2]),
    apps: new Map(APPS.map((app) => [app, { weight: dice.between(1, 3), perDay: null }])),
    leaseMs: LEASE_MS,
    maxCoolOffMs: 2_000,
  };
  const factor = dice.pick([1, 1, 0.5, 2]);
  const later = windows.map((window) => ({ ...window, limit: window.limit * factor }));
  return {
    replicas: dice.pick([1, 2, 2, 3, 3, 4, 5]),
    terms,
    laterTerms: { ...terms, windows: later },
    degradedForMs: dice.pick([1_000, 3_000, 60_000]),
    faults: dice.some(allowed),
    pace: dice.pick([LONG, SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, SHORT]),
  };
}

/** The most that may be sent in each window. */
export function agreed({ terms, laterTerms }: Plan): readonly { limit: number; windowMs: number }[] {
  return terms.windows.map(({ limit, windowMs }, index) => ({
    windowMs,
    limit: Math.max(limit, laterTerms.windows[index]?.limit ?? limit),
  }));
}
