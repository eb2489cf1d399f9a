import type { Cause, CircuitState, Priority, RefusalReason } from "./events.ts";
import type { Instruments, Read } from "./instruments.ts";
import * as label from "./labels.ts";

/** The limit of a window, and what is left of it. */
interface WindowLeft {
  /** The name of the window. Windows of the budget for images begin with `images/`. */
  readonly window: string;
  readonly limit: number;
  readonly remaining: number;
}

/** The state of the budgets. */
export interface BudgetSources {
  readonly windows: () => readonly WindowLeft[];
  /** Of each listed app's share of a window, and of its daily limit (`per-day`). */
  readonly apps: () => readonly (WindowLeft & { readonly app: string })[];
  readonly queue: () => readonly { readonly priority: Priority; readonly length: number }[];
  readonly circuits: () => readonly { readonly circuit: string; readonly state: CircuitState }[];
  readonly inFlight: () => number;
}

export interface BudgetMetrics {
  readonly spent: (app: string, cause: Cause, waitedMs: number) => void;
  /** @param isEnforced false if the budget is only observed, and the request was sent all the same */
  readonly refused: (app: string, reason: RefusalReason, isEnforced: boolean) => void;
  /** Redis has lost data of the budget. */
  readonly dataLost: () => void;
}

export function declareBudget(instruments: Instruments, read: Read<BudgetSources>): BudgetMetrics {
  const { begin, counter, histogram } = instruments;
  begin("The budget");
  declareWindows(instruments, read);
  const { APP: app, CAUSE: cause, REASON: reason } = label;
  const spent = counter("gateway_budget_spent_total", "Calls, by the app that pays.", { app, cause });
  const refused = counter("gateway_refused_total", "Requests refused because of the budget.", {
    app,
    reason,
  });
  const wouldBeRefused = counter(
    "gateway_would_be_refused_total",
    "Requests that the budget would have refused (budget.mode: observe).",
    { app, reason },
  );
  const dataLost = counter(
    "gateway_budget_data_lost_total",
    "How often Redis lost data of the budget, as this process noticed.",
    {},
  );
  const waited = histogram(
    "gateway_throttle_wait_seconds",
    "Time that calls waited for a permit.",
    {},
    [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  );
  return {
    dataLost: () => dataLost.inc(),
    spent(payer, why, waitedMs) {
      spent.inc({ app: payer, cause: why });
      waited.observe(waitedMs / 1000);
    },
    refused: (asker, why, isEnforced) =>
      (isEnforced ? refused : wouldBeRefused).inc({ app: asker, reason: why }),
  };
}

function declareWindows({ sampled }: Instruments, read: Read<BudgetSources>): void {
  const { WINDOW: window, LISTED_APP: app, APP_WINDOW: appWindow } = label;
  sampled("gauge", "gateway_budget_limit", "Most calls in a window.", { window }, () =>
    read((budget) => budget.windows().map((one) => [{ window: one.window }, one.limit])),
  );
  sampled("gauge", "gateway_budget_remaining", "Calls left in a window.", { window }, () =>
    read((budget) => budget.windows().map((one) => [{ window: one.window }, one.remaining])),
  );
  const ofApps = (pick: (one: WindowLeft) => number) => () =>
    read((budget) => budget.apps().map((one) => [{ app: one.app, window: one.window }, pick(one)] as const));
  sampled(
    "gauge",
    "gateway_app_budget_limit",
    "Share of a listed app in a window; for `per-day`, its setting perDay.",
    { app, window: appWindow },
    ofApps(({ limit }) => limit),
  );
  sampled(
    "gauge",
    "gateway_app_budget_remaining",
    "Calls that a listed app has left in a window.",
    { app, window: appWindow },
    ofApps(({ remaining }) => remaining),
  );
  sampled("gauge", "gateway_calls_in_flight", "Calls in flight.", {}, () =>
    read((budget) => [[{}, budget.inFlight()]]),
  );
  sampled(
    "gauge",
    "gateway_throttle_queue_length",
    "Calls that wait for a permit.",
    { priority: label.PRIORITY },
    () => read((budget) => budget.queue().map(({ priority, length }) => [{ priority }, length])),
  );
}
