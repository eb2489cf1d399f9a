/**
 * Wires the callers' server: the pipeline with its stages.
 */

import type { Budgets } from "./ratelimit/budgets.ts";
import { createEncoder, isCompressible } from "./cache/encoder.ts";
import type { Config } from "./config/config.ts";
import type { Context } from "./context.ts";
import { createAppTokens } from "./http/app-tokens.ts";
import { createAdmit } from "./http/admit.ts";
import { type ArrivalOptions, type Arrivals, createArrivals, type OpenRequests } from "./http/arrive.ts";
import { createCorsHeaders, createServePreflight } from "./http/cors.ts";
import { createServeDocument, type ServeDocument } from "./http/document.ts";
import { createCallersApp } from "./http/callers-app.ts";
import { createHttpServer } from "./http/edge/http-server.ts";
import { checkHead } from "./http/edge/request-validation.ts";
import { createRefuse, createRespond, type Refuse } from "./http/respond.ts";
import { createUnderstand } from "./http/understand.ts";
import { createCallersDocument } from "./openapi/callers.ts";
import { docsPage, homePages } from "./openapi/docs-page.ts";
import type { Pages } from "./pages/pages.ts";
import { originOf } from "./interface/resources.ts";
import type { HttpServer } from "./process/listen.ts";
import { createKnownTargets, knownTargetsBytes } from "./query/known-targets.ts";
import { addressesOf } from "./query/route.ts";
import { build } from "./telemetry/build.ts";
import { tlsContext } from "./process/tls.ts";
import type { Stores } from "./stores.ts";
import type { PassThrough } from "./upstream/pass-through.ts";

export interface CallersParts {
  readonly stores: Pick<Stores, "tiers">;
  readonly passThrough: PassThrough;
  /** The stage that answers from blocks and from the cache. */
  readonly pages: Pick<Pages, "answer" | "answerAtOnce">;
  readonly budgets: Budgets;
}

/** The callers' server, not yet listening, and the requests that it works on. */
export interface Callers {
  readonly server: HttpServer;
  readonly inFlight: OpenRequests;
}

export function createCallers(context: Context, parts: CallersParts): Callers {
  const { config, settings, clock, random, observer } = context;
  const { pages, passThrough, stores, budgets } = parts;
  const { requestId } = random;
  const { now, after } = clock;
  const listed = settings.derive(({ apps: all }) => new Map(all.map((app) => [app.id, app])));
  const respond = createRespond({
    now,
    isCompressible,
    encode: createEncoder(stores.tiers.keepInMemory),
    share: (app, resource) => budgets[originOf(resource)].shareOf(app),
    retryAfterSeconds: (resource) => budgets[originOf(resource)].retryAfterSeconds(resource),
  });
  const refuse = createRefuse(respond, observer);
  const inFlight = arrivals(context, refuse);
  const knownTargets = createKnownTargets(knownTargetsBytes(config.cache.maxBytes));
  const serve = createCallersApp({
    addresses: addressesOf(config.upstream),
    arrivals: inFlight,
    servePreflight: createServePreflight({
      appIdHeader: config.server.appIdHeader,
      isAllowed: (origin) => settings.current().server.corsOrigins.some((one) => one === origin),
    }),
    checkHead: (message, target) => checkHead(message, config.server, target),
    documents: callersDocuments(config),
    known: knownTargets.find,
    admit: createAdmit({
      service: config.upstream.service,
      maxWaitMs: () => settings.current().budget.maxWaitMs,
      rightsOf: (app) => listed().get(app) ?? UNLISTED_APP,
    }),
    understand: createUnderstand(config.query, knownTargets.remember),
    cache: pages.answer,
    answerAtOnce: pages.answerAtOnce,
    passThrough,
    respond,
    refuse,
  });
  const server = createHttpServer({
    serve,
    ignoreContent: true,
    limits: context.limits,
    tls: tlsContext(config.server.tls),
    requestId,
    after,
    now,
    warn: observer.warn,
  });
  return { server, inFlight };
}

function arrivals(context: Context, refuse: Refuse): Arrivals {
  const { config, settings, clock, random, observer, tracing } = context;
  const cors = settings.derive(({ server }) => createCorsHeaders(server.corsOrigins));
  return createArrivals({
    ...clock,
    appIdHeader: config.server.appIdHeader,
    identify: createIdentify(context),
    requestId: random.requestId,
    observer,
    corsHeaders: (origin) => cors()(origin),
    refuse,
    startTrace: tracing?.start,
  });
}

function createIdentify({ apps, keys, ...context }: Context): ArrivalOptions["identify"] {
  /** App ids are in labels and reports, so a secret that a caller sent by mistake is no app id. */
  const withoutSecret = (text = ""): string =>
    keys.known.some((secret) => text.includes(secret)) ? "" : text;
  const checkToken = createAppTokens({
    tokens: context.secretFiles.appTokens,
    now: context.clock.now,
    warn: context.observer.warn,
    refused: (app) => context.metrics.record("gateway_app_tokens_refused_total", { app: apps.labelOf(app) }),
  });
  return (appId, userAgent, at, authorization) =>
    checkToken(apps.identify(withoutSecret(appId?.toString()), withoutSecret(userAgent), at), authorization);
}

/** @returns the documents of the callers' port, by path */
function callersDocuments({ upstream, server, query }: Config): Map<string, ServeDocument> {
  const options = { ...upstream, ...server, ...query, version: build.version };
  const text = JSON.stringify(createCallersDocument(options));
  const documents = new Map([["/openapi.json", createServeDocument([{ type: "application/json", text }])]]);
  if (!server.docs) return documents;
  return documents
    .set("/docs", createServeDocument([docsPage(options)]))
    .set("/", createServeDocument(homePages(options)));
}

/** The rights of apps that the settings do not list. */
const UNLISTED_APP = { priority: "interactive", mayForceRefresh: false } as const;
