/**
 * The operators' HTTP server: metrics, health, and the cache. Nothing of it is on the callers' port.
 */
import type { Server } from "node:http";

import express, { type NextFunction, type Request, type Response, type Router } from "express";

import { Problem } from "../errors.ts";
import { StoreUnavailable } from "../store-unavailable.ts";
import type { Observer } from "../types.ts";
import { type AdminBudgetOptions, createAdminBudget } from "./budget.ts";
import { type AdminDocuments, createDocsPage, createOpenApi } from "./docs.ts";
import { type AdminReloadOptions, createAdminReload } from "./reload.ts";
import { createAdminCache, type AdminCacheOptions } from "./cache.ts";
import { type AdminGuardOptions, createPageGuard, createTokenGuard } from "./guard.ts";
import { type AdminUsageOptions, createAdminUsage } from "./usage.ts";
import { readOnly } from "./methods.ts";
import { mistake } from "./parameters.ts";
import { checkHead } from "../http/head.ts";
import { createHttpServer, type HttpServerOptions } from "../http/http-server.ts";
import { problemMessage } from "../http/problem-message.ts";

type Readiness = "starting" | "ready" | "stopping";

export interface AdminOptions
  extends Omit<AdminCacheOptions, "inspect">, AdminBudgetOptions, AdminUsageOptions, AdminReloadOptions {
  readonly renderMetrics: () => Promise<{ contentType: string; text: string }>;
  /** Whether requests can be served: not yet, yes, or no more, because the process is told to stop. */
  readonly readiness: () => Readiness;
  readonly documents: AdminDocuments;
  readonly requestId: () => string;
  readonly observer: Observer;
  /** Those of the callers' server; but for URLs, because one may hold a caller's, percent-encoded. */
  readonly limits: HttpServerOptions["limits"];
  readonly after: HttpServerOptions["after"];
  readonly token: AdminGuardOptions["token"];
  /** Whether metrics are open to those without the token. */
  readonly openMetrics: boolean;
  /** Whether it is open to this machine only, and without a token. */
  readonly ownMachineOnly: boolean;
}

const UNKNOWN = {
  detail: "This is the admin port; what callers ask for is on another one.",
  remedy:
    "Use GET /metrics, /livez, /readyz, /budget, /usage?from=…&to=…&by=…, /quote?url=…, /cache/entry?url=…, " +
    "/cache/warm, /openapi.json, /docs, or POST /cache/purge, /config/reload.",
} as const;

/** What percent-encoding makes of a byte, and some room for what stands around a caller's URL. */
const ENCODED_BYTES = 3;
const AROUND_URL_BYTES = 1024;

/**
 * Health is open to everybody, metrics where the settings say so; what is drawn below the guard is for those with
 * the token.
 * @returns the server, not yet listening
 */
export function createAdminServer(options: AdminOptions): Server {
  const { observer, after, now, requestId } = options;
  const limits = {
    ...options.limits,
    maxUrlBytes: options.limits.maxUrlBytes * ENCODED_BYTES + AROUND_URL_BYTES,
  };
  const app = express();
  app.disable("x-powered-by");
  app.set("query parser", false);
  app.use((request, _response, next) => {
    checkHead(request, limits);
    next();
  });
  app.use(createHealth(options));
  app.use(createPageGuard(options.ownMachineOnly));
  app.use(createDocsPage());
  if (options.openMetrics) app.use(createMetrics(options));
  app.use(createTokenGuard({ ...options, warn: observer.warn }));
  app.use(createMetrics(options));
  app.use(createOpenApi(options.documents));
  app.use(createAdminCache(options));
  app.use(createAdminBudget(options));
  app.use(createAdminUsage(options));
  app.use(createAdminReload(options));
  app.use((_request, response) => {
    refuse(new Problem("unknown-path", UNKNOWN), response, options);
  });
  // Express tells an error handler by its four parameters.
  app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
    refuse(problemOf(error, options), response, options);
  });
  return createHttpServer({ limits, serve: app, after, now, requestId, warn: observer.warn });
}

function createMetrics({ renderMetrics }: AdminOptions): Router {
  const router = express.Router();
  router
    .route("/metrics")
    .get(async (_request, response) => {
      const { contentType, text } = await renderMetrics();
      response.set("Content-Type", contentType).send(text);
    })
    .all(readOnly);
  return router;
}

function createHealth({ readiness }: AdminOptions): Router {
  const router = express.Router();
  router
    .route("/livez")
    .get((_request, response) => void response.type("text/plain").send("alive\n"))
    .all(readOnly);
  router
    .route("/readyz")
    .get((_request, response) => {
      const state = readiness();
      response
        .status(state === "ready" ? 200 : 503)
        .set("Cache-Control", "no-store")
        .type("text/plain")
        .send(`${state}\n`);
    })
    .all(readOnly);
  return router;
}

function problemOf(error: unknown, { observer }: AdminOptions): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof StoreUnavailable) return new Problem("store-unavailable", { internal: error.message });
  // What the JSON parser refuses carries a status; its message may quote the body, which is the operator's own.
  const status: unknown =
    typeof error === "object" && error !== null ? Reflect.get(error, "status") : undefined;
  if (typeof status === "number" && status < 500) {
    return mistake("The body is not JSON, or is too large.");
  }
  observer.error("An admin request ended in an unexpected error.", { err: error });
  return new Problem("internal-error");
}

function refuse(problem: Problem, response: Response, { requestId }: AdminOptions): void {
  const { status, headers, body } = problemMessage(problem, requestId(), false);
  response.status(status).set(headers).end(body);
}
