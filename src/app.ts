/**
 * The composition root: everything is made here, and handed to those who draw the parts of it.
 */
import type { ThrottleObserver } from "./budget/throttle.ts";
import { createMemoryStore } from "./cache/memory-store.ts";
import type { Flown } from "./cache/obtain.ts";
import type { Store, StoreStats } from "./cache/store.ts";
import { createTiers } from "./cache/tiers.ts";
import { createFlights } from "./coalesce/flight.ts";
import { drawAdmin } from "./draw-admin.ts";
import { budgetSources, drawBudgets } from "./draw-budgets.ts";
import { drawCallers } from "./draw-callers.ts";
import { drawReload, restartReasons } from "./draw-reload.ts";
import { drawLife, type StopOptions } from "./draw-life.ts";
import { createUnderWay } from "./edge/under-way.ts";
import type { Observer, Tier } from "./exchange.ts";
import { watchEventLoop } from "./observe/event-loop.ts";
import { createMetrics, type Metrics } from "./observe/metrics.ts";
import { createObserver } from "./observe/observer.ts";
import { openBackend } from "./open-backend.ts";
import { build } from "./platform/build.ts";
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
    appsRegistered: () => settings.current().apps.length,
    build,
  });
  const stopWatching = watchEventLoop(metrics.eventLoopDelay);
  const observer = createObserver(log, metrics);
  const opened = openBackend({ config, clock, random, observer, metrics });
  const { backend, allowanceOf, ledger } = opened;
  const budgets = drawBudgets({ settings, clock, allowanceOf, observer: throttleObserver(metrics) });
  const tiers = createTiers({ memory, backend, clock });

  const parse = { ...config.query, isSecret: (value: string) => keys.known.includes(value) };
  const keyFile = drawKeyFile(options, observer);
  const underWay = createUnderWay();
  const callers = drawCallers(surroundings, {
    tiers,
    memory,
    flights,
    backend,
    budgets,
    observer,
    parse,
    underWay,
    readFile: source.readFile,
    lookForKey: () => keyFile?.check(),
  });
  const life = drawLife(() => ({
    clock,
    callers: callers.server,
    admin,
    budgets,
    flights,
    underWay,
    closeStore: opened.close,
  }));
  const reload = drawReload({ settings, keys, budgets, metrics, log, clock });
  const admin = drawAdmin(surroundings, {
    tiers,
    budgets,
    ledger,
    metrics,
    observer,
    parse,
    warm: callers.warm.states,
    readiness: life.readiness,
    reload: () => reload("request"),
  });

  return {
    async start() {
      const addresses = await life.start(config);
      callers.start();
      return addresses;
    },
    async stop(how) {
      callers.stop();
      await life.stop(settings.current(), how);
      keyFile?.close();
      stopWatching();
    },
    reload: () => reload("SIGHUP"),
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
