/**
 * The stack, drawn in the order of the journey.
 */
import type { Backend } from "./cache/backend.ts";
import { createCache, type Flown, type Kept } from "./cache/cache.ts";
import { createEncoder, isCompressible } from "./cache/encoder.ts";
import type { Tiers } from "./cache/tiers.ts";
import { createFly } from "./coalesce/across.ts";
import type { Flights } from "./coalesce/flight.ts";
import { type Budgets, createShares } from "./draw-budgets.ts";
import { createAdmit } from "./edge/admit.ts";
import { createArrive } from "./edge/arrival.ts";
import { createRefuse } from "./edge/refuse.ts";
import { createRespond } from "./edge/respond.ts";
import { createUnderstand } from "./edge/understand.ts";
import type { Observer, Priority } from "./exchange.ts";
import type { Resource } from "./interface/resources.ts";
import { createPipeline, type Journey } from "./pipeline.ts";
import type { Config } from "./platform/config.ts";
import type { ParseOptions } from "./query/parse.ts";
import type { Query, StreamedQuery } from "./query/query.ts";
import { createRouter } from "./query/route.ts";
import { upstreamTarget } from "./query/text.ts";
import type { Surroundings } from "./surroundings.ts";
import { createAttempt } from "./upstream/attempt.ts";
import { createOrigin, type Origin } from "./upstream/origin.ts";
import { createPassThrough } from "./upstream/pass-through.ts";
import { createSigner } from "./upstream/sign.ts";

export interface JourneyParts {
  readonly tiers: Tiers;
  readonly flights: Flights<Flown>;
  readonly backend: Backend | undefined;
  readonly budgets: Budgets;
  readonly observer: Observer;
  readonly parse: ParseOptions;
}

/** admit → understand → cache → coalesce → attempt [ throttle → sign → fetch ] → respond */
export function drawJourney(surroundings: Surroundings, parts: JourneyParts): Journey {
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
    priorityOf: createPriorityOf(config.apps),
    clock,
    random,
    observer,
  };
  const attempt = createAttempt(outward);
  const respond = createRespond({
    now,
    encode: createEncoder(tiers.keepInMemory),
    isCompressible,
    share: createShares(parts.budgets, clock),
  });

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
      head: server,
      maxWaitMs: budget.maxWaitMs,
    }),
    understand: createUnderstand(parse),
    cache: createCache({
      tiers,
      coalesce: flights.join,
      fly: createFly<Kept>(backend?.claims),
      fetch: ({ query: asked, text, request: { app, format } }, waiting) => {
        const { resource, kind } = asked;
        const target = outward.targetOf(asked);
        const priority = outward.priorityOf(app);
        return attempt({ resource, text, target, single: kind === "record", format, app, priority }, waiting);
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

function createPriorityOf(apps: Config["apps"]): (app: string) => Priority {
  const priorities = new Map(apps.map(({ id, priority }) => [id, priority]));
  return (app) => priorities.get(app) ?? "interactive";
}

/** The JSON interface is signed; the thumbnails are not (interface, sections 4.5 and 5). Each has its budget. */
function drawOrigins(
  { config, clock, random }: Surroundings,
  { budgets }: JourneyParts,
): (resource: Resource) => Origin {
  const { upstream } = config;
  const api = createOrigin({
    ...upstream,
    clock,
    baseUrl: upstream.url,
    throttled: budgets.api.throttle.throttled,
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
    throttled: budgets.images.throttle.throttled,
    sign: (target) => target,
  });
  return (resource) => (resource === "images" ? images : api);
}
