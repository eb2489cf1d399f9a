/** The operators' HTTP server. The callers' port has none of its endpoints. docs/admin.md describes them. */
import express, { type NextFunction, type Request, type Response } from "express";
import { z } from "zod";

import type { ReloadOutcome } from "../config/changes.ts";
import { Problem, StoreUnavailable } from "../errors.ts";
import { createHttpServer, type HttpServerOptions } from "../http/edge/http-server.ts";
import { problemResponse } from "../http/problem-response.ts";
import { checkHead } from "../http/edge/request-validation.ts";
import type { HttpServer } from "../process/listen.ts";
import type { Budgets } from "../ratelimit/budgets.ts";
import type { Observer } from "../telemetry/events.ts";
import type { WithCopy } from "../sqlite/backup.ts";
import { backupEndpoint } from "./backup.ts";
import { type Endpoint, get, indentFor, mistake, mount, post } from "./endpoint.ts";
import { type ExplainOptions, explainEndpoints } from "./explain.ts";
import { guardByToken, refuseForeignHosts, refuseForeignPages } from "./guard.ts";
import { pageEndpoints } from "./pages.ts";
import { type PurgeOptions, purgeEndpoint } from "./purge.ts";
import type { StatusSource } from "./status/status.ts";
import { type Usage, usageEndpoint } from "./usage.ts";

type ServerOptions = Pick<HttpServerOptions, "certificate" | "clock" | "limits" | "observer" | "random">;

export interface AdminOptions extends ServerOptions, ExplainOptions, PurgeOptions {
  readonly budgets: Pick<Budgets, "describe" | "expect" | "tryCircuits">;
  readonly renderMetrics: () => Promise<{ contentType: string; text: string }>;
  /** Whether requests can be served: not yet, yes, or no longer because the process stops. */
  readonly readiness: () => { readonly isReady: boolean; readonly says: string };
  readonly redact: (text: string) => string;
  readonly status: StatusSource["read"];
  /** The replicas that hold a slot of the API's budget; none without Redis. Rejects if Redis does not answer. */
  readonly replicas: () => Promise<readonly object[]>;
  /** @returns the state of the warm list */
  readonly warm: () => readonly object[];
  readonly usage: Usage;
  readonly withCopy?: WithCopy | undefined;
  readonly reload: () => ReloadOutcome;
  readonly version: object;
  /** The token in force; `null`: the port needs none. */
  readonly token: (() => string) | null;
}

/** Longer than at the callers' port, because a parameter can contain a caller's URL, percent-encoded. */
const LONGEST_URL_BYTES = 25 * 1024;

/**
 * Health and metrics need no token. Every endpoint that is mounted after the token guard needs it.
 * @returns the server. It does not listen yet.
 */
export function createAdminServer(options: AdminOptions): HttpServer {
  const { clock, observer, random, readiness, redact, renderMetrics, token } = options;
  const limits = { ...options.limits, maxUrlBytes: LONGEST_URL_BYTES };
  const app = express();
  app.disable("x-powered-by");
  app.use((request, response, next) => {
    checkHead(request, limits);
    response.set("Cache-Control", "no-store");
    next();
  });
  app.use(refuseForeignPages);
  mount(app, redact, [
    get("/livez", {}, (_query, _request, response) => response.type("text/plain").send("alive\n")),
    get("/readyz", {}, (_query, _request, response) => {
      const { isReady, says } = readiness();
      response.status(isReady ? 200 : 503);
      response.type("text/plain").send(`${says}\n`);
    }),
  ]);
  if (token === null) app.use(refuseForeignHosts);
  mount(app, redact, [
    get("/metrics", {}, async (_query, _request, response) => {
      const { contentType, text } = await renderMetrics();
      response.type(contentType).send(text);
    }),
  ]);
  if (token !== null) app.use(guardByToken(token, clock.now, observer.warn));
  const endpoints = endpointsFor(options);
  mount(app, redact, [...pageEndpoints(), ...endpoints]);
  const known = endpoints.map(({ method, path }) => `${method} ${path}`).join(", ");
  app.use(() => {
    throw new Problem("unknown-path", {
      detail: "This is the admin port. The callers' paths are on another port.",
      remedy: `Use GET /, GET /metrics, GET /livez, GET /readyz, ${known}.`,
    });
  });
  // Express recognises an error handler by its four parameters.
  app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    const problem = problemOf(error, observer);
    const { status, headers, body } = problemResponse(problem, random.requestId(), false, indentFor(request));
    response.status(status).set(headers).vary("Accept").end(body);
  });
  const serve: HttpServerOptions["serve"] = (message, response) => {
    // If Express cannot read a target, it answers in HTML. It can read `*`, and knows no such path.
    if (!URL.canParse(message.url ?? "/", "http://admin")) message.url = "*";
    app(message, response);
  };
  return createHttpServer({ ...options, limits, serve, healthChecks: ["/livez", "/readyz"] });
}

/** The endpoints that need the token. */
function endpointsFor(options: AdminOptions): Endpoint[] {
  const { budgets, clock, reload, replicas, status, version, warm } = options;
  return [
    get("/status", { span: z.enum(["15m", "1h", "24h"]).default("15m") }, ({ span }) => status(span)),
    get("/budget", {}, budgets.describe),
    get("/budget/replicas", {}, async () => ({ replicas: await replicas() })),
    get("/cache/warm", {}, () => {
      const urls = warm();
      const says = "The warm list is empty. List URLs under warm in the settings.";
      return { urls, ...(urls.length === 0 && { says }) };
    }),
    get("/version", {}, () => version),
    ...explainEndpoints(options),
    usageEndpoint(options.usage, clock.now),
    purgeEndpoint(options),
    post("/config/reload", z.unknown(), () => changesIn(reload())),
    backupEndpoint(options.withCopy, options.limits.writeTimeoutMs),
    post("/circuits/try", z.unknown(), () => {
      const tried = budgets.tryCircuits();
      const says = tried.length === 0 ? "No circuit is open." : `The next call tries ${tried.join(", ")}.`;
      return { tried, says };
    }),
  ];
}

function changesIn(result: ReloadOutcome): object {
  if (result.kind !== "applied") {
    const code = result.kind === "invalid" ? "invalid-settings" : "restart-needed";
    throw new Problem(code, { problems: result.problems });
  }
  const changes = result.changes.map(({ path, from, to }) =>
    from === undefined || to === undefined ? { path, secret: "changed" } : { path, from, to },
  );
  const changed = changes.map(({ path }) => path).join(", ") || "nothing";
  return { applied: true, says: `The settings are in force. Changed: ${changed}.`, changes };
}

function problemOf(error: unknown, observer: Observer): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof StoreUnavailable) return new Problem("store-unavailable", { internal: error.message });
  // Express' errors have a status. Their messages are not shown, because they may quote the request.
  if (Object(error).status < 500)
    return mistake("The path is not well-formed, or the body is not JSON or is too large.");
  observer.error("An admin request ended in an unexpected error. This is a bug in the gateway.", {
    err: error,
  });
  return new Problem("internal-error");
}
