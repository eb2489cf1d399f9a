/**
 * The operators' HTTP server. Health and metrics are here; the other endpoints are in files of their own. The callers' port
 * has none of these endpoints.
 */
import type { HttpServer } from "../process/listen.ts";
import express, { type NextFunction, type Request, type Response, type Router } from "express";

import { Problem, StoreUnavailable } from "../errors.ts";
import type { Observer } from "../types.ts";
import { createHttpServer, type HttpServerOptions } from "../http/http-server.ts";
import { problemResponse } from "../http/problem-response.ts";
import { checkHead } from "../http/request-validation.ts";
import { createAnswers, indentFor } from "./answers.ts";
import { type AdminBudgetOptions, createAdminBudget } from "./budget.ts";
import { createAdminCache, type AdminCacheOptions } from "./cache.ts";
import { type AdminCallersOptions, createAdminCallers } from "./callers.ts";
import {
  type AdminDocuments,
  type AdminTryOptions,
  type AdminVersionOptions,
  createAdminVersion,
  createOpenApi,
  createTry,
} from "./docs.ts";
import {
  type AdminGuardOptions,
  createHostGuard,
  createTokenGuard,
  readOnly,
  refuseForeignPages,
} from "./guard.ts";
import { type AdminLogOptions, createAdminLog } from "./log.ts";
import { createLogin } from "./login.ts";
import { createSessions, type Sessions } from "./session.ts";
import { ADMIN_PARAMETERS } from "./openapi.ts";
import { createPages, PAGE_PARAMETERS } from "./pages.ts";
import { mistake } from "./parameters.ts";
import { type AdminReloadOptions, createAdminReload } from "./reload.ts";
import { type AdminStatusOptions, createAdminStatus } from "./status/routes.ts";
import { type AdminUsageOptions, createAdminUsage } from "./usage.ts";

type Readiness = "starting" | "ready" | "stopping";

export interface AdminOptions
  extends
    Omit<AdminCacheOptions, "inspect">,
    AdminBudgetOptions,
    AdminUsageOptions,
    AdminReloadOptions,
    Omit<AdminLogOptions, "observer">,
    AdminVersionOptions,
    AdminTryOptions,
    AdminCallersOptions,
    Omit<AdminStatusOptions, "maySee" | "after"> {
  readonly renderMetrics: () => Promise<{ contentType: string; text: string }>;
  /** Whether requests can be served: not yet, yes, or no longer because the process stops. */
  readonly readiness: () => Readiness;
  readonly documents: AdminDocuments;
  readonly requestId: () => string;
  readonly observer: Observer;
  /** The limits of the callers' server. URLs may be longer here, because a parameter can contain a caller's URL. */
  readonly limits: HttpServerOptions["limits"];
  readonly after: HttpServerOptions["after"];
  readonly tls?: HttpServerOptions["tls"];
  readonly token: AdminGuardOptions["token"];
}

const UNKNOWN = {
  detail: "This is the admin port. The callers' paths are on another port.",
  remedy:
    "Use GET / (a page), /metrics, /livez, /readyz, /status, /budget, /budget/replicas, " +
    "/usage?from=…&to=…&by=…, /quote?url=…, /cache/entry?url=…, /cache/history?url=…, /cache/warm, " +
    "/openapi.json, /docs, /callers, /version, /log, /session, " +
    "or POST /cache/purge, /budget/replicas, /config/reload, /log, /login, /logout.",
} as const;

/** The length of a percent-encoded byte, and the space for the rest of the admin URL. */
const ENCODED_BYTES = 3;
const AROUND_URL_BYTES = 1024;

/**
 * Health, metrics, the pages and the login need no token. Every handler after the token guard needs the token or a session.
 * @returns the server. It does not listen yet.
 */
export function createAdminServer(options: AdminOptions): HttpServer {
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
  app.use(createAnswers(new Map([...PAGE_PARAMETERS, ...ADMIN_PARAMETERS])));
  app.use(refuseForeignPages);
  app.use(createHealth(options));
  app.use(createHostGuard(options.token !== undefined));
  app.use(createPages());
  app.use(createMetrics(options));
  const sessions = options.token === undefined ? undefined : createSessions(options.token, now);
  const guard = createTokenGuard({ ...options, warn: observer.warn, sessions });
  app.use(createLogin(guard, sessions));
  app.use(guard.handler);
  app.use(createOpenApi(options.documents));
  app.use(createTry(options));
  app.use(createAdminStatus({ ...options, maySee: maySeeWith(sessions) }));
  app.use(createAdminCache(options));
  app.use(createAdminBudget(options));
  app.use(createAdminUsage(options));
  app.use(createAdminReload(options));
  app.use(createAdminLog(options));
  app.use(createAdminVersion(options));
  app.use(createAdminCallers(options));
  app.use((request, response) => {
    refuse(new Problem("unknown-path", UNKNOWN), request, response, options);
  });
  // Express recognises an error handler by its four parameters.
  app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    refuse(problemOf(error, options), request, response, options);
  });
  return createHttpServer({
    limits,
    tls: options.tls,
    serve: app,
    healthChecks: ["/livez", "/readyz"],
    after,
    now,
    requestId,
    warn: observer.warn,
  });
}

/** A request with the token may read without end; a request with a cookie only as long as the cookie is valid. */
function maySeeWith(sessions: Sessions | undefined): AdminStatusOptions["maySee"] {
  return (request) =>
    sessions === undefined ||
    request.headers.authorization !== undefined ||
    sessions.of(request) !== undefined;
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
  // The JSON parser's errors have a status. Their messages are not shown, because they may quote the body.
  const status: unknown =
    typeof error === "object" && error !== null ? Reflect.get(error, "status") : undefined;
  if (typeof status === "number" && status < 500) {
    return mistake("The body is not JSON, or is too large.");
  }
  observer.error("An admin request ended in an unexpected error. This is a bug in the gateway.", {
    err: error,
  });
  return new Problem("internal-error");
}

function refuse(problem: Problem, request: Request, response: Response, { requestId }: AdminOptions): void {
  const { status, headers, body } = problemResponse(problem, requestId(), false, indentFor(request));
  response.status(status).set(headers).vary("Accept").end(body);
}
