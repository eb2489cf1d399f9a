/**
 * The composition root: the stack is drawn here, in the order of the journey.
 */
import { createMemoryLedger } from "./budget/memory-ledger.ts";
import { createThrottle } from "./budget/throttle.ts";
import { reportUsage } from "./budget/usage-report.ts";
import type { Window } from "./budget/windows.ts";
import type { Backend } from "./cache/backend.ts";
import { createCache, type Flown, type Kept } from "./cache/cache.ts";
import { createEncoder, isCompressible } from "./cache/encoder.ts";
import { createInspect } from "./cache/inspect.ts";
import { createMemoryStore } from "./cache/memory-store.ts";
import { StoreUnavailable, type Store, type StoreStats } from "./cache/store.ts";
import { createTiers, type Tiers } from "./cache/tiers.ts";
import { createFly } from "./coalesce/across.ts";
import { createFlights, type Flights } from "./coalesce/flight.ts";
import { createAdminServer } from "./edge/admin.ts";
import { createAdmit } from "./edge/admit.ts";
import { createArrive } from "./edge/arrival.ts";
import { createRefuse } from "./edge/refuse.ts";
import { createRespond } from "./edge/respond.ts";
import { createGatewayServer } from "./edge/server.ts";
import { createUnderstand } from "./edge/understand.ts";
import { Problem } from "./errors.ts";
import type { Observer, Throttled, Tier } from "./exchange.ts";
import type { Resource } from "./interface/resources.ts";
import type { Logger } from "./observe/log.ts";
import { createMetrics } from "./observe/metrics.ts";
import { createObserver } from "./observe/observer.ts";
import { openBackend, type OpenedBackend } from "./open-backend.ts";
import { createPipeline, type Journey } from "./pipeline.ts";
import type { Clock } from "./platform/clock.ts";
import type { Config } from "./platform/config.ts";
import { listen, type Listening } from "./platform/listen.ts";
import type { Random } from "./platform/random.ts";
import type { ParseOptions } from "./query/parse.ts";
import type { Query, StreamedQuery } from "./query/query.ts";
import { createRouter } from "./query/route.ts";
import { upstreamTarget } from "./query/text.ts";
import { createAttempt } from "./upstream/attempt.ts";
import { createOrigin, type Origin } from "./upstream/origin.ts";
import { createPassThrough } from "./upstream/pass-through.ts";
import { createSigner } from "./upstream/sign.ts";

/** What the process has that the rest is not to reach for. */
export interface Surroundings {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
}

export interface Gateway {
  /** Starts both servers. */
  readonly start: () => Promise<{ readonly callers: Listening; readonly admin: Listening }>;
  /** Stops accepting, lets what is in flight finish within `server.drainTimeout`, closes the rest. */
  readonly stop: () => Promise<void>;
}

const LEDGER_BOUNDS = { retentionMs: 35 * 86_400_000, maxRecords: 1_000_000 };

export function createGateway(surroundings: Surroundings): Gateway {
  const { config, clock, random, log } = surroundings;
  const memory = createMemoryStore(config.cache.maxBytes, clock);
  const flights = createFlights<Flown>(clock);
  const metrics = createMetrics({
    tiers: () => [memory, backend?.store].flatMap(statsOf),
    flights: () => flights.size,
  });
  const observer = createObserver(log, metrics);
  const { backend, sendLog } = openBackend({ config, clock, random, observer, metrics });
  const tiers = createTiers({ memory, backend, clock });

  const parse = {
    ...config.query,
    isSecret: (value: string) => value === config.upstream.privateKey.reveal(),
  };
  const callers = createGatewayServer({
    journey: drawJourney(surroundings, { tiers, flights, backend, sendLog, observer, parse }),
    maxUrlBytes: config.server.maxUrlBytes,
    requestId: random.requestId,
  });
  // Nothing is entered in it yet: that is for the throttle to do.
  const ledger = createMemoryLedger({ ...LEDGER_BOUNDS, now: clock.now });
  const windows = { api: config.budget.limit, images: config.budget.images };
  let stopping = false;
  const admin = createAdminServer({
    renderMetrics: metrics.render,
    isReady: () => !stopping,
    route: createRouter(config.upstream),
    parse,
    inspect: createInspect(tiers, clock.now),
    purge: (scope, hard) => tiers.purge(scope, hard).catch(asProblem),
    usage: (query) => reportUsage({ ...query, ledger, windows }).catch(asProblem),
    now: clock.now,
    requestId: random.requestId,
    observer,
  });
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
      await backend?.close();
    },
  };
}

/** A store's part in the metrics; nothing where there is none, or it cannot tell. */
function statsOf(store: Store | undefined): (StoreStats & { readonly tier: Tier })[] {
  const stats = store?.stats();
  return store && stats ? [{ tier: store.tier, ...stats }] : [];
}

function asProblem(error: unknown): never {
  if (error instanceof StoreUnavailable) throw new Problem("store-unavailable", { internal: error.message });
  throw error;
}

interface Parts {
  readonly tiers: Tiers;
  readonly flights: Flights<Flown>;
  readonly backend: Backend | undefined;
  readonly sendLog: OpenedBackend["sendLog"];
  readonly observer: Observer;
  readonly parse: ParseOptions;
}

/** admit → understand → cache → coalesce → attempt [ throttle → sign → fetch ] → respond */
function drawJourney(surroundings: Surroundings, parts: Parts): Journey {
  const { config, clock, random } = surroundings;
  const { tiers, flights, backend, observer, parse } = parts;
  const { server, upstream, budget } = config;
  const { now } = clock;

  const outward = {
    ...upstream,
    originOf: drawOrigins(surroundings, parts),
    identity: upstream,
    hosts: [upstream.url, upstream.imageUrl].map((url) => new URL(url).host),
    targetOf: (asked: Query | StreamedQuery): string => upstreamTarget(asked, upstream.recordPath),
    clock,
    random,
    observer,
  };
  const attempt = createAttempt(outward);
  const respond = createRespond({ now, encode: createEncoder(tiers.keepInMemory), isCompressible });

  return createPipeline({
    arrive: createArrive({
      appIdHeader: server.appIdHeader,
      apps: new Set(config.apps.map((app) => app.id)),
      now,
      requestId: random.requestId,
      observer,
    }),
    admit: createAdmit({
      route: createRouter(upstream),
      service: upstream.service,
      maxUrlBytes: server.maxUrlBytes,
      maxWaitMs: budget.maxWaitMs,
    }),
    understand: createUnderstand(parse),
    cache: createCache({
      tiers,
      coalesce: flights.join,
      fly: createFly<Kept>(backend?.claims),
      fetch: ({ query: asked, text, request: { format } }, waiting) => {
        const { resource, kind } = asked;
        const target = outward.targetOf(asked);
        return attempt({ resource, text, target, single: kind === "record", format }, waiting);
      },
      lifetimes: config.cache,
      retentionMs: config.cache.retentionMs,
      clock,
    }),
    passThrough: createPassThrough(outward),
    respond,
    refuse: createRefuse(respond, observer),
  });
}

/** The JSON interface is signed; the thumbnails are not (interface, sections 4.5 and 5). Each has its allowance. */
function drawOrigins(
  { config, clock, random }: Surroundings,
  { sendLog, observer }: Parts,
): (resource: Resource) => Origin {
  const { upstream, budget } = config;
  const throttled = (origin: "api" | "images", windows: readonly Window[]): Throttled =>
    createThrottle({
      windows,
      concurrency: budget.concurrency,
      clock,
      sendLog: sendLog(origin, Math.max(...windows.map(({ windowMs }) => windowMs))),
      warn: observer.warn,
    });
  const api = createOrigin({
    ...upstream,
    clock,
    baseUrl: upstream.url,
    throttled: throttled("api", budget.limit),
    sign: createSigner({
      callerId: upstream.callerId,
      privateKey: () => upstream.privateKey.reveal(),
      now: clock.now,
      unique16: random.unique16,
    }),
  });
  const images = createOrigin({
    ...upstream,
    clock,
    baseUrl: upstream.imageUrl,
    throttled: throttled("images", budget.images),
    sign: (target) => target,
  });
  return (resource) => (resource === "images" ? images : api);
}
