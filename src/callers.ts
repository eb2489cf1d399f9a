/**
 * Wires the callers' server: the pipeline with its stages.
 */
import { createEncoder, isCompressible } from "./cache/encoder.ts";
import type { Config } from "./config/config.ts";
import type { Context } from "./context.ts";
import { createCallersApp } from "./http/callers-routes.ts";
import { createCors } from "./http/cors.ts";
import { createServeDocument, type ServeDocument } from "./http/document.ts";
import { createHttpServer } from "./http/edge/http-server.ts";
import { createIdentify } from "./http/identify-app.ts";
import { createCallersDocument } from "./openapi/callers.ts";
import { docsPage, homePages } from "./openapi/docs-page.ts";
import type { Pages } from "./pages/pages.ts";
import { memoizeLatest } from "./process/memoize.ts";
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
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createCallers(context: Context, { pages, passThrough, stores, budgets }: CallersParts) {
  const { config, settings } = context;
  const corsOf = memoizeLatest(createCors);
  const app = createCallersApp({
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
  const certificate = config.server.tls;
  const server = createHttpServer({ ...context, serve: app.serve, ignoreContent: true, certificate });
  return { server, app };
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
