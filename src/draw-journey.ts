/**
 * The stack, drawn in the order of the journey.
 */
import type { Cache } from "./cache/cache.ts";
import { createEncoder, isCompressible } from "./cache/encoder.ts";
import type { Tiers } from "./cache/store/tiered.ts";
import { type Budgets, createShares } from "./draw-budgets.ts";
import { type AdmitOptions, createAdmit } from "./http/admit.ts";
import { type Arrive, createArrive } from "./http/arrive.ts";
import { createRefuse } from "./http/refuse.ts";
import { createRespond } from "./http/respond.ts";
import { createUnderstand } from "./http/understand.ts";
import type { UnderWay } from "./http/in-flight.ts";
import type { Observer } from "./types.ts";
import { createPipeline, type Journey } from "./pipeline.ts";
import type { LiveSettings } from "./config/live-settings.ts";
import type { ParseOptions } from "./query/parse.ts";
import { createRouter } from "./query/route.ts";
import type { Surroundings } from "./surroundings.ts";
import type { PassThrough } from "./upstream/pass-through.ts";

export interface JourneyParts {
  readonly cache: Cache;
  readonly passThrough: PassThrough;
  /** What keeps an entry in memory with one body more. */
  readonly keepInMemory: Tiers["keepInMemory"];
  readonly budgets: Budgets;
  readonly observer: Observer;
  readonly parse: ParseOptions;
  readonly underWay: UnderWay;
}

/** admit → understand → cache → respond; behind the cache: src/draw-cache.ts, src/draw-upstream.ts */
export function drawJourney(surroundings: Surroundings, parts: JourneyParts): Journey {
  const { config, settings, clock } = surroundings;
  const { cache, passThrough, observer } = parts;
  const { server, upstream } = config;
  const budget = settings.section("budget");
  const respond = createRespond({
    now: clock.now,
    encode: createEncoder(parts.keepInMemory),
    isCompressible,
    share: createShares(parts.budgets, settings, clock),
  });
  const refuse = createRefuse(respond, observer);

  return createPipeline({
    arrive: parts.underWay.noting(drawArrive(surroundings, observer), refuse),
    admit: createAdmit({
      route: createRouter(upstream),
      service: upstream.service,
      head: server,
      get maxWaitMs() {
        return budget.maxWaitMs;
      },
      termsOf: createTermsOf(settings),
    }),
    understand: createUnderstand(parts.parse),
    cache,
    passThrough,
    respond,
    refuse,
  });
}

function drawArrive({ config, settings, clock, random }: Surroundings, observer: Observer): Arrive {
  const apps = settings.derive((now) => new Set(now.apps.map((app) => app.id)));
  return createArrive({
    appIdHeader: config.server.appIdHeader,
    get apps() {
      return apps();
    },
    now: clock.now,
    requestId: random.requestId,
    observer,
  });
}

function createTermsOf(settings: LiveSettings): AdmitOptions["termsOf"] {
  const terms = settings.derive(({ apps }) => new Map(apps.map((app) => [app.id, app])));
  return (app) => terms().get(app) ?? OTHER_TERMS;
}

/** Of callers that are not registered. */
const OTHER_TERMS = { priority: "interactive", mayForceRefresh: false } as const;
