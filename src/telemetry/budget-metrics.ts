import type { Cause, Priority, RefusalReason } from "../types.ts";
import { BUDGET, UPSTREAM } from "./catalogue.ts";
import type { Instruments } from "./instruments.ts";

/** A circuit, and the values of its gauge. */
const CIRCUIT_STATES = { closed: 0, "half-open": 1, open: 2 } as const;
type CircuitState = keyof typeof CIRCUIT_STATES;

/** How the budget stands at the moment of a scrape. */
export interface BudgetSources {
  /** `window` is the window's name; those of the images' budget begin with `images/`. */
  readonly windows: () => readonly {
    readonly window: string;
    readonly limit: number;
    readonly remaining: number;
  }[];
  readonly queue: () => readonly { readonly priority: Priority; readonly length: number }[];
  readonly circuits: () => readonly { readonly circuit: string; readonly state: CircuitState }[];
}

export interface BudgetMetrics {
  readonly spent: (app: string, cause: Cause, waitedMs: number) => void;
  /** @param isEnforced whether it was refused, or only would have been */
  readonly refused: (app: string, reason: RefusalReason, isEnforced: boolean) => void;
}

/** What is left of each window, the queue and the circuits at the moment of a scrape. */
export function sampleBudget({ sampled }: Instruments, sources: BudgetSources): void {
  sampled(BUDGET.limit, () => sources.windows().map(({ window, limit }) => [{ window }, limit]));
  sampled(BUDGET.remaining, () => sources.windows().map(({ window, remaining }) => [{ window }, remaining]));
  sampled(BUDGET.queueLength, () => sources.queue().map(({ priority, length }) => [{ priority }, length]));
  sampled(UPSTREAM.circuitState, () =>
    sources.circuits().map(({ circuit, state }) => [{ circuit }, CIRCUIT_STATES[state]]),
  );
}

/** Counts the calls that each app spends, its refusals and its waits. */
export function registerBudgetMetrics({ counter, histogram }: Instruments): BudgetMetrics {
  const spent = counter(BUDGET.spent);
  const refused = counter(BUDGET.refused);
  const wouldBeRefused = counter(BUDGET.wouldBeRefused);
  const waited = histogram(BUDGET.waitSeconds);
  return {
    spent(app, cause, waitedMs) {
      spent.inc({ app, cause });
      waited.observe(waitedMs / 1000);
    },
    refused: (app, reason, isEnforced) => (isEnforced ? refused : wouldBeRefused).inc({ app, reason }),
  };
}
