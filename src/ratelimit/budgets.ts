/**
 * Creates the budgets of both origins from the settings, and describes their state for operators and metrics.
 */
import type { Config } from "../config/config.ts";
import { originOf, type Resource, type OriginName, ORIGINS } from "../interface/resources.ts";
import type { Apps } from "./apps.ts";
import { Budget, type BudgetConfig, type BudgetOptions } from "./origin-budget.ts";
import type { SharedCircuits } from "./circuits/circuits.ts";
import { circuitLabel, resourcesOf } from "./circuits/outages.ts";
import type { Limiter, LimiterConfig } from "./limiter.ts";
import { refusalOf } from "./refusals.ts";
import type { BudgetReadings } from "../telemetry/metric-table.ts";
import { CIRCUIT_STATES, OTHER_APP, PRIORITIES } from "../telemetry/events.ts";
import { type PredictedWait, topApps } from "./overview.ts";

export type Budgets = Readonly<Record<OriginName, Budget>>;

export interface BudgetsOptions extends Omit<BudgetOptions, "origin" | "limiter" | "sharedCircuits"> {
  readonly limiterOf: (origin: OriginName, config: LimiterConfig) => Limiter;
  readonly circuitsOf: (origin: OriginName) => SharedCircuits;
}

/** The longest time from the permit of a call until the call is sent. A call that takes longer needs a new permit. */
const DEPARTURE_MS = 2_000;

export function createBudgets(options: BudgetsOptions, config: Config): Budgets {
  const create = (origin: OriginName): Budget => {
    const settings = budgetConfigOf(origin, config);
    const limiter = options.limiterOf(origin, settings);
    const sharedCircuits = options.circuitsOf(origin);
    return new Budget({ ...options, origin, limiter, sharedCircuits }, settings);
  };
  return { api: create("api"), images: create("images") };
}

/** Applies new settings. */
export function configureBudgets(budgets: Budgets, apps: Apps, config: Config): void {
  apps.configure(config);
  for (const origin of ORIGINS) budgets[origin].configure(budgetConfigOf(origin, config));
}

function budgetConfigOf(origin: OriginName, { apps, budget, upstream }: Config): BudgetConfig {
  const limits = apps.flatMap(({ id, perDay }) => (perDay === null ? [] : [[id, perDay] as const]));
  return {
    ...budget,
    windows: origin === "api" ? budget.limit : budget.images,
    // An app's daily limit counts only calls to the API.
    perDay: new Map(origin === "api" ? limits : []),
    arrivalMs: DEPARTURE_MS + upstream.connectTimeoutMs + upstream.headerTimeoutMs,
  };
}

/** @returns the part of a resource's budget that is left, from 0 to 1, in the window with the smallest part */
export function createBudgetLeft(budgets: Budgets): (resource: Resource) => number {
  return (resource) =>
    Math.min(...budgets[originOf(resource)].windows().map(({ remaining, limit }) => remaining / limit));
}

/** @returns whether the gateway sends no calls now, because the upstream asked for a pause or does not respond */
export function createIsCoolingOff(
  budgets: Budgets,
): (question: {
  readonly query: { readonly resource: Resource };
  readonly canonicalQuery: string;
}) => boolean {
  return ({ query: { resource }, canonicalQuery }) =>
    budgets[originOf(resource)].isCoolingOff({ resource, query: canonicalQuery });
}

/** @returns the state of the budgets for operators, with times in milliseconds */
export function describeBudgets(
  budgets: Budgets,
  { budget }: Config,
  apps: Pick<Apps, "isListed" | "listed">,
): object {
  const origins = ORIGINS.map((origin) => {
    const { windows: all, ...rest } = budgets[origin].overview();
    const windows = all.map(({ byApp, ...window }) => ({ ...window, byApp: topApps(byApp) }));
    const resource = origin === "images" ? "images" : "listings";
    const { forMs, why } = budgets[origin].calls.expect({
      app: OTHER_APP,
      priority: "interactive",
      resource,
    });
    return [
      origin,
      {
        ...rest,
        windows: windows.map(({ reserved, ...window }) => ({ ...window, heldBack: reserved })),
        predictedWaitMs: Math.round(forMs),
        waitsFor: forMs > 0 ? why : null,
        apps: sharesOf(budgets[origin], windows, apps),
      },
    ] as const;
  });
  return { mode: budget.mode, reserve: budget.reserve, ...Object.fromEntries(origins) };
}

/** @returns the shares of the listed apps and of all apps that have spent: what is left, and when more is available */
function sharesOf(
  budget: Budget,
  windows: ReturnType<Budget["overview"]>["windows"],
  { isListed, listed }: Pick<Apps, "isListed" | "listed">,
): object[] {
  const spenders = windows.flatMap(({ byApp }) => Object.keys(byApp));
  return [...new Set([...listed(), ...spenders])].map((app) => ({
    app,
    isListed: isListed(app),
    shares: budget.shareOf(app).map(({ limit, remaining, ...share }) => ({
      ...share,
      limit: Math.floor(limit),
      remaining: Math.floor(remaining),
    })),
  }));
}

/** @returns a function that predicts the wait of an app's request, and the problem if it would be refused */
export function createExpect(
  budgets: Budgets,
  current: () => Config,
): (app: string, resource: Resource) => PredictedWait {
  return (app, resource) => {
    const { budget, apps } = current();
    const priority = apps.find(({ id }) => id === app)?.priority ?? "interactive";
    const expectation = budgets[originOf(resource)].calls.expect({ app, priority, resource });
    const isRefused = budget.mode === "enforce" && expectation.forMs > budget.maxWaitMs;
    const refusal = isRefused ? refusalOf(expectation, app, 0).code : undefined;
    return { waitMs: expectation.forMs, why: expectation.why, refusal };
  };
}

/** @returns the state of the budgets for the metrics */
export function budgetReadings(budgets: Budgets, apps: Pick<Apps, "listed" | "labelOf">): BudgetReadings {
  const all = ORIGINS.map((origin) => [origin, budgets[origin]] as const);
  const ofWindows = (member: "limit" | "remaining") => () =>
    all.flatMap(([origin, budget]) =>
      budget
        .windows()
        .map(({ name, [member]: calls }) => [{ window: windowLabel(origin, name) }, calls] as const),
    );
  const ofApps = (member: "limit" | "remaining") => () => {
    const named = apps.listed().filter((app) => apps.labelOf(app) === app);
    return named.flatMap((app) =>
      budgets.api.shareOf(app).map(({ name, [member]: calls }) => [{ app, window: name }, calls] as const),
    );
  };
  return {
    gateway_budget_limit: ofWindows("limit"),
    gateway_budget_remaining: ofWindows("remaining"),
    gateway_app_budget_limit: ofApps("limit"),
    gateway_app_budget_remaining: ofApps("remaining"),
    gateway_budget_known: () =>
      Number(all.every(([, budget]) => ["alone", "shared"].includes(budget.overview().mode))),
    gateway_budget_slot: () => {
      const { hasSlot } = budgets.api.overview();
      return hasSlot === undefined ? [] : Number(hasSlot);
    },
    gateway_calls_in_flight: () => all.reduce((sum, [, budget]) => sum + budget.calls.inFlight(), 0),
    gateway_throttle_queue_length: () =>
      PRIORITIES.map((priority) => {
        const length = all.reduce((sum, [, budget]) => sum + budget.calls.waiting(priority), 0);
        return [{ priority }, length] as const;
      }),
    gateway_circuit_state: () => all.flatMap(([origin, budget]) => circuitStates(origin, budget)),
  };
}

/** The next call is a probe of every open circuit. @returns the labels of the circuits that were open */
export function tryCircuits(budgets: Budgets): string[] {
  return ORIGINS.flatMap((origin) =>
    budgets[origin].circuits.tryNow().map((scope) => circuitLabel(origin, scope)),
  );
}

/** @returns all possible circuits, so that each has a metric before it opens for the first time */
function circuitStates(origin: OriginName, budget: Budget) {
  const circuits = budget.circuits.overview();
  return (["origin", ...resourcesOf(origin)] as const).map((scope) => {
    const state = circuits.find((circuit) => circuit.scope === scope)?.state ?? "closed";
    return [{ circuit: circuitLabel(origin, scope) }, CIRCUIT_STATES[state]] as const;
  });
}

/** Only the windows of the images have the origin in their label. */
function windowLabel(origin: OriginName, name: string): string {
  return origin === "api" ? name : `${origin}/${name}`;
}

const DAY_MS = 86_400_000;

/** How long calls are remembered. It is at least a day, because apps may have a daily limit. */
function keptMs(windows: Config["budget"]["limit"]): number {
  return Math.max(DAY_MS, ...windows.map(({ windowMs }) => windowMs));
}

/** @returns why valid settings cannot be applied while the process runs */
export function restartReasons(current: Config, next: Config): string[] {
  return (["limit", "images"] as const)
    .filter((name) => keptMs(next.budget[name]) > keptMs(current.budget[name]))
    .map(
      (name) =>
        `budget.${name}: the window is longer than a day and than all windows so far. Requests are not remembered that long.`,
    );
}
