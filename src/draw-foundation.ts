/**
 * What everything else stands on: where answers are kept, what may be sent, and who watches.
 */
import type { LedgerReader } from "./usage/ledger.ts";
import type { ThrottleObserver } from "./ratelimit/throttle.ts";
import { createFailures, type Failures } from "./cache/failures.ts";
import { createMemoryStore, type MemoryStore } from "./cache/store/memory.ts";
import type { LoadedEntry } from "./cache/load.ts";
import { isFailureOfUpstream } from "./cache/policy.ts";
import type { Backend, Store, StoreStats } from "./cache/store/port.ts";
import { createTiers, type Tiers } from "./cache/store/tiered.ts";
import { createFlights, type Flights } from "./singleflight/flight.ts";
import { type Budgets, budgetSources, drawBudgets } from "./draw-budgets.ts";
import type { Problem } from "./errors.ts";
import type { Claims, FlightResult, Observer, Tier } from "./types.ts";
import { createMetrics, type Metrics } from "./telemetry/metrics.ts";
import { createObserver } from "./telemetry/observer.ts";
import { openBackend } from "./open-backend.ts";
import { build } from "./process/build.ts";
import type { Surroundings } from "./surroundings.ts";

export interface Foundation {
  /** What failed a moment ago, here or in another replica. */
  readonly failures: Failures;
  readonly memory: MemoryStore;
  /** Absent: memory only. */
  readonly backend: Backend | undefined;
  /** Absent: there are no other replicas. */
  readonly claims: Claims | undefined;
  readonly tiers: Tiers;
  readonly flights: Flights<FlightResult<LoadedEntry> | undefined>;
  readonly budgets: Budgets;
  readonly ledger: LedgerReader;
  readonly metrics: Metrics;
  readonly observer: Observer;
  /** Writes down what is not yet, and closes the store. */
  readonly closeStore: () => Promise<void>;
}

export function drawFoundation({ config, settings, clock, random, log }: Surroundings): Foundation {
  const memory = createMemoryStore(config.cache.maxBytes, clock);
  const flights = createFlights<FlightResult<LoadedEntry> | undefined>(clock);
  const metrics = createMetrics({
    tiers: () => [memory, backend?.store].flatMap(statsOf),
    flights: () => flights.size,
    budget: budgetSources(() => budgets),
    appsRegistered: () => settings.current().apps.length,
    build,
  });
  const observer = createObserver(log, metrics);
  const failures = createFailures();
  const onFailed = (key: string, problem: Problem): void => {
    if (isFailureOfUpstream(problem)) failures.failed(key, problem, clock.steady());
  };
  const opened = openBackend({ config, clock, random, observer, metrics, onFailed });
  const { backend, claims, allowanceOf, ledger, close: closeStore } = opened;
  const budgets = drawBudgets({ settings, clock, allowanceOf, observer: throttleObserver(metrics) });
  const tiers = createTiers({ memory, backend, clock });
  return {
    failures,
    memory,
    backend,
    claims,
    tiers,
    flights,
    budgets,
    ledger,
    metrics,
    observer,
    closeStore,
  };
}

function throttleObserver({ budget }: Metrics): ThrottleObserver {
  return {
    refused: budget.refused,
    departed: ({ app, cause }, waitedMs) => budget.spent(app, cause, waitedMs),
  };
}

/** A store's part in the metrics; nothing where there is none, or it cannot tell. */
function statsOf(store: Store | undefined): (StoreStats & { readonly tier: Tier })[] {
  const stats = store?.stats();
  return store && stats ? [{ tier: store.tier, ...stats }] : [];
}
