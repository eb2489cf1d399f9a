/**
 * Wires the callers' server: the pipeline with its stages.
 */
import { createEncoder, isCompressible } from "./cache/encoder.ts";
import type { Config } from "./config/config.ts";
import type { Context } from "./context.ts";
import { createAppTokens } from "./http/app-tokens.ts";
import type { ArrivalOptions } from "./http/arrive.ts";
import { type CallersApp, createCallersApp } from "./http/callers-routes.ts";
import { createCors } from "./http/cors.ts";
import { createServeDocument, type ServeDocument } from "./http/document.ts";
import { createHttpServer } from "./http/edge/http-server.ts";
import { originOf } from "./interface/resources.ts";
import { createCallersDocument } from "./openapi/callers.ts";
import { docsPage, homePages } from "./openapi/docs-page.ts";
import type { Pages } from "./pages/pages.ts";
import type { HttpServer } from "./process/listen.ts";
import { tlsContext } from "./process/tls.ts";
import { createKnownTargets, knownTargetsBytes } from "./query/known-targets.ts";
import { addressesOf } from "./query/route.ts";
import type { Budgets } from "./ratelimit/budgets.ts";
import type { Stores } from "./stores.ts";
import { build } from "./telemetry/build.ts";
import type { PassThrough } from "./upstream/pass-through.ts";

export interface CallersParts {
  readonly stores: Pick<Stores, "tiers">;
  readonly passThrough: PassThrough;
  /** The stage that answers from blocks and from the cache. */
  readonly pages: Pick<Pages, "answer" | "answerAtOnce">;
  readonly budgets: Budgets;
}

/** @returns the callers' server, not yet listening, and the app that it serves */
export function createCallers(
  context: Context,
  { pages, passThrough, stores, budgets }: CallersParts,
): { readonly server: HttpServer; readonly app: CallersApp } {
  const { config, settings, clock, random, observer, tracing } = context;
  const listed = settings.derive(({ apps }) => new Map(apps.map((app) => [app.id, app])));
  const app = createCallersApp({
    ...clock,
    requestId: random.requestId,
    observer,
    startTrace: tracing?.start,
    appIdHeader: config.server.appIdHeader,
    identify: createIdentify(context),
    rightsOf: (id) => listed().get(id) ?? UNLISTED_APP,
    cors: settings.derive(({ server }) => createCors(server)),
    headLimits: config.server,
    addresses: addressesOf(config.upstream),
    documents: callersDocuments(config),
    service: config.upstream.service,
    maxWaitMs: () => settings.current().budget.maxWaitMs,
    parse: config.query,
    knownTargets: createKnownTargets(knownTargetsBytes(config.cache.maxBytes)),
    answerAtOnce: pages.answerAtOnce,
    cache: pages.answer,
    passThrough,
    isCompressible,
    encode: createEncoder(stores.tiers.keepInMemory),
    share: (id, resource) => budgets[originOf(resource)].shareOf(id),
    retryAfterSeconds: (resource) => budgets[originOf(resource)].retryAfterSeconds(resource),
  });
  const server = createHttpServer({
    ...clock,
    serve: app.serve,
    ignoreContent: true,
    limits: context.limits,
    tls: tlsContext(config.server.tls),
    requestId: random.requestId,
    warn: observer.warn,
  });
  return { server, app };
}

function createIdentify({ apps, keys, ...context }: Context): ArrivalOptions["identify"] {
  /** App ids are in labels and reports, so a secret that a caller sent by mistake is no app id. */
  const withoutSecret = (text = ""): string =>
    keys.known.some((secret) => text.includes(secret)) ? "" : text;
  const checkToken = createAppTokens({
    listed: () => context.secretFiles.current().apps,
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
