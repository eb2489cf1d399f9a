/**
 * The composition root. `createGateway` creates all parts of a gateway:
 *
 *   context      settings, key, log, metrics
 *   stores       the tiers of the cache, and the ledger
 *   budgets      permits for upstream calls
 *   upstream     call [ permit, sign, send ], retry
 *   cache        lookup, serve or fetch, single flight, refresh
 *   pages        pages cut from cached blocks
 *   warm         refreshes of the warm list
 *   callers      arrive, admit, pages, respond
 *   lifecycle    start, drain, stop, reload
 *   admin        the operators' port
 *
 * Each step gets the context and the parts that exist already. context.ts and stores.ts wire the details of one step each.
 */
import { hostname } from "node:os";

import { createAdminServer } from "./admin/server.ts";
import { createRecorder, type Recorder } from "./admin/status/recorder.ts";
import { createStatus, type StatusSource } from "./admin/status/status.ts";
import { type Context, createContext, type GatewayOptions } from "./context.ts";
import { openStores, type Stores } from "./stores.ts";
import { Cache, type CacheOptions } from "./cache/cache.ts";
import { createEncoder, isCompressible, transcode } from "./cache/encoder.ts";
import { createInspect } from "./cache/inspect.ts";
import { createChecks } from "./cache/lifetimes/checks.ts";
import { createLifetimes } from "./cache/lifetimes/learned-lifetimes.ts";
import { createLoad, type LoadedEntry } from "./cache/load.ts";
import { createRefresh } from "./cache/refresh.ts";
import type { StoreStats } from "./cache/store/port.ts";
import { Warm } from "./cache/warm.ts";
import { readWarmItems } from "./cache/warm-list.ts";
import { settingWarnings } from "./config/combinations.ts";
import { type Config, ConfigError } from "./config/config.ts";
import { type CallersApp, createCallersApp } from "./http/callers-routes.ts";
import { createCors } from "./http/cors.ts";
import { createHttpServer, renewCertificate } from "./http/edge/http-server.ts";
import { createIdentify } from "./http/identify-app.ts";
import type { TypedText } from "./interface/media-types.ts";
import { createCallersDocument } from "./openapi/callers.ts";
import { docsPage, homePages } from "./openapi/docs-page.ts";
import { Pages } from "./pages/pages.ts";
import { createLifecycle, type Lifecycle } from "./lifecycle.ts";
import { pause } from "./process/clock.ts";
import type { HttpServer } from "./process/listen.ts";
import { memoize } from "./process/memoize.ts";
import { createKnownTargets, knownTargetsBytes } from "./query/known-targets.ts";
import { addressesOf, createRouter } from "./query/route.ts";
import { Budgets } from "./ratelimit/budgets.ts";
import { createReload, type ReloadNow, watchSettingsFile } from "./reload.ts";
import { createFlights } from "./singleflight/callers-flights.ts";
import { createLeadOrFollow } from "./singleflight/replica-leader.ts";
import { build } from "./telemetry/build.ts";
import { watchEventLoop } from "./telemetry/event-loop.ts";
import { endOfCertificate } from "./process/tls.ts";
import { OTHER_APP } from "./telemetry/events.ts";
import { reportUsage } from "./usage/report.ts";
import { createUpstream, type Upstream } from "./upstream/upstream.ts";

export type Gateway = ReturnType<typeof createGateway>;

/** The longest time in which a stopping process sends its last traces. */
const LAST_TRACES_MS = 1_000;

/** @throws {ConfigError} if the warm list has mistakes, or the data directory cannot be used */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createGateway(options: GatewayOptions) {
  const recorder = createRecorder(options.clock.now);
  const context = createContext(options, recorder);
  const { settings, clock, metrics, tracing } = context;
  const parts = createParts(context, recorder);
  const { stores, budgets, flights, warm } = parts;
  const status = createStatusPage(context, parts);
  const callersApp = createCallers(context, parts);
  const { tls: certificate } = context.config.server;
  const callers = createHttpServer({ ...context, serve: callersApp.serve, ignoreContent: true, certificate });
  sampleMetrics(context, parts);
  const lifecycle = createLifecycle({ ...context, budgets, flights, callersApp, closeStore: stores.close });
  const reload = createReload(context, { budgets, warm });
  const admin = createAdmin(context, parts, { status, lifecycle, reload });
  settings.onChange("server.tls", ({ server }) => renewCertificate(callers, server.tls));
  settings.onChange("admin.tls", (renewed) => renewCertificate(admin, renewed.admin.tls));
  const background = [warm, status];
  const watches = [
    watchSettingsFile(context, reload),
    settings.close,
    watchEventLoop((delayMs) => metrics.record("gateway_event_loop_delay_seconds", {}, delayMs / 1000)),
  ];

  return {
    /** Starts both servers. */
    start: async (): ReturnType<Lifecycle["start"]> => {
      const addresses = await lifecycle.start({ callers, admin });
      for (const part of background) part.start();
      return addresses;
    },
    /**
     * Stops accepting requests, waits up to `server.drainTimeout` for requests in flight, refuses the rest, and returns this
     * process' part of the shared budget.
     * @param withDelay whether to wait for `server.stopDelay` before
     */
    stop: async (withDelay?: boolean): Promise<void> => {
      for (const part of background) part.stop();
      await lifecycle.stop(withDelay);
      for (const end of watches) end();
      if (tracing) await Promise.race([tracing.close(), pause(clock, LAST_TRACES_MS)]);
    },
    /** Reads the settings again. The result is in the log. */
    reload: (): void => void reload("SIGHUP"),
    longestStopMs: lifecycle.longestStopMs,
  };
}

/** The parts that answer requests, in the order in which they are created. */
type Parts = ReturnType<typeof createParts>;

/** @throws {ConfigError} if the warm list has mistakes */
function createParts(context: Context, recorder: Recorder) {
  const { config, settings, apps, keys, clock, random, metrics, observer } = context;
  const { items, problems } = readWarmItems(context.source.first.settings);
  if (problems.length > 0) throw new ConfigError(problems);
  const stores = openStores(context);
  const budgets = new Budgets({
    limiterOf: stores.limiterOf,
    circuitsOf: stores.circuitsOf,
    current: settings.current,
    apps,
    clock,
    fraction: random.fraction,
    keyVersion: keys.version,
    observer: { ...observer, refused: metrics.refused, departed: metrics.departed },
  });
  const upstream = createUpstream({
    ...context,
    upstream: config.upstream,
    limits: () => {
      const { budget, cache } = settings.current();
      return { maxCoolOffMs: budget.maxCoolOffMs, maxAgeEverMs: cache.maxAgeEverMs };
    },
    budgets,
    checkKeyFile: settings.check,
  });
  const stages = createAnswerStages(context, stores, budgets, upstream.ask);
  // A probe after refused credentials repeats the last answered query. Thumbnails need no credentials (interface, 4.5).
  budgets.api.circuits.probeWanted = () => {
    const question = upstream.lastAnswered();
    if (question === undefined) return false;
    // With the entry, `refresh` sends a call even if the entry is still fresh.
    const cached = stores.tiers.lookup(question.key);
    void cached.then((found) => stages.refresh(question, found?.entry, "refresh"));
    return true;
  };
  const warm = new Warm({
    items,
    tiers: stores.tiers,
    sourceOf: stages.pages.sourceOf,
    refresh: stages.refresh,
    rules: () => settings.current().cache,
    clock,
    random,
    observer,
  });
  return { ...stages, stores, budgets, warm, recorder, passThrough: upstream.passThrough };
}

/** The stages between the callers' requests and the upstream, and what they share with the other parts. */
function createAnswerStages(
  { config, settings, metrics, clock, observer }: Context,
  { memory, tiers, failures, claims }: Stores,
  budgets: Budgets,
  fetch: Upstream["ask"],
) {
  const rules = (): ReturnType<CacheOptions["rules"]> => settings.current().cache;
  const flights = createFlights<LoadedEntry | undefined>(clock);
  const lifetimes = createLifetimes(() => rules().lifetimes);
  const checks = createChecks(budgets.left, (err) =>
    observer.error("A check failed. This is a bug in the gateway.", { err }),
  );
  const shared = { tiers, checks, failures, rules, lifetimes, clock, observer };
  const load = createLoad({
    ...shared,
    replicas: config.redis === null ? 1 : config.budget.replicas,
    joinFlight: flights.join,
    leadOrFollow: createLeadOrFollow<LoadedEntry>(claims),
    fetch,
  });
  const refresh = createRefresh({ load, failures, clock, observer });
  const isCoolingOff: CacheOptions["isCoolingOff"] = ({ query, canonicalQuery }) =>
    budgets.isCoolingOff(query.resource, canonicalQuery);
  const cache = new Cache({ ...shared, load, refresh, isCoolingOff });
  // Cuts pages from blocks. It gets the blocks from the cache, and keeps the pages in memory.
  const pages = new Pages({
    ask: cache.answer,
    askAtOnce: cache.answerAtOnce,
    refresh,
    memory,
    keepInMemory: tiers.keepInMemory,
    async peek(key) {
      const found = await tiers.lookup(key);
      return found?.isPurged === false ? found.entry : undefined;
    },
    transcode,
    isCompressible,
    checks,
    isOn: () => settings.current().pages.fold === "on",
    clock,
    observer,
    pageChecked: (resource, result) => metrics.record("gateway_pages_checked_total", { resource, result }),
  });
  return { flights, lifetimes, refresh, pages };
}

/** @returns the stages that meet the callers' requests */
function createCallers(context: Context, { pages, passThrough, stores, budgets }: Parts): CallersApp {
  const { config, settings } = context;
  const corsOf = memoize(createCors, 1);
  return createCallersApp({
    ...context,
    identify: createIdentify(context),
    cors: () => corsOf(settings.current().server),
    maxWaitMs: () => settings.current().budget.maxWaitMs,
    headLimits: config.server,
    addresses: addressesOf(config.upstream),
    documents: callersDocuments(config),
    service: config.upstream.service,
    parse: config.query,
    knownTargets: createKnownTargets(knownTargetsBytes(config.cache.maxBytes)),
    answerAtOnce: pages.answerAtOnce,
    cache: pages.answer,
    passThrough,
    isCompressible,
    encode: createEncoder(stores.tiers.keepInMemory),
    budgets,
  });
}

/** @returns the documents of the callers' port, by path */
function callersDocuments({ upstream, server, query }: Config): ReadonlyMap<string, readonly TypedText[]> {
  const options = { ...upstream, ...server, ...query, version: build.version };
  const text = JSON.stringify(createCallersDocument(options));
  const documents = new Map<string, readonly TypedText[]>();
  documents.set("/openapi.json", [{ type: "application/json", text }]);
  if (!server.docs) return documents;
  return documents.set("/docs", [docsPage(options)]).set("/", homePages(options));
}

function createStatusPage(context: Context, { stores, budgets, lifetimes, recorder }: Parts): StatusSource {
  const { clock, log, random, settings } = context;
  return createStatus({
    ...context,
    recorder,
    outages: context.outages.current,
    process: { id: random.unique16(), host: hostname(), version: build.version, startedAt: clock.now() },
    budgets,
    statusTexts: stores.statusTexts,
    mode: () => settings.current().budget.mode,
    freshness: lifetimes.freshness,
    say: (level, text, fields) => log[level](fields, text),
  });
}

/** @returns the operators' server, not yet listening */
function createAdmin(
  context: Context,
  { stores, budgets, lifetimes, pages, warm, recorder }: Parts,
  { status, lifecycle, reload }: { status: StatusSource; lifecycle: Lifecycle; reload: ReloadNow },
): HttpServer {
  const { config, settings, clock, observer, metrics } = context;
  const { token } = config.admin;
  const { tiers, ledger } = stores;
  for (const warning of settingWarnings(config)) observer.warn(warning, {});
  return createAdminServer({
    ...context,
    recorder,
    parse: config.query,
    pages,
    reload: () => reload("request"),
    certificate: config.admin.tls,
    warm: warm.states,
    readiness: lifecycle.readiness,
    renderMetrics: metrics.render,
    route: createRouter(config.upstream),
    recordPath: config.upstream.recordPath,
    inspect: createInspect(tiers, () => settings.current().cache, lifetimes, stores.failures, clock.now),
    budgets,
    status: status.read,
    replicas: () => stores.replicas(),
    withCopy: stores.withCopy,
    async usage(query) {
      const { limit, images } = settings.current().budget;
      return await reportUsage({ ...query, ledger, windows: { api: limit, images } });
    },
    token: token && (() => (settings.current().admin.token ?? token).reveal()),
    purge: tiers.purge,
    version: build,
  });
}

function sampleMetrics(
  { metrics, settings, apps }: Context,
  { stores, flights, budgets, lifetimes }: Parts,
): void {
  const ofTiers = (member: keyof StoreStats) => () =>
    stores.all.flatMap(({ tier, stats }) => {
      const { [member]: value } = stats() ?? {};
      return value === undefined ? [] : [[{ tier }, value] as const];
    });
  metrics.sample({
    ...budgets.readings(),
    gateway_apps_registered: () => settings.current().apps.length,
    gateway_app_background() {
      const background = settings.current().apps.filter(({ priority }) => priority === "background");
      const labels = new Set(background.map(({ id }) => apps.labelOf(id)));
      return [...labels].flatMap((app) => (app === OTHER_APP ? [] : [[{ app }, 1] as const]));
    },
    gateway_flights: flights.size,
    gateway_cache_entries: ofTiers("entries"),
    gateway_cache_bytes: ofTiers("bytes"),
    gateway_cache_evictions_total: ofTiers("evictions"),
    gateway_ledger_durable: stores.ledgers,
    gateway_redis_may_evict_budget() {
      const policy = stores.evictionPolicy();
      return policy === undefined ? [] : Number(!policy.isSafe);
    },
    gateway_out_of_date_expected_ratio: () => lifetimes.freshness().expected ?? [],
    gateway_files_refused: settings.refused,
    gateway_certificate_end_timestamp_seconds() {
      const { server, admin } = settings.current();
      return Object.entries({ callers: server.tls, admin: admin.tls }).flatMap(([name, pair]) =>
        pair === null ? [] : [[{ server: name }, endOfCertificate(pair.cert) / 1000] as const],
      );
    },
  });
}
