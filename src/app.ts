/**
 * The composition root. `createGateway` creates all parts of a gateway:
 *
 *   context      settings, key, log, metrics
 *   stores       the tiers of the cache, and the ledger
 *   budgets      permits for upstream calls
 *   upstream     attempt [ budget, sign, fetch ]
 *   cache        lookup, policy, single flight, refresh
 *   pages        pages cut from cached blocks
 *   warm         refreshes of the warm list
 *   callers      arrive, admit, understand, cache, respond
 *   lifecycle    start, drain, stop, reload
 *   admin        the operators' port
 *
 * Each step gets the parts that exist already. stores.ts, page-stage.ts and callers.ts wire the details of one step each.
 */
import { hostname } from "node:os";

import { isOwnMachine } from "./admin/guard.ts";
import { createAdminServer } from "./admin/server.ts";
import { createRecorder, type Recorder } from "./admin/status/recorder.ts";
import { createStatus } from "./admin/status/status.ts";
import { createCallers } from "./callers.ts";
import { type CacheOptions, createCache } from "./cache/cache.ts";
import { createFailures, type Failures } from "./cache/failures.ts";
import { createInspect } from "./cache/inspect.ts";
import { createLoad, type LoadedEntry } from "./cache/load.ts";
import { isFailureOfUpstream } from "./cache/policy.ts";
import { createRefresh } from "./cache/refresh.ts";
import { createMemoryStore, type MemoryStore } from "./cache/store/memory.ts";
import type { Store, StoreStats } from "./cache/store/port.ts";
import { createTiers, type Tiers } from "./cache/store/tiered.ts";
import { createSweep } from "./cache/sweep.ts";
import { createWarm, type Warm, type WarmItem } from "./cache/warm.ts";
import { ConfigError, type Config } from "./config/config.ts";
import { settingWarnings } from "./config/cross-check.ts";
import { createLiveSettings, type LiveSettings } from "./config/live.ts";
import type { PrivateKeys } from "./config/private-key.ts";
import type { SettingsSource } from "./config/load.ts";
import { followSecretFiles, type SecretFiles } from "./config/secret-files.ts";
import type { Problem } from "./errors.ts";
import { renewCertificate } from "./http/http-server.ts";
import { createOpenRequests } from "./http/open-requests.ts";
import { ORIGINS } from "./interface/resources.ts";
import { createPageStage } from "./page-stage.ts";
import type { Pages } from "./pages/pages.ts";
import { createLifecycle, longestStopMs, type Lifecycle, type StopOptions } from "./lifecycle.ts";
import { type Clock, pause } from "./process/clock.ts";
import { connectionsThatFit } from "./process/open-files.ts";
import type { HttpServer, Listening } from "./process/listen.ts";
import type { Random } from "./process/random.ts";
import { type Apps, createApps } from "./ratelimit/apps.ts";
import { createRouter } from "./query/route.ts";
import {
  type Budgets,
  budgetSources,
  createBudgetLeft,
  appsConfigOf,
  createBudgets,
  createExpect,
  createIsCoolingOff,
  describeBudgets,
  tryCircuits,
} from "./ratelimit/budgets.ts";
import { createReload, restartReasons } from "./reload.ts";
import { createFlights, type Flights, type FlightResult } from "./singleflight/flight.ts";
import { createLeadOrFollow } from "./singleflight/replicas.ts";
import { openBackend, type OpenedBackend } from "./stores.ts";
import { createRedact, type Logger } from "./telemetry/log.ts";
import { createMetrics, type Metrics, savingOf } from "./telemetry/metrics.ts";
import { createObserver } from "./telemetry/observer.ts";
import { build, watchEventLoop } from "./telemetry/process-metrics.ts";
import type { TracingOptions } from "./telemetry/tracing.ts";
import { tlsContext } from "./process/tls.ts";
import type { Observer, Tier, Tracing } from "./telemetry/events.ts";
import { reportUsage } from "./usage/usage.ts";
import { createUpstream, type Upstream } from "./upstream/upstream.ts";
import { readWarmItems } from "./cache/warm-list.ts";

/** What the process passes to the gateway. */
export interface GatewayOptions {
  readonly source: SettingsSource;
  /** The private keys. The settings contain only the first one. */
  readonly keys: PrivateKeys;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  /** Absent if requests are not traced. */
  readonly createTracing?: ((options: TracingOptions) => Tracing) | undefined;
  /** The most files and connections that the process may open; absent if unknown. */
  readonly openFiles?: number | undefined;
}

export interface Gateway {
  /** Starts both servers. */
  readonly start: () => Promise<{ readonly callers: Listening; readonly admin: Listening }>;
  /**
   * Stops accepting requests, waits up to `server.drainTimeout` for requests in flight, refuses the rest, and returns this
   * process' part of the shared budget.
   */
  readonly stop: (options?: StopOptions) => Promise<void>;
  /** The longest time for an orderly stop, in milliseconds. A process that takes longer hangs. */
  readonly longestStopMs: () => number;
  /** Reads the settings again. The result is in the log. */
  readonly reload: () => void;
}

/** Process-wide dependencies that are injected. */
interface Context extends GatewayOptions {
  /** The settings at the start, for values that cannot change while the process runs. */
  readonly config: Config;
  /** The limits of both ports. */
  readonly limits: Config["server"];
  /** The settings in force. */
  readonly settings: LiveSettings;
  readonly metrics: Metrics;
  readonly tracing: Tracing | undefined;
  readonly observer: Observer;
  /** What happened in this process, for the status page. */
  readonly recorder: Recorder;
  /** The calling apps, listed in the settings or not. */
  readonly apps: Apps;
  readonly secretFiles: SecretFiles;
  /** The answers to keep warm from the start on. */
  readonly warmItems: readonly WarmItem[];
}

/** The result of a flight; `undefined` if it ended without one. */
type LoadResult = FlightResult<LoadedEntry> | undefined;

/** @throws {ConfigError} if the warm list has mistakes, or the data directory cannot be used */
export function createGateway(options: GatewayOptions): Gateway {
  const context = createContext(options);
  const { config, settings, clock, random, metrics, observer, secretFiles } = context;
  const stores = openStores(context);
  const budgets = openBudgets(context, stores);
  const upstream = createUpstream({ ...context, budgets, checkKeyFile: secretFiles.check });
  const flights = createFlights<LoadResult>(clock);
  const cache = createCacheStage(context, { ...stores, budgets, flights, ask: upstream.ask });
  const budgetLeft = createBudgetLeft(budgets);
  // A probe after refused credentials repeats the last answered query. Thumbnails need no credentials (interface, 4.5).
  budgets.api.onProbeWanted(() => {
    const question = upstream.lastAnswered();
    if (question !== undefined) void cache.refresh(question, undefined, "refresh");
  });
  const pages = createPageStage({ ...context, ...cache, ...stores, budgetLeft });
  const warm = createWarm({
    items: context.warmItems,
    tiers: stores.tiers,
    sourceOf: pages.questionFor,
    refresh: cache.refresh,
    rules: () => settings.current().cache,
    clock,
    random,
    observer,
  });
  const background = [warm, createSweep(stores.all, clock), context.recorder];
  const inFlight = createOpenRequests();
  const callers = createCallers({ ...context, ...upstream, ...stores, pages, budgets, inFlight });
  sampleMetrics(context, { stores, flights, budgets });

  const lifecycle = createLifecycle({ clock, budgets, flights, inFlight, closeStore: stores.close });
  const reload = createReload({ ...context, budgets, warm });
  const admin = createAdmin(context, { stores, budgets, pages, warm, lifecycle, reload });
  const servers = { callers: callers.server, admin };
  renewCertificates(secretFiles, servers);
  const stopWatching = watchEventLoop(metrics.eventLoopDelay);

  return {
    async start() {
      const addresses = await lifecycle.start(config, servers);
      for (const part of background) part.start();
      return addresses;
    },
    async stop(how) {
      for (const part of background) part.stop();
      await lifecycle.stop(settings.current(), how);
      secretFiles.close();
      stopWatching();
      await sendLastTraces(context);
    },
    reload: () => reload("SIGHUP"),
    longestStopMs: () => longestStopMs(settings.current()),
  };
}

/** Gives the servers their new certificates when the files change. */
function renewCertificates(
  { onChange }: SecretFiles,
  servers: Record<"callers" | "admin", HttpServer>,
): void {
  onChange("server.tls", ({ server }) => renewCertificate(servers.callers, tlsContext(server.tls)));
  onChange("admin.tls", ({ admin }) => renewCertificate(servers.admin, tlsContext(admin.tls)));
}

/** The longest time in which a stopping process sends its last traces. */
const LAST_TRACES_MS = 1_000;

async function sendLastTraces({ tracing, clock }: Context): Promise<void> {
  if (tracing) await Promise.race([tracing.close(), pause(clock, LAST_TRACES_MS)]);
}

function createContext(options: GatewayOptions): Context {
  const { source, keys, clock, log } = options;
  const { config } = source.first;
  const { items: warmItems, problems } = readWarmItems(source.first.settings);
  if (problems.length > 0) throw new ConfigError(problems);
  const settings = createLiveSettings(source, restartReasons);
  const metrics = createMetrics(build);
  const apps = createApps(appsConfigOf(config));
  const recorder = createRecorder({ clock, startedAt: clock.now(), savingOf });
  const logging = createObserver(log, metrics, {
    labelOf: apps.labelOf,
    logSettings: () => settings.current().log,
    trustedProxies: config.server.trustedProxies,
    now: options.clock.now,
  });
  const observer = recorder.recording(logging);
  const secretFiles = followSecretFiles({ ...observer, ...source, keys, clock });
  return {
    ...options,
    config,
    limits: { ...config.server, maxConnections: maxConnectionsOf(config, options.openFiles, observer) },
    settings,
    metrics,
    observer,
    recorder,
    tracing: options.createTracing?.({ observer, redact: createRedact(keys.known) }),
    apps,
    secretFiles,
    warmItems,
  };
}

/** @returns `server.maxConnections`, or fewer if the process may open too few files */
function maxConnectionsOf(
  { server: { maxConnections }, budget }: Config,
  openFiles: number | undefined,
  { warn }: Observer,
): number {
  if (openFiles === undefined) return maxConnections;
  const fitting = connectionsThatFit(openFiles, budget.concurrency * ORIGINS.length);
  if (fitting >= maxConnections) return maxConnections;
  warn(
    `This process may open ${openFiles} files only (ulimit -n), so each port takes ${fitting} connections at once ` +
      `instead of ${maxConnections} (server.maxConnections).`,
    { openFiles, maxConnections: fitting },
  );
  return fitting;
}

/** The stores of answers: memory, and behind it Redis or SQLite if the settings name one. */
interface Stores extends OpenedBackend {
  readonly memory: MemoryStore;
  readonly tiers: Tiers;
  /** Keys whose load has recently failed, here or in another replica. */
  readonly failures: Failures;
  readonly all: readonly Pick<Store, "tier" | "sweep" | "stats">[];
}

function openStores(context: Context): Stores {
  const { config, clock } = context;
  const memory = createMemoryStore(config.cache.maxBytes, clock);
  const failures = createFailures();
  const onFailed = (key: string, problem: Problem): void => {
    if (isFailureOfUpstream(problem)) failures.failed(key, problem, clock.monotonic());
  };
  const opened = openBackend({ ...context, onFailed });
  const { store } = opened;
  const tiers = createTiers({ memory, store, clock });
  return {
    ...opened,
    memory,
    tiers,
    failures,
    all: store === undefined ? [memory] : [memory, store],
  };
}

function openBudgets(context: Context, { limiterOf, circuitsOf }: Stores): Budgets {
  const { config, apps, keys, clock, random, metrics, observer } = context;
  return createBudgets(
    {
      limiterOf,
      circuitsOf,
      apps,
      clock,
      fraction: random.fraction,
      keyVersion: keys.version,
      observer: { ...observer, refused: metrics.budget.refused, departed: metrics.budget.spent },
    },
    config,
  );
}

interface CacheParts extends Stores {
  readonly budgets: Budgets;
  readonly flights: Flights<LoadResult>;
  readonly ask: Upstream["ask"];
}

function createCacheStage(
  { config, settings, clock, observer }: Context,
  { tiers, failures, claims, budgets, flights, ask }: CacheParts,
): ReturnType<typeof createCache> & { readonly refresh: ReturnType<typeof createRefresh> } {
  const rules = (): ReturnType<CacheOptions["rules"]> => settings.current().cache;
  const load = createLoad({
    tiers,
    failures,
    rules,
    clock,
    observer,
    joinFlight: flights.join,
    leadOrFollow: createLeadOrFollow<LoadedEntry>(claims),
    fetch: ask,
  });
  const refresh = createRefresh({ ...config.upstream, load, failures, clock, observer });
  const stage = createCache({
    tiers,
    load,
    refresh,
    failures,
    rules,
    clock,
    isCoolingOff: createIsCoolingOff(budgets),
  });
  return { ...stage, refresh };
}

interface AdminParts {
  readonly stores: Stores;
  readonly budgets: Budgets;
  readonly pages: Pages;
  readonly warm: Warm;
  readonly lifecycle: Lifecycle;
  readonly reload: ReturnType<typeof createReload>;
}

function warnAboutSettings(config: Config, { warn }: Observer): void {
  const { admin } = config;
  for (const warning of settingWarnings(config)) warn(warning, {});
  if (admin.token === null && !isOwnMachine(admin.host)) {
    warn("Anyone who can reach the admin port can use it, purges included. Set ADMIN_TOKEN.", {
      host: admin.host,
    });
  }
}

/** @returns the operators' server, not yet listening */
function createAdmin(context: Context, parts: AdminParts): HttpServer {
  const { stores, budgets, pages, warm, lifecycle, reload } = parts;
  const { config, settings, clock, random, observer, metrics } = context;
  const { tiers, ledger } = stores;
  const { requestId } = random;
  const { now, after } = clock;
  warnAboutSettings(config, observer);
  return createAdminServer({
    parse: config.query,
    pages,
    observer,
    now,
    after,
    requestId,
    reload: () => reload("request"),
    limits: context.limits,
    tls: tlsContext(config.admin.tls),
    warm: warm.states,
    readiness: lifecycle.readiness,
    renderMetrics: metrics.render,
    route: createRouter(config.upstream),
    inspect: createInspect({ ...stores, rules: () => settings.current().cache, now }),
    budget: () => describeBudgets(budgets, settings.current(), context.apps),
    expect: createExpect(budgets, settings.current),
    apps: context.apps,
    historyOf: context.recorder.historyOf,
    status: createStatus({
      process: { id: random.unique16(), host: hostname(), version: build.version, startedAt: now() },
      recorder: context.recorder,
      apps: context.apps,
      clock,
      budgets,
      board: stores.statusTexts,
      mode: () => settings.current().budget.mode,
    }),
    replicas: () => stores.replicas(),
    tryCircuits: () => tryCircuits(budgets),
    async usage(query) {
      const { limit, images } = settings.current().budget;
      return await reportUsage({ ...query, ledger, windows: { api: limit, images } });
    },
    token: config.admin.token?.reveal(),
    purge: tiers.purge,
    version: build,
  });
}

interface Sampled {
  readonly stores: Stores;
  readonly flights: Flights<LoadResult>;
  readonly budgets: Budgets;
}

function sampleMetrics({ metrics, settings }: Context, { stores, flights, budgets }: Sampled): void {
  metrics.sample({
    tiers: () => stores.all.flatMap(statsOf),
    flights: () => flights.size,
    ledgers: stores.ledgers,
    budget: budgetSources(budgets, settings.current),
    appsRegistered: () => settings.current().apps.length,
  });
}

/** @returns the figures of a store for the metrics; none if the store has no figures now */
function statsOf(store: Pick<Store, "tier" | "stats">): (StoreStats & { readonly tier: Tier })[] {
  const stats = store.stats();
  return stats ? [{ tier: store.tier, ...stats }] : [];
}
