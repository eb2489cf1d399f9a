/**
 * The cache stage and what is behind it: one flight per key, in this process and among all replicas.
 */
import type { Backend } from "./cache/store/backend.ts";
import { type Cache, type CacheOptions, createCache } from "./cache/cache.ts";
import type { Failures } from "./cache/failures.ts";
import { createObtain, type Flown, type Kept, type ObtainOptions } from "./cache/load.ts";
import { createRefresh, type Refresh } from "./cache/refresh.ts";
import type { Tiers } from "./cache/store/tiered.ts";
import { createFly } from "./singleflight/replicas.ts";
import type { Flights } from "./singleflight/flight.ts";
import { type Budgets, createBudgetLeft } from "./draw-budgets.ts";
import type { Observer } from "./types.ts";
import type { Surroundings } from "./surroundings.ts";

export interface CacheParts {
  readonly tiers: Tiers;
  readonly failures: Failures;
  readonly flights: Flights<Flown>;
  readonly backend: Backend | undefined;
  readonly budgets: Budgets;
  readonly observer: Observer;
  /** What comes next: asks the upstream. */
  readonly fetch: ObtainOptions["fetch"];
}

export function drawCache(
  { config, settings, clock, random }: Surroundings,
  { tiers, failures, flights, backend, budgets, observer, fetch }: CacheParts,
): { readonly cache: Cache; readonly refresh: Refresh } {
  const rules = (): ReturnType<ObtainOptions["rules"]> => settings.current().cache;
  const obtain = createObtain({
    tiers,
    coalesce: flights.join,
    fly: createFly<Kept>(backend?.claims),
    fetch,
    failures,
    rules,
    clock,
    observer,
  });
  const refresh = createRefresh({ ...config.upstream, obtain, failures, clock, observer });
  const budgetLeft = createBudgetLeft(budgets, clock);
  const isCoolingOff: CacheOptions["isCoolingOff"] = ({
    query: { resource },
    request: { app, priority },
  }) => {
    const { throttle } = budgets[resource === "images" ? "images" : "api"];
    const { forMs, why } = throttle.expect({ app, priority, resource });
    return forMs > 0 && why === "cool-off";
  };
  return {
    cache: createCache({
      tiers,
      obtain,
      refresh,
      failures,
      budgetLeft,
      isCoolingOff,
      rules,
      clock,
      random,
    }),
    refresh,
  };
}
