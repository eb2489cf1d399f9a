/** Requests by outcome over time, and the present rates of requests and upstream calls. */
import { type OriginName, ORIGINS, type Outcome, OUTCOMES } from "../../types.ts";
import type { OutcomeCounts, Series } from "./types.ts";

const STEP_MS = 5_000;
/** A quarter of an hour. */
const STEPS = 180;
/** `perSecond` is the mean of this many ticks. */
const TICKS = 5;
/** The rate of the calls is the mean of the last ten seconds, minute, five minutes, and quarter of an hour. */
const RATE_STEPS = [2, 12, 60, 180];
export const RATE_PERIODS_MS: readonly number[] = RATE_STEPS.map((steps) => steps * STEP_MS);

export interface SeriesRecorder {
  /** Counts a request. */
  readonly add: (outcome: Outcome) => void;
  /** Counts an upstream call. */
  readonly called: (origin: OriginName) => void;
  /** The number of requests of each outcome since the start. */
  readonly outcomes: () => ReadonlyMap<Outcome, number>;
  /** Called every second. */
  readonly tick: (now: number) => void;
  readonly read: (now: number) => {
    readonly perSecond: OutcomeCounts;
    readonly series: Series;
    readonly callsPerSecond: Readonly<Record<OriginName, readonly number[]>>;
  };
}

/** The counters at an instant. They only rise; the differences between readings are the series. */
interface Reading {
  readonly at: number;
  readonly outcomes: readonly number[];
  readonly calls: readonly number[];
}

export function createSeries(startedAt: number): SeriesRecorder {
  const outcomes = OUTCOMES.map(() => 0);
  const calls = ORIGINS.map(() => 0);
  const numberOf = new Map(OUTCOMES.map((outcome, index) => [outcome, index]));
  const reading = (at: number): Reading => ({ at, outcomes: [...outcomes], calls: [...calls] });
  let ticks = [reading(startedAt)];
  /** The readings at the end of each step, the newest last. */
  let ends = [reading(startedAt)];
  let step = stepOf(startedAt);

  return {
    add(outcome) {
      const index = numberOf.get(outcome) ?? 0;
      outcomes[index] = (outcomes[index] ?? 0) + 1;
    },
    called(origin) {
      const index = ORIGINS.indexOf(origin);
      calls[index] = (calls[index] ?? 0) + 1;
    },
    outcomes: () => new Map(OUTCOMES.map((outcome, index) => [outcome, outcomes[index] ?? 0])),
    tick(now) {
      ticks = [...ticks, reading(now)].slice(-TICKS - 1);
      // The process was suspended, or its clock was set: the series starts again.
      if (stepOf(now) < step || stepOf(now) > step + STEPS) {
        ends = [reading(now)];
        step = stepOf(now);
      }
      for (; step < stepOf(now); step++) ends = [...ends, reading(now)].slice(-STEPS - 1);
    },
    read(now) {
      const [first] = ticks;
      const seconds = Math.max(1, (now - (first?.at ?? now)) / 1000);
      const perSecond = OUTCOMES.map((outcome, index) => {
        const count = (outcomes[index] ?? 0) - (first?.outcomes[index] ?? 0);
        return [outcome, count / seconds] as const;
      });
      // A young process divides by the whole period too, so a burst in its first seconds gives no high rate.
      const rateOf = (index: number): number[] =>
        RATE_STEPS.map((steps) => {
          const before = (ends.at(-steps - 1) ?? ends[0])?.calls[index] ?? 0;
          return ((calls[index] ?? 0) - before) / ((steps * STEP_MS) / 1000);
        });
      return {
        perSecond: Object.fromEntries(perSecond.filter(([, rate]) => rate > 0)),
        series: { stepMs: STEP_MS, lastStep: step - 1, counts: countsIn(ends) },
        callsPerSecond: { api: rateOf(ORIGINS.indexOf("api")), images: rateOf(ORIGINS.indexOf("images")) },
      };
    },
  };
}

function stepOf(at: number): number {
  return Math.floor(at / STEP_MS);
}

function countsIn(ends: readonly Reading[]): Series["counts"] {
  const counts = OUTCOMES.map((outcome, index): [Outcome, number[]] => [
    outcome,
    ends.slice(1).map((end, at) => (end.outcomes[index] ?? 0) - (ends[at]?.outcomes[index] ?? 0)),
  ]);
  return Object.fromEntries(counts.filter(([, values]) => values.some((value) => value > 0)));
}
