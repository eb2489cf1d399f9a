/**
 * The composition root. `createGateway` makes everything a gateway consists of, in the order of a request's journey:
 *
 *   context      settings, key, log, metrics
 *   stores       where answers are kept, and the ledger
 *   budgets      what may be sent upstream
 *   upstream     attempt [ budget, sign, fetch ]
 *   cache        lookup, policy, single flight, refresh, warm
 *   pages        cut from blocks that the cache is asked for
 *   callers      arrive, admit, understand, cache, respond
 *   admin        the operators' port
 *   lifecycle    start, drain, stop, reload
 *
 * Each step gets values that exist already. Nothing is looked up later, and no other file wires anything.
 */
import { hostname } from "node:os";

import { isOwnMachine } from "./admin/guard.ts";
import { createAdminDocument } from "./admin/openapi.ts";
import { createAdminServer } from "./admin/server.ts";
import { createRecorder, type Recorder } from "./admin/status/recorder.ts";
import type { ProcessInfo } from "./admin/status/types.ts";
import { createStatus } from "./admin/status/status.ts";
import { callersDocument, createCallers } from "./callers.ts";
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
import { createLiveSettings, type LiveSettings } from "./config/live.ts";
import type { FollowedFiles } from "./config/followed-files.ts";
import { followKeyFile } from "./config/private-key.ts";
import type { PrivateKeys } from "./config/private-key.ts";
import type { SettingsSource } from "./config/load.ts";
import { followSecretFiles, type SecretFiles } from "./config/secret-files.ts";
import type { Problem } from "./errors.ts";
import { renewCertificate } from "./http/http-server.ts";
import { createInFlight } from "./http/in-flight.ts";
import { createPageStage } from "./page-stage.ts";
import type { Pages } from "./pages/pages.ts";
import { createLifecycle, longestStopMs, type Lifecycle, type StopOptions } from "./lifecycle.ts";
import { type Clock, pause } from "./process/clock.ts";
import type { HttpServer, Listening } from "./process/listen.ts";
import { addressOf } from "./process/machine.ts";
import type { Random } from "./process/random.ts";
import { createConceal } from "./query/credentials.ts";
import { type Apps, createApps } from "./ratelimit/apps.ts";
import type { ParseOptions } from "./query/parse.ts";
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
} from "./budgets.ts";
import { createReload, restartReasons } from "./reload.ts";
import { createFlights, type Flights } from "./singleflight/flight.ts";
import { createLeadOrFollow } from "./singleflight/replicas.ts";
import { openBackend, type OpenedBackend } from "./stores.ts";
import type { Logger } from "./telemetry/log.ts";
import { createLogControl, type LogControl } from "./telemetry/log-control.ts";
import { createMetrics, type Metrics } from "./telemetry/metrics.ts";
import { createObserver } from "./telemetry/observer.ts";
import { build, watchEventLoop } from "./telemetry/process-metrics.ts";
import { savingOf } from "./telemetry/request-metrics.ts";
import { createServedAges, type ServedAges } from "./telemetry/served-ages.ts";
import { createRedact } from "./telemetry/redact.ts";
import type { TracingOptions } from "./telemetry/tracing.ts";
import { tlsContext } from "./tls.ts";
import type { FlightResult, Observer, Tier, Tracing } from "./types.ts";
import { reportUsage } from "./usage/usage-report.ts";
import { createCredentialsProbe, createUpstream, type Upstream } from "./upstream-stage.ts";
import { createReadWarmItems, type ReadWarmItems } from "./warm-list.ts";

/** What the process hands in. */
export interface GatewayOptions {
  readonly source: SettingsSource;
  /** The private key, which may change; the settings hold only the first one. */
  readonly keys: PrivateKeys;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  /** Absent if requests are not traced. */
  readonly createTracing?: ((options: TracingOptions) => Tracing) | undefined;
}

export interface Gateway {
  /** Starts both servers. */
  readonly start: () => Promise<{ readonly callers: Listening; readonly admin: Listening }>;
  /**
   * Stops accepting, lets what is in flight finish within `server.drainTimeout`, refuses the rest, and gives back
   * what this process holds of the shared budget.
   */
  readonly stop: (options?: StopOptions) => Promise<void>;
  /** The longest that stopping takes, in milliseconds. A process that takes longer hangs. */
  readonly longestStopMs: () => number;
  /** Reads the settings again. The log says what came of it. */
  readonly reload: () => void;
}

/** Dependencies of the whole process, injected everywhere. */
interface Context extends GatewayOptions {
  /** The settings at the start: for what cannot change while the process runs. */
  readonly config: Config;
  /** The settings in force. */
  readonly settings: LiveSettings;
  readonly metrics: Metrics;
  readonly logControl: LogControl;
  readonly servedAges: ServedAges;
  readonly tracing: Tracing | undefined;
  readonly observer: Observer;
  /** What happened in this process, for the status page. */
  readonly recorder: Recorder;
  /** The apps that call, listed in the settings or not. */
  readonly apps: Apps;
  readonly parse: ParseOptions;
  readonly secretFiles: SecretFiles;
  readonly readWarmItems: ReadWarmItems;
  /** The answers to keep warm from the start on. */
  readonly warmItems: readonly WarmItem[];
}

/** What a flight brings; `undefined`: it ended without a result. */
type LoadResult = FlightResult<LoadedEntry> | undefined;

/** @throws {ConfigError} the list of URLs to keep warm has mistakes, or another process uses the data directory */
export function createGateway(options: GatewayOptions): Gateway {
  const context = createContext(options);
  const { config, settings, clock, random, metrics, observer, secretFiles } = context;
  const stores = openStores(context);
  const probe = createCredentialsProbe();
  const budgets = openBudgets(context, stores, probe.run);
  const keyFile = watchKeyFile(context);
  const upstream = createUpstream({ ...context, budgets, probe, lookForKey: () => keyFile?.check() });
  const flights = createFlights<LoadResult>(clock);
  const cache = createCacheStage(context, { ...stores, budgets, flights, ask: upstream.ask });
  const budgetLeft = createBudgetLeft(budgets);
  probe.asks((question) => void cache.refresh(question, undefined, "refresh"));
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
  const inFlight = createInFlight();
  const callers = createCallers({ ...context, ...upstream, ...stores, pages, budgets, inFlight });
  sampleMetrics(context, { stores, flights, budgets });

  const lifecycle = createLifecycle({ clock, budgets, flights, inFlight, closeStore: stores.close });
  const reload = createReload({ ...context, budgets, warm, checkFiles: secretFiles.check });
  const admin = createAdmin(context, {
    stores,
    budgets,
    pages,
    warm,
    lifecycle,
    reload: () => reload("request"),
  });
  renewCertificates(secretFiles, { callers, admin });
  const stopWatching = watchEventLoop(metrics.eventLoopDelay);

  return {
    async start() {
      const addresses = await lifecycle.start(config, { callers, admin });
      stores.listensAt(addressOf(addresses.admin));
      for (const part of background) part.start();
      return addresses;
    },
    async stop(how) {
      for (const part of background) part.stop();
      await lifecycle.stop(settings.current(), how);
      keyFile?.close();
      secretFiles.close();
      stopWatching();
      await sendLastTraces(context);
    },
    reload: () => reload("SIGHUP"),
    longestStopMs: () => longestStopMs(settings.current()),
  };
}

/** Gives the servers the certificates that are in the files when they change. */
function renewCertificates(
  { onChange }: SecretFiles,
  servers: Record<"callers" | "admin", HttpServer>,
): void {
  onChange("server.tls", ({ server }) => renewCertificate(servers.callers, tlsContext(server.tls)));
  onChange("admin.tls", ({ admin }) => renewCertificate(servers.admin, tlsContext(admin.tls)));
}

/** How long a stopping process sends its last traces. */
const LAST_TRACES_MS = 1_000;

async function sendLastTraces({ tracing, clock }: Context): Promise<void> {
  if (tracing) await Promise.race([tracing.close(), pause(clock, LAST_TRACES_MS)]);
}

function createContext(options: GatewayOptions): Context {
  const { source, keys, clock, random, log } = options;
  const { config } = source.first;
  const parse = { ...config.query, conceal: createConceal(keys.known, random.fraction) };
  const readWarmItems = createReadWarmItems(source.readFile);
  const { items: warmItems, problems } = readWarmItems(source.first.settings);
  if (problems.length > 0) throw new ConfigError(problems);
  const settings = createLiveSettings(source, restartReasons(config));
  const metrics = createMetrics(build);
  const apps = createApps(appsConfigOf(config));
  const recorder = createRecorder({ clock, process: describeProcess(options), savingOf });
  const logControl = createLogControl(log, config.log);
  const servedAges = createServedAges(options.clock.now());
  const written = createObserver(log, metrics, {
    servedAges,
    labelOf: apps.labelOf,
    logSettings: logControl.current,
    trustedProxies: config.server.trustedProxies,
    now: options.clock.now,
  });
  const observer = recorder.recording(written);
  const secretFiles = followSecretFiles({ ...observer, source, keys, clock });
  return {
    ...options,
    config,
    settings,
    metrics,
    logControl,
    servedAges,
    observer,
    recorder,
    tracing: options.createTracing?.({ observer, redact: createRedact(keys.known) }),
    apps,
    parse,
    secretFiles,
    readWarmItems,
    warmItems,
  };
}

/** What the status page says of this process. */
function describeProcess({ clock, random }: GatewayOptions): ProcessInfo {
  return {
    id: random.unique16(),
    host: hostname(),
    version: build.version,
    startedAt: clock.now(),
  };
}

/** Where answers are kept: memory, and behind it Redis or SQLite, if the settings name one. */
interface Stores extends OpenedBackend {
  readonly memory: MemoryStore;
  readonly tiers: Tiers;
  /** Keys whose load has failed a moment ago, here or in another replica. */
  readonly failures: Failures;
  readonly all: readonly Store[];
}

function openStores(context: Context): Stores {
  const { config, clock } = context;
  const memory = createMemoryStore(config.cache.maxBytes, clock);
  const failures = createFailures();
  const onFailed = (key: string, problem: Problem): void => {
    if (isFailureOfUpstream(problem)) failures.failed(key, problem, clock.monotonic());
  };
  const opened = openBackend({ ...context, onFailed });
  const { backend } = opened;
  const tiers = createTiers({ memory, backend, clock });
  return {
    ...opened,
    memory,
    tiers,
    failures,
    all: backend === undefined ? [memory] : [memory, backend.store],
  };
}

function openBudgets(context: Context, { limiterOf, circuitsOf }: Stores, probe: () => void): Budgets {
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
      probe,
    },
    config,
  );
}

/** Follows the file that holds the private key, if the settings name one. */
function watchKeyFile({ source, keys, clock, observer }: Context): FollowedFiles | undefined {
  const { readFile, first } = source;
  const path = first.config.upstream.privateKeyFile;
  return path === null ? undefined : followKeyFile({ ...observer, path, keys, clock, readFile });
}

interface CacheParts extends Stores {
  readonly budgets: Budgets;
  readonly flights: Flights<LoadResult>;
  readonly ask: Upstream["ask"];
}

function createCacheStage(
  { config, settings, clock, random, observer }: Context,
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
    random,
    budgetLeft: createBudgetLeft(budgets),
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
  readonly reload: () => ReturnType<ReturnType<typeof createReload>>;
}

/** @returns the operators' server, not yet listening */
function createAdmin(context: Context, parts: AdminParts): HttpServer {
  const { stores, budgets, pages, warm, lifecycle, reload } = parts;
  const { config, settings, clock, random, observer, metrics, parse } = context;
  const { tiers, ledger } = stores;
  const { requestId } = random;
  const { now, after } = clock;
  const isForOwnMachine = isOwnMachine(config.admin.host);
  const isGuarded = config.admin.token !== null;
  if (!isGuarded && !isForOwnMachine) {
    observer.warn("Anyone who can reach the admin port can use it, purges included. Set ADMIN_TOKEN.", {
      host: config.admin.host,
    });
  }
  if (config.budget.degradedShare !== null) {
    observer.warn("budget.degradedShare has no effect any more. Use budget.degradedReserve.", {});
  }
  return createAdminServer({
    parse,
    pages,
    observer,
    now,
    after,
    requestId,
    reload,
    limits: config.server,
    tls: tlsContext(config.admin.tls),
    warm: warm.states,
    documents: { callers: callersDocument(config), admin: createAdminDocument(build) },
    readiness: lifecycle.readiness,
    renderMetrics: metrics.render,
    saved: metrics.saved,
    route: createRouter(config.upstream),
    inspect: createInspect(tiers, () => settings.current().cache, now),
    budget: () => describeBudgets(budgets, settings.current(), context.apps),
    expect: createExpect(budgets, settings.current),
    apps: context.apps,
    historyOf: context.recorder.historyOf,
    status: createStatus({
      ...context,
      budgets,
      board: stores.board,
      mode: () => settings.current().budget.mode,
    }),
    replicas: stores.replicas,
    async usage(query) {
      const { limit, images } = settings.current().budget;
      return await reportUsage({ ...query, ledger, windows: { api: limit, images } });
    },
    token: config.admin.token?.reveal(),
    openMetrics: config.admin.openMetrics,
    ownMachineOnly: !isGuarded && isForOwnMachine,
    purge: tiers.purge,
    version: build,
    identities: context.apps.identities,
    agesServed: context.servedAges.between,
    logSettings: context.logControl.current,
    changeLog: context.logControl.change,
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

/** What the metrics show of a store; nothing if it cannot tell. */
function statsOf(store: Store): (StoreStats & { readonly tier: Tier })[] {
  const stats = store.stats();
  return stats ? [{ tier: store.tier, ...stats }] : [];
}
