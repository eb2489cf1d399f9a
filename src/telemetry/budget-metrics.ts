import type { Cause, CircuitState, Priority, RefusalReason } from "./events.ts";
import type { Instruments } from "./instruments.ts";
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
  /** Whether this process knows what all replicas have spent. */
  readonly isKnown: () => boolean;
  /** Whether this process has an own purse of the shared budget; `undefined` without Redis. */
  readonly hasSlot: () => boolean | undefined;
}

export interface BudgetMetrics {
  readonly spent: (app: string, cause: Cause, waitedMs: number) => void;
  /** @param isEnforced false if the budget is only observed, and the request was sent all the same */
  readonly refused: (app: string, reason: RefusalReason, isEnforced: boolean) => void;
  /** Redis has lost data of the budget. */
  readonly dataLost: () => void;
}

type Declare = Instruments<{ readonly budget: BudgetSources }>;

export function declareBudget(add: Declare): BudgetMetrics {
  add.begin("The budget");
  declareWindows(add);
  const { APP, CAUSE, REASON } = label;
  const spent = add.counter("gateway_budget_spent_total", [APP, CAUSE], "Calls, by the app that pays.");
  const refused = add.counter(
    "gateway_refused_total",
    [APP, REASON],
    "Requests refused because of the budget.",
  );
  const wouldBeRefused = add.counter(
    "gateway_would_be_refused_total",
    [APP, REASON],
    "Requests that the budget would have refused (budget.mode: observe).",
  );
  const dataLost = add.counter(
    "gateway_budget_data_lost_total",
    [],
    "How often Redis lost data of the budget, as this process noticed.",
  );
  const waited = add.histogram(
    "gateway_throttle_wait_seconds",
    [],
    "Time that calls waited for a permit.",
    [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  );
  return {
    dataLost: () => dataLost.inc(),
    spent(app, cause, waitedMs) {
      spent.inc({ app, cause });
      waited.observe(waitedMs / 1000);
    },
    refused: (app, reason, isEnforced) => (isEnforced ? refused : wouldBeRefused).inc({ app, reason }),
  };
}

function declareWindows(add: Declare): void {
  const { WINDOW, LISTED_APP, APP_WINDOW, PRIORITY } = label;
  type Read<L extends string> = Parameters<typeof add.sampled<L>>[3];
  const ofWindows =
    (member: "limit" | "remaining"): Read<"window"> =>
    ({ budget }) =>
      budget.windows().map((one) => [{ window: one.window }, one[member]]);
  const ofApps =
    (member: "limit" | "remaining"): Read<"app" | "window"> =>
    ({ budget }) =>
      budget.apps().map(({ app, window, ...one }) => [{ app, window }, one[member]]);
  add.sampled("gateway_budget_limit", [WINDOW], "Most calls in a window.", ofWindows("limit"));
  add.sampled("gateway_budget_remaining", [WINDOW], "Calls left in a window.", ofWindows("remaining"));
  add.sampled(
    "gateway_app_budget_limit",
    [LISTED_APP, APP_WINDOW],
    "Share of a listed app in a window; for `per-day`, its setting perDay.",
    ofApps("limit"),
  );
  add.sampled(
    "gateway_app_budget_remaining",
    [LISTED_APP, APP_WINDOW],
    "Calls that a listed app has left in a window.",
    ofApps("remaining"),
  );
  add.sampled(
    "gateway_budget_known",
    [],
    "Whether the process knows what all replicas have spent: 1 yes, 0 no (only its own purse pays, if it has one).",
    ({ budget }) => (budget.isKnown() ? 1 : 0),
  );
  add.sampled(
    "gateway_budget_slot",
    [],
    "Whether the process has a slot, and so an own purse: 1 yes, 0 no. Absent without Redis.",
    ({ budget }) => {
      const hasSlot = budget.hasSlot();
      return hasSlot === undefined ? [] : Number(hasSlot);
    },
  );
  add.sampled("gateway_calls_in_flight", [], "Calls in flight.", ({ budget }) => budget.inFlight());
  add.sampled("gateway_throttle_queue_length", [PRIORITY], "Calls that wait for a permit.", ({ budget }) =>
    budget.queue().map(({ priority, length }) => [{ priority }, length]),
  );
}
