/**
 * The budgets of both origins, and how they are shown to callers, operators and the cache.
 */
import type { Allowance, Overview, ShareOfWindow } from "./ratelimit/allowance.ts";
import type { AppTerms, Terms } from "./ratelimit/arbiter.ts";
import { refusalOf } from "./ratelimit/refusal.ts";
import { createThrottle, type Throttle, type ThrottleObserver } from "./ratelimit/throttle.ts";
import { followingTerms } from "./ratelimit/terms.ts";
import {
  type OriginName,
  ORIGINS,
  OTHER_APP,
  type PredictedWait,
  PRIORITIES,
  type Question,
} from "./types.ts";
import { originOf, type Resource } from "./interface/resources.ts";
import type { BudgetSources } from "./telemetry/metrics.ts";
import type { Clock } from "./process/clock.ts";
import type { Config } from "./config/config.ts";
import type { LiveSettings } from "./config/live.ts";

interface Budget {
  readonly allowance: Allowance;
  readonly throttle: Throttle;
  /** How many calls of an app have departed here. */
  readonly departures: (app: string) => number;
}

export type Budgets = Readonly<Record<OriginName, Budget>>;

export interface BudgetsOptions {
  readonly settings: LiveSettings;
  readonly clock: Clock;
  readonly allowanceOf: (origin: OriginName, terms: Terms) => Allowance;
  readonly observer: ThrottleObserver;
}

/** The app of all callers that the settings do not list. */
const UNLISTED_APP: AppTerms & { readonly id: string } = { id: OTHER_APP, weight: 1, perDay: null };
/** From when a send is allowed until it departs, at the most; one that takes longer asks anew. */
const DEPARTURE_MS = 2_000;

export function createBudgets(options: BudgetsOptions): Budgets {
  const { settings, clock, allowanceOf, observer } = options;
  const create = (origin: OriginName): Budget => {
    const terms = followingTerms(settings.derive((config) => termsOf(origin, config)));
    const allowance = allowanceOf(origin, terms);
    const departures = new Map<string, number>();
    const throttle = createThrottle({
      allowance,
      get concurrency() {
        return settings.current().budget.concurrency;
      },
      get mode() {
        return settings.current().budget.mode;
      },
      clock,
      observer: {
        ...observer,
        departed(candidate, waitedMs) {
          departures.set(candidate.app, (departures.get(candidate.app) ?? 0) + 1);
          observer.departed(candidate, waitedMs);
        },
      },
    });
    return { allowance, throttle, departures: (app) => departures.get(app) ?? 0 };
  };
  return { api: create("api"), images: create("images") };
}

function termsOf(origin: OriginName, { apps, budget, upstream }: Config): Terms {
  const known = new Map([...apps, UNLISTED_APP].map((app) => [app.id, app]));
  return {
    windows: origin === "api" ? budget.limit : budget.images,
    apps: origin === "api" ? known : withoutDays(known),
    reserve: budget.reserve,
    maxCoolOffMs: budget.maxCoolOffMs,
    leaseMs: DEPARTURE_MS + upstream.connectTimeoutMs + upstream.headerTimeoutMs,
  };
}

/** What an app may ask for in a day is about the API. */
function withoutDays(apps: ReadonlyMap<string, AppTerms>): Terms["apps"] {
  return new Map([...apps].map(([id, { weight }]) => [id, { weight, perDay: null }]));
}

/** What is left of a share changes with every send, here or at another replica: of those it is told after so long. */
const SHARES_FOR_MS = 500;

/** @returns what an app has left of its share of a resource's budget; the same array for a while */
export function createShares(
  budgets: Budgets,
  settings: LiveSettings,
  { monotonic }: Clock,
): (app: string, resource: Resource) => readonly ShareOfWindow[] {
  // Of other settings nothing is known any more.
  const remembered = settings.derive(
    () => new Map<string, { until: number; departures: number; shares: readonly ShareOfWindow[] }>(),
  );
  return (app, resource) => {
    const origin = originOf(resource);
    const key = `${origin} ${app}`;
    const now = monotonic();
    const known = remembered();
    const held = known.get(key);
    const departures = budgets[origin].departures(app);
    if (held !== undefined && now < held.until && held.departures === departures) return held.shares;
    const shares = budgets[origin].allowance.shareOf(app);
    known.set(key, { until: now + SHARES_FOR_MS, departures, shares });
    return shares;
  };
}

/** @returns what part is left of a resource's budget, from 0 to 1, in the window that has least; told anew after a while */
export function createBudgetLeft(budgets: Budgets, { monotonic }: Clock): (resource: Resource) => number {
  const known = new Map<OriginName, { readonly until: number; readonly left: number }>();
  return (resource) => {
    const origin = originOf(resource);
    const held = known.get(origin);
    if (held !== undefined && monotonic() < held.until) return held.left;
    const { windows } = budgets[origin].allowance.overview();
    const left = Math.min(...windows.map(({ remaining, limit }) => remaining / limit));
    known.set(origin, { until: monotonic() + SHARES_FOR_MS, left });
    return left;
  };
}

/** @returns whether the upstream is left alone for now: it asked for that, or shows no sign of life */
export function createIsCoolingOff(budgets: Budgets): (question: Question) => boolean {
  return ({ query: { resource }, request: { app, priority } }) => {
    const { throttle } = budgets[originOf(resource)];
    const { forMs, why } = throttle.expect({ app, priority, resource });
    return forMs > 0 && why === "cool-off";
  };
}

/** How the budgets stand, as operators are shown it. Times in milliseconds. */
export function describeBudgets(budgets: Budgets, { budget }: Config): object {
  const origins = ORIGINS.map((origin) => {
    const { allowance, throttle } = budgets[origin];
    const { mode, windows, circuits } = allowance.overview();
    const queue = PRIORITIES.map((priority) => [priority, throttle.queueLength(priority)] as const);
    const resource = origin === "images" ? "images" : "listings";
    const { forMs, why } = throttle.expect({ app: OTHER_APP, priority: "interactive", resource });
    const predictedWaitMs = Math.round(forMs);
    return [
      origin,
      {
        mode,
        windows,
        queue: Object.fromEntries(queue),
        predictedWaitMs,
        waitsFor: forMs > 0 ? why : null,
        circuits,
      },
    ] as const;
  });
  return { mode: budget.mode, reserve: budget.reserve, ...Object.fromEntries(origins) };
}

/** What a request of an app would wait now, and with which problem it would be refused. */
export function createExpect(
  budgets: Budgets,
  current: () => Config,
): (app: string, resource: Resource) => PredictedWait {
  return (app, resource) => {
    const { budget, apps } = current();
    const priority = apps.find(({ id }) => id === app)?.priority ?? "interactive";
    const { throttle } = budgets[originOf(resource)];
    const expectation = throttle.expect({ app, priority, resource });
    const isRefused = budget.mode === "enforce" && expectation.forMs > budget.maxWaitMs;
    const refusal = isRefused ? refusalOf(expectation, app).problem.code : undefined;
    return { waitMs: expectation.forMs, why: expectation.why, refusal };
  };
}

/** How the budgets stand, as metrics show it. */
export function budgetSources(budgets: Budgets): BudgetSources {
  const overviews = (): (Overview & { origin: OriginName })[] =>
    ORIGINS.map((origin) => ({ origin, ...budgets[origin].allowance.overview() }));
  return {
    windows: () =>
      overviews().flatMap(({ origin, windows }) =>
        windows.map(({ name, limit, remaining }) => ({
          window: windowLabel(origin, name),
          limit,
          remaining,
        })),
      ),
    queue: () =>
      PRIORITIES.map((priority) => ({
        priority,
        length: ORIGINS.reduce((sum, origin) => sum + budgets[origin].throttle.queueLength(priority), 0),
      })),
    circuits: () => overviews().flatMap(circuitsOf),
  };
}

/** Every circuit there can be, so that each is seen before it opens for the first time. */
function circuitsOf({
  origin,
  circuits,
}: Overview & { origin: OriginName }): ReturnType<BudgetSources["circuits"]> {
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
