/**
 * The budgets of both origins under the settings in force, and how operators and metrics are shown them.
 */
import type { Config } from "./config/config.ts";
import { originOf, type Resource } from "./interface/resources.ts";
import type { Apps, AppsConfig } from "./ratelimit/apps.ts";
import { type Budget, type BudgetConfig, type BudgetOptions, createBudget } from "./ratelimit/budgets.ts";
import type { SharedCircuits } from "./ratelimit/circuits.ts";
import type { Limiter, LimiterConfig } from "./ratelimit/limiter.ts";
import { refusalOf } from "./ratelimit/problems.ts";
import type { BudgetSources } from "./telemetry/metrics.ts";
import {
  type OriginName,
  ORIGINS,
  OTHER_APP,
  type PredictedWait,
  PRIORITIES,
  type Question,
} from "./types.ts";

export type Budgets = Readonly<Record<OriginName, Budget>>;

export interface BudgetsOptions extends Omit<BudgetOptions, "origin" | "limiter" | "sharedCircuits"> {
  readonly limiterOf: (origin: OriginName, config: LimiterConfig) => Limiter;
  readonly circuitsOf: (origin: OriginName) => SharedCircuits;
}

/** From the permit of a call until it departs, at most. A call that takes longer asks again. */
const DEPARTURE_MS = 2_000;

export function createBudgets(options: BudgetsOptions, config: Config): Budgets {
  const { limiterOf, circuitsOf } = options;
  const create = (origin: OriginName): Budget => {
    const settings = budgetConfigOf(origin, config);
    return createBudget(
      {
        ...options,
        origin,
        limiter: limiterOf(origin, settings),
        sharedCircuits: circuitsOf(origin),
      },
      settings,
    );
  };
  return { api: create("api"), images: create("images") };
}

/** Puts new settings in force. */
export function configureBudgets(budgets: Budgets, apps: Apps, config: Config): void {
  apps.configure(appsConfigOf(config));
  for (const origin of ORIGINS) budgets[origin].configure(budgetConfigOf(origin, config));
}

export function appsConfigOf({ apps, unlistedApps, metrics }: Config): AppsConfig {
  return {
    listed: apps,
    defaultWeight: unlistedApps.weight,
    maxUnlisted: unlistedApps.max,
    unlistedLabels: metrics.unlistedApps,
  };
}

function budgetConfigOf(origin: OriginName, { apps, budget, upstream }: Config): BudgetConfig {
  const limits = apps.flatMap(({ id, perDay }) => (perDay === null ? [] : [[id, perDay] as const]));
  return {
    windows: origin === "api" ? budget.limit : budget.images,
    // An app's limit for a day is about the API.
    perDay: new Map(origin === "api" ? limits : []),
    arrivalMs: DEPARTURE_MS + upstream.connectTimeoutMs + upstream.headerTimeoutMs,
    concurrency: budget.concurrency,
    mode: budget.mode,
    reserve: budget.reserve,
    maxCoolOffMs: budget.maxCoolOffMs,
  };
}

/** @returns the part of a resource's budget that is left, from 0 to 1, in the window that has least */
export function createBudgetLeft(budgets: Budgets): (resource: Resource) => number {
  return (resource) => budgets[originOf(resource)].left();
}

/** @returns whether the upstream is left alone for now: it asked for that, or shows no sign of life */
export function createIsCoolingOff(budgets: Budgets): (question: Question) => boolean {
  return ({ query: { resource }, canonicalQuery }) =>
    budgets[originOf(resource)].isCoolingOff({ resource, query: canonicalQuery });
}

/** The state of the budgets for operators. Times in milliseconds. */
export function describeBudgets(
  budgets: Budgets,
  { budget }: Config,
  apps: Pick<Apps, "isListed" | "listed">,
): object {
  const origins = ORIGINS.map((origin) => {
    const { windows, ...rest } = budgets[origin].overview();
    const resource = origin === "images" ? "images" : "listings";
    const { forMs, why } = budgets[origin].expect({ app: OTHER_APP, priority: "interactive", resource });
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

/** What each app has left, and when more comes back: the listed apps, and those that have spent. */
function sharesOf(
  { shareOf }: Budget,
  windows: ReturnType<Budget["overview"]>["windows"],
  { isListed, listed }: Pick<Apps, "isListed" | "listed">,
): object[] {
  const spenders = windows.flatMap(({ byApp }) => Object.keys(byApp));
  return [...new Set([...listed(), ...spenders])].map((app) => ({
    app,
    isListed: isListed(app),
    shares: shareOf(app).map(({ limit, remaining, ...share }) => ({
      ...share,
      limit: Math.floor(limit),
      remaining: Math.floor(remaining),
    })),
  }));
}

/** @returns what predicts the wait of an app's request, and the problem with which it would be refused */
export function createExpect(
  budgets: Budgets,
  current: () => Config,
): (app: string, resource: Resource) => PredictedWait {
  return (app, resource) => {
    const { budget, apps } = current();
    const priority = apps.find(({ id }) => id === app)?.priority ?? "interactive";
    const expectation = budgets[originOf(resource)].expect({ app, priority, resource });
    const isRefused = budget.mode === "enforce" && expectation.forMs > budget.maxWaitMs;
    const refusal = isRefused ? refusalOf(expectation, app, 0).problem.code : undefined;
    return { waitMs: expectation.forMs, why: expectation.why, refusal };
  };
}

/** The state of the budgets for the metrics. */
export function budgetSources(budgets: Budgets, current: () => Config): BudgetSources {
  return {
    apps: () =>
      current().apps.flatMap(({ id }) =>
        budgets.api.shareOf(id).map(({ name, limit, remaining }) => ({
          app: id,
          window: name,
          limit,
          remaining,
        })),
      ),
    windows: () =>
      ORIGINS.flatMap((origin) =>
        budgets[origin].overview().windows.map(({ name, limit, remaining }) => ({
          window: windowLabel(origin, name),
          limit,
          remaining,
        })),
      ),
    queue: () =>
      PRIORITIES.map((priority) => ({
        priority,
        length: ORIGINS.reduce((sum, origin) => sum + budgets[origin].queueLength(priority), 0),
      })),
    circuits: () => ORIGINS.flatMap((origin) => circuitsOf(origin, budgets[origin])),
  };
}

/** Every circuit there can be, so that each is seen before it opens for the first time. */
function circuitsOf(origin: OriginName, budget: Budget): ReturnType<BudgetSources["circuits"]> {
  const { circuits } = budget.overview();
  const scopes =
    origin === "api" ? (["origin", "listings", "sold", "areas"] as const) : (["origin", "images"] as const);
  return scopes.map((scope) => ({
    circuit: scope === "origin" ? `${origin}/all` : `${origin}/${scope}`,
    state: circuits.find((circuit) => circuit.scope === scope)?.state ?? "closed",
  }));
}

/** The API's windows go by their names; those of the images say so. */
function windowLabel(origin: OriginName, name: string): string {
  return origin === "api" ? name : `${origin}/${name}`;
}
