import { Counter, Histogram, type Registry } from "prom-client";

import type { Cause, Priority } from "../exchange.ts";
import { sampledByLabel } from "./sampled.ts";

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
  readonly refused: (app: string, reason: string, isEnforced: boolean) => void;
}

const WAIT_SECONDS = [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** What is left of the budget, who spends it, and who waits for it. */
export function registerBudgetMetrics(registry: Registry, sources: BudgetSources): BudgetMetrics {
  const registers = [registry];
  const gauge = (
    name: string,
    help: string,
    label: readonly string[],
    read: () => readonly (readonly [Record<string, string>, number])[],
  ): void => sampledByLabel(registry, { type: "gauge", name, help, label, read });

  gauge("gateway_budget_limit", "Most requests to the upstream in a window.", ["window"], () =>
    sources.windows().map(({ window, limit }) => [{ window }, limit]),
  );
  gauge("gateway_budget_remaining", "Requests to the upstream left in a window.", ["window"], () =>
    sources.windows().map(({ window, remaining }) => [{ window }, remaining]),
  );
  gauge(
    "gateway_throttle_queue_length",
    "Requests that wait for their turn, by priority.",
    ["priority"],
    () => sources.queue().map(({ priority, length }) => [{ priority }, length]),
  );
  gauge(
    "gateway_circuit_state",
    "Whether requests go to a part of the upstream: 0 closed (they do), 1 half-open (one tries), 2 open (none).",
    ["circuit"],
    () => sources.circuits().map(({ circuit, state }) => [{ circuit }, CIRCUIT_STATES[state]]),
  );
  const spent = new Counter({
    name: "gateway_budget_spent_total",
    help: "Requests sent to the upstream, by the app that pays and the cause.",
    labelNames: ["app", "cause"],
    registers,
  });
  const refused = new Counter({
    name: "gateway_refused_total",
    help: "Requests refused for want of budget, by app and reason.",
    labelNames: ["app", "reason"],
    registers,
  });
  const wouldBeRefused = new Counter({
    name: "gateway_would_be_refused_total",
    help: "Requests that would have been refused, were the budget not only observed, by app and reason.",
    labelNames: ["app", "reason"],
    registers,
  });
  const waited = new Histogram({
    name: "gateway_throttle_wait_seconds",
    help: "Time that requests to the upstream waited for their turn.",
    buckets: WAIT_SECONDS,
    registers,
  });
  return {
    spent(app, cause, waitedMs) {
      spent.inc({ app, cause });
      waited.observe(waitedMs / 1000);
    },
    refused: (app, reason, isEnforced) => (isEnforced ? refused : wouldBeRefused).inc({ app, reason }),
  };
}
