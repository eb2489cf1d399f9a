/**
 * The cache stage and what is behind it: one flight per key, in this process and among all replicas.
 */
import { type Cache, type CacheOptions, createCache } from "./cache/cache.ts";
import type { Failures } from "./cache/failures.ts";
import { createLoad, type LoadedEntry, type LoadOptions } from "./cache/load.ts";
import { createRefresh, type Refresh } from "./cache/refresh.ts";
import type { Tiers } from "./cache/store/tiered.ts";
import { createLeadOrFollow } from "./singleflight/replicas.ts";
import type { Flights } from "./singleflight/flight.ts";
import { type Budgets, createBudgetLeft } from "./draw-budgets.ts";
import type { Claims, FlightResult, Observer } from "./types.ts";
import type { Surroundings } from "./surroundings.ts";

export interface CacheParts {
  readonly tiers: Tiers;
  readonly failures: Failures;
  readonly flights: Flights<FlightResult<LoadedEntry> | undefined>;
  readonly claims: Claims | undefined;
  readonly budgets: Budgets;
  readonly observer: Observer;
  /** What comes next: asks the upstream. */
  readonly fetch: LoadOptions["fetch"];
}

export function drawCache(
  { config, settings, clock, random }: Surroundings,
  { tiers, failures, flights, claims, budgets, observer, fetch }: CacheParts,
): { readonly cache: Cache; readonly refresh: Refresh } {
  const rules = (): ReturnType<LoadOptions["rules"]> => settings.current().cache;
  const load = createLoad({
    tiers,
    joinFlight: flights.join,
    leadOrFollow: createLeadOrFollow<LoadedEntry>(claims),
    fetch,
    failures,
    rules,
    clock,
    observer,
  });
  const refresh = createRefresh({ ...config.upstream, load, failures, clock, observer });
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
      load,
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
