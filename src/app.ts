/**
 * The composition root: the stack is drawn here, in the order of the journey.
 */
import { createThrottle } from "./budget/throttle.ts";
import { createCache, type Kept } from "./cache/cache.ts";
import { createEncoder, isCompressible } from "./cache/encoder.ts";
import { createMemoryStore } from "./cache/memory-store.ts";
import { createFlights } from "./coalesce/flight.ts";
import { createAdminServer } from "./edge/admin.ts";
import { createAdmit } from "./edge/admit.ts";
import { createArrive } from "./edge/arrival.ts";
import { createRefuse } from "./edge/refuse.ts";
import { createRespond } from "./edge/respond.ts";
import { createGatewayServer } from "./edge/server.ts";
import { createUnderstand } from "./edge/understand.ts";
import type { Observer } from "./exchange.ts";
import type { Resource } from "./interface/resources.ts";
import type { Logger } from "./observe/log.ts";
import { createMetrics } from "./observe/metrics.ts";
import { createObserver } from "./observe/observer.ts";
import { createPipeline, type Journey } from "./pipeline.ts";
import type { Clock } from "./platform/clock.ts";
import type { Config } from "./platform/config.ts";
import { listen, type Listening } from "./platform/listen.ts";
import type { Random } from "./platform/random.ts";
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
  start(): Promise<{ readonly callers: Listening; readonly admin: Listening }>;
  /** Stops accepting, lets what is in flight finish within `server.drainTimeout`, closes the rest. */
  stop(): Promise<void>;
}

export function createGateway(surroundings: Surroundings): Gateway {
  const { config, clock, log } = surroundings;
  const store = createMemoryStore(config.cache.maxBytes);
  const flights = createFlights<Kept>(clock);
  const metrics = createMetrics({ cache: () => store.stats, flights: () => flights.size });
  const observer = createObserver(log, metrics);

  const journey = drawJourney(surroundings, { store, flights, observer });
  let stopping = false;
  const { maxUrlBytes } = config.server;
  const callers = createGatewayServer({ journey, maxUrlBytes, requestId: surroundings.random.requestId });
  const admin = createAdminServer({ renderMetrics: metrics.render, isReady: () => !stopping });
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
    },
  };
}

interface Parts {
  readonly store: ReturnType<typeof createMemoryStore>;
  readonly flights: ReturnType<typeof createFlights<Kept>>;
  readonly observer: Observer;
}

/** admit → understand → cache → coalesce → attempt [ throttle → sign → fetch ] → respond */
function drawJourney(surroundings: Surroundings, { store, flights, observer }: Parts): Journey {
  const { config, clock, random } = surroundings;
  const { server, upstream, query, budget } = config;
  const { now } = clock;

  const targetOf = (asked: Query | StreamedQuery): string => upstreamTarget(asked, upstream.recordPath);
  const outward = {
    ...upstream,
    originOf: drawOrigins(surroundings),
    identity: upstream,
    hosts: [upstream.url, upstream.imageUrl].map((url) => new URL(url).host),
    targetOf,
    clock,
    random,
    observer,
  };
  const attempt = createAttempt(outward);
  const respond = createRespond({ now, encode: createEncoder(store), isCompressible });

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
    understand: createUnderstand({ ...query, isSecret: (value) => value === upstream.privateKey.reveal() }),
    cache: createCache({
      store,
      coalesce: flights.join,
      fetch: ({ query: asked, text, request: { format } }, waiting) => {
        const { resource, kind } = asked;
        return attempt(
          { resource, text, target: targetOf(asked), single: kind === "record", format },
          waiting,
        );
      },
      lifetimes: config.cache,
      clock,
    }),
    passThrough: createPassThrough(outward),
    respond,
    refuse: createRefuse(respond, observer),
  });
}

/** The JSON interface is signed; the thumbnails are not (interface, sections 4.5 and 5). Each has its allowance. */
function drawOrigins({ config, clock, random }: Surroundings): (resource: Resource) => Origin {
  const { upstream, budget } = config;
  const { concurrency } = budget;
  const api = createOrigin({
    ...upstream,
    clock,
    baseUrl: upstream.url,
    throttled: createThrottle({ windows: budget.limit, concurrency, clock }),
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
    throttled: createThrottle({ windows: budget.images, concurrency, clock }),
    sign: (target) => target,
  });
  return (resource) => (resource === "images" ? images : api);
}
