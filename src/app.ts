/**
 * The composition root: everything is made here, and handed to those who draw the parts of it.
 */
import type { Flown } from "./cache/cache.ts";
import { createMemoryStore } from "./cache/memory-store.ts";
import type { Store, StoreStats } from "./cache/store.ts";
import { createTiers } from "./cache/tiers.ts";
import { createFlights } from "./coalesce/flight.ts";
import { drawAdmin } from "./draw-admin.ts";
import { budgetSources, drawBudgets } from "./draw-budgets.ts";
import { drawJourney } from "./draw-journey.ts";
import { createGatewayServer } from "./edge/server.ts";
import { ORIGINS, type Tier } from "./exchange.ts";
import { createMetrics } from "./observe/metrics.ts";
import { createObserver } from "./observe/observer.ts";
import { openBackend } from "./open-backend.ts";
import { listen, type Listening } from "./platform/listen.ts";
import type { Surroundings } from "./surroundings.ts";

export interface Gateway {
  /** Starts both servers. */
  readonly start: () => Promise<{ readonly callers: Listening; readonly admin: Listening }>;
  /** Stops accepting, lets what is in flight finish within `server.drainTimeout`, closes the rest. */
  readonly stop: () => Promise<void>;
}

export function createGateway(surroundings: Surroundings): Gateway {
  const { config, clock, random, log } = surroundings;
  const memory = createMemoryStore(config.cache.maxBytes, clock);
  const flights = createFlights<Flown>(clock);
  const metrics = createMetrics({
    tiers: () => [memory, backend?.store].flatMap(statsOf),
    flights: () => flights.size,
    budget: budgetSources(() => budgets),
  });
  const observer = createObserver(log, metrics);
  const { backend, allowanceOf, ledger } = openBackend({ config, clock, random, observer, metrics });
  const budgets = drawBudgets({
    config,
    clock,
    allowanceOf,
    observer: {
      refused: metrics.budget.refused,
      departed: ({ app, cause }, waitedMs) => metrics.budget.spent(app, cause, waitedMs),
    },
  });
  const tiers = createTiers({ memory, backend, clock });

  const parse = {
    ...config.query,
    isSecret: (value: string) => value === config.upstream.privateKey.reveal(),
  };
  const callers = createGatewayServer({
    journey: drawJourney(surroundings, { tiers, flights, backend, budgets, observer, parse }),
    limits: config.server,
    requestId: random.requestId,
    after: clock.after,
    now: clock.now,
    warn: observer.warn,
  });
  let stopping = false;
  const isReady = (): boolean => !stopping;
  const admin = drawAdmin(surroundings, { tiers, budgets, ledger, metrics, observer, parse, isReady });
  const started: Listening[] = [];

  return {
    async start() {
      const addresses = {
        callers: await listen(callers, config.server.port, config.server.host),
        admin: await listen(admin, config.admin.port, config.admin.host),
      };
      started.push(addresses.callers, addresses.admin);
      return addresses;
    },
    async stop() {
      stopping = true;
      await Promise.all(started.map((server) => server.close(clock, config.server.drainTimeoutMs)));
      // Before the store: what was sent is told there.
      await Promise.all(ORIGINS.map((origin) => budgets[origin].allowance.close()));
      await backend?.close();
    },
  };
}

/** A store's part in the metrics; nothing where there is none, or it cannot tell. */
function statsOf(store: Store | undefined): (StoreStats & { readonly tier: Tier })[] {
  const stats = store?.stats();
  return store && stats ? [{ tier: store.tier, ...stats }] : [];
}
