/**
 * The budgets of both origins, and their state for operators and metrics.
 */
import type { Config } from "../config/config.ts";
import { originOf, type Resource, type OriginName, ORIGINS } from "../interface/resources.ts";
import type { BudgetConfig, BudgetOptions } from "./budget-options.ts";
import { Budget } from "./origin-budget.ts";
import type { SharedCircuits } from "./circuits/redis-circuits.ts";
import type { Limiter, LimiterConfig } from "./limiter.ts";
import { keptMs } from "./limits/window-log.ts";
import { refusalOf } from "./refusals.ts";
import type { Readings } from "../telemetry/metric-table.ts";
import { CIRCUIT_STATES, circuitLabel, PRIORITIES, scopesOf } from "../telemetry/events.ts";

export interface BudgetsOptions extends Omit<BudgetOptions, "origin" | "limiter" | "shared"> {
  readonly limiterOf: (origin: OriginName, config: LimiterConfig) => Limiter;
  readonly circuitsOf: (origin: OriginName) => SharedCircuits | undefined;
  readonly current: () => Config;
}

/** The longest time from the permit of a call until the call is sent. A call that takes longer needs a new permit. */
const DEPARTURE_MS = 2_000;

export class Budgets {
  readonly api: Budget;
  readonly images: Budget;
  readonly #options: BudgetsOptions;

  constructor(options: BudgetsOptions) {
    this.#options = options;
    const create = (origin: OriginName): Budget => {
      const config = budgetConfigOf(origin, options.current());
      const limiter = options.limiterOf(origin, config);
      const shared = options.circuitsOf(origin);
      return new Budget({ ...options, origin, limiter, shared }, config);
    };
    this.api = create("api");
    this.images = create("images");
  }

  /** Applies new settings. */
  configure(config: Config): void {
    this.#options.apps.configure(config);
    for (const origin of ORIGINS) this[origin].configure(budgetConfigOf(origin, config));
  }

  /** The part of a resource's budget that is left, from 0 to 1, in the window with the smallest part. */
  readonly left = (resource: Resource): number =>
    Math.min(...this[originOf(resource)].windows().map(({ remaining, limit }) => remaining / limit));

  /** Whether no call for a canonical query is sent now, because the upstream asked for a pause or does not respond. */
  readonly isCoolingOff = (resource: Resource, query: string): boolean =>
    this[originOf(resource)].circuits.stopOf({ resource, query, cause: "miss" }) !== undefined;

  /** Predicts the wait of an app's request, and the problem if it would be refused. Spends nothing. */
  // oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
  readonly expect = (app: string, resource: Resource) => {
    const { maxWaitMs } = this.#options.current().budget;
    const expected = this[originOf(resource)].calls.admission.expect(app, resource, maxWaitMs);
    return { ...expected, refusal: expected.mayWait === false ? refusalOf(expected, app, 0) : undefined };
  };

  /** The next call is a probe of every open circuit. @returns the labels of the circuits that were open */
  readonly tryCircuits = (): string[] =>
    ORIGINS.flatMap((origin) => this[origin].circuits.tryNow().map((scope) => circuitLabel(origin, scope)));

  /** The state of the budgets for operators, with times in milliseconds. */
  readonly describe = (): object => {
    const { mode, reserve } = this.#options.current().budget;
    return { mode, reserve, api: this.#describe(this.api), images: this.#describe(this.images) };
  };

  #describe(budget: Budget): object {
    const overview = budget.overview();
    const spenders = overview.windows.flatMap(({ byApp }) => Object.keys(byApp));
    const { listed, isListed } = this.#options.apps;
    return {
      ...overview,
      apps: [...new Set([...listed(), ...spenders])].map((app) => ({
        app,
        isListed: isListed(app),
        shares: budget.shareOf(app).map(({ limit, remaining, ...share }) => ({
          ...share,
          limit: Math.floor(limit),
          remaining: Math.floor(remaining),
        })),
      })),
    };
  }

  /** The state of the budgets for the metrics. */
  // oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
  readings() {
    const { listed, labelOf } = this.#options.apps;
    const ofWindows = (member: "limit" | "remaining") => () =>
      ORIGINS.flatMap((origin) =>
        this[origin].windows().map(({ name, [member]: calls }) => {
          // Only the windows of the images have the origin in their label.
          const window = origin === "api" ? name : `${origin}/${name}`;
          return [{ window }, calls] as const;
        }),
      );
    const ofApps = (member: "limit" | "remaining") => () => {
      const named = listed().filter((app) => labelOf(app) === app);
      return named.flatMap((app) =>
        this.api.shareOf(app).map(({ name, [member]: calls }) => [{ app, window: name }, calls] as const),
      );
    };
    const sum = (numberOf: (budget: Budget) => number): number => numberOf(this.api) + numberOf(this.images);
    return {
      gateway_budget_limit: ofWindows("limit"),
      gateway_budget_remaining: ofWindows("remaining"),
      gateway_app_budget_limit: ofApps("limit"),
      gateway_app_budget_remaining: ofApps("remaining"),
      gateway_budget_known: () =>
        Number(ORIGINS.every((origin) => ["alone", "shared"].includes(this[origin].limiter.state().mode))),
      gateway_budget_slot: () => {
        const { hasSlot } = this.api.limiter.state();
        return hasSlot === undefined ? [] : Number(hasSlot);
      },
      gateway_calls_in_flight: () => sum(({ calls }) => calls.inFlight()),
      gateway_throttle_queue_length: () =>
        PRIORITIES.map((priority) => [{ priority }, sum(({ calls }) => calls.waiting(priority))] as const),
      // All possible circuits, so that each has a metric before it opens for the first time.
      gateway_circuit_state: () =>
        ORIGINS.flatMap((origin) => {
          const open = this[origin].circuits.overview();
          return scopesOf(origin).map((scope) => {
            const { state = "closed" } = open.find((circuit) => circuit.scope === scope) ?? {};
            return [{ circuit: circuitLabel(origin, scope) }, CIRCUIT_STATES[state]] as const;
          });
        }),
    } satisfies Partial<Readings>;
  }
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

/** @returns why valid settings cannot be applied while the process runs */
export function restartReasons(current: Config, next: Config): string[] {
  return (["limit", "images"] as const)
    .filter((name) => keptMs(next.budget[name]) > keptMs(current.budget[name]))
    .map(
      (name) =>
        `budget.${name}: the window is longer than a day and than all windows so far. Requests are not remembered that long.`,
    );
}
