/**
 * The composition root: everything is made here, and handed to those who draw the parts of it.
 */
import type { ThrottleObserver } from "./budget/throttle.ts";
import type { Flown } from "./cache/cache.ts";
import { createMemoryStore } from "./cache/memory-store.ts";
import type { Store, StoreStats } from "./cache/store.ts";
import { createTiers } from "./cache/tiers.ts";
import { createFlights } from "./coalesce/flight.ts";
import { drawAdmin } from "./draw-admin.ts";
import { budgetSources, drawBudgets } from "./draw-budgets.ts";
import { drawJourney } from "./draw-journey.ts";
import { drawReload, restartReasons } from "./draw-reload.ts";
import { drawLife, longestStopMs, type StopOptions } from "./draw-life.ts";
import { createGatewayServer } from "./edge/server.ts";
import { createUnderWay } from "./edge/under-way.ts";
import type { Observer, Tier } from "./exchange.ts";
import { createMetrics, type Metrics } from "./observe/metrics.ts";
import { createObserver } from "./observe/observer.ts";
import { openBackend } from "./open-backend.ts";
import type { Listening } from "./platform/listen.ts";
import { createLiveSettings } from "./platform/live-settings.ts";
import { followKeyFile, type KeyFile } from "./platform/private-key-file.ts";
import type { SettingsSource } from "./platform/settings-source.ts";
import type { Surroundings } from "./surroundings.ts";

/** What a gateway is made of. */
export interface GatewayOptions extends Pick<Surroundings, "keys" | "clock" | "random" | "log"> {
  readonly source: SettingsSource;
}

export interface Gateway {
  /** Starts both servers. */
  readonly start: () => Promise<{ readonly callers: Listening; readonly admin: Listening }>;
  /**
   * Stops accepting, lets what is in flight finish within `server.drainTimeout`, refuses the rest, and gives
   * back what it holds of what replicas share.
   */
  readonly stop: (options?: StopOptions) => Promise<void>;
  /** The longest that stopping takes, in milliseconds; what takes longer hangs. */
  readonly longestStopMs: () => number;
  /** Reads the settings again; the log says what came of it. */
  readonly reload: () => void;
}

export function createGateway(options: GatewayOptions): Gateway {
  const { source, keys, clock, random, log } = options;
  const { config } = source.first;
  const settings = createLiveSettings(source, restartReasons(config));
  const surroundings: Surroundings = { ...options, config, settings };
  const memory = createMemoryStore(config.cache.maxBytes, clock);
  const flights = createFlights<Flown>(clock);
  const metrics = createMetrics({
    tiers: () => [memory, backend?.store].flatMap(statsOf),
    flights: () => flights.size,
    budget: budgetSources(() => budgets),
  });
  const observer = createObserver(log, metrics);
  const opened = openBackend({ config, clock, random, observer, metrics });
  const { backend, allowanceOf, ledger } = opened;
  const budgets = drawBudgets({ settings, clock, allowanceOf, observer: throttleObserver(metrics) });
  const tiers = createTiers({ memory, backend, clock });

  const parse = { ...config.query, isSecret: (value: string) => keys.known.includes(value) };
  const common = { tiers, budgets, observer, parse };
  const keyFile = drawKeyFile(options, observer);
  const underWay = createUnderWay();
  const callers = createGatewayServer({
    journey: drawJourney(surroundings, {
      ...common,
      flights,
      backend,
      underWay,
      lookForKey: () => keyFile?.check(),
    }),
    maxUrlBytes: config.server.maxUrlBytes,
    requestId: random.requestId,
  });
  const life = drawLife(() => ({
    clock,
    callers,
    admin,
    budgets,
    flights,
    underWay,
    closeStore: opened.close,
  }));
  const reload = drawReload({ settings, keys, budgets, metrics, log, clock });
  const admin = drawAdmin(surroundings, {
    ...common,
    ledger,
    metrics,
    readiness: life.readiness,
    reload: () => reload("request"),
  });

  return {
    start: () => life.start(config),
    async stop(how) {
      await life.stop(settings.current(), how);
      keyFile?.close();
    },
    reload: () => reload("SIGHUP"),
    longestStopMs: () => longestStopMs(settings.current()),
  };
}

/** Follows the file that the private key is in, where it is in one. */
function drawKeyFile({ source, keys, clock }: GatewayOptions, { info, warn }: Observer): KeyFile | undefined {
  const { readFile, first } = source;
  const path = first.config.upstream.privateKeyFile;
  return path === null ? undefined : followKeyFile({ path, keys, clock, readFile, info, warn });
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
