/** The OpenAPI documents of both ports, and the versions of the gateway and of Node. */
import type { IncomingMessage, ServerResponse } from "node:http";

import express, { type Router } from "express";

import { readOnly } from "./guard.ts";

export interface AdminDocuments {
  /** The document of the callers' port. */
  readonly callers: object;
  /** The document of this port. */
  readonly admin: object;
}

export interface AdminTryOptions {
  /** Serves a request as the callers' port does. */
  readonly serveCaller: (request: IncomingMessage, response: ServerResponse) => void;
}

/**
 * @returns `/docs/try/…`, which answers as the callers' port does. The page `/docs` sends its requests for callers here,
 *   because browsers do not let it send them to another port.
 */
export function createTry({ serveCaller }: AdminTryOptions): Router {
  const router = express.Router();
  router.use("/docs/try", (request, response) => {
    // They are meant for the admin port.
    delete request.headers.authorization;
    delete request.headers.cookie;
    // What the API sends must not run in a page of the admin port.
    response.setHeader("Content-Security-Policy", "sandbox; default-src 'none'");
    serveCaller(request, response);
  });
  return router;
}

/** @returns `GET /openapi.json` and, for the page `/docs`, `GET /docs/callers.json` */
export function createOpenApi({ callers, admin }: AdminDocuments): Router {
  const router = express.Router();
  const serve = (path: string, document: object): void => {
    router
      .route(path)
      .get((_request, response) => void response.json(document))
      .all(readOnly);
  };
  serve("/openapi.json", admin);
  serve("/docs/callers.json", callers);
  return router;
}

export interface AdminVersionOptions {
  readonly version: { readonly version: string; readonly node: string };
}

/** @returns `GET /version` */
export function createAdminVersion({ version }: AdminVersionOptions): Router {
  const router = express.Router();
  router
    .route("/version")
    .get((_request, response) => void response.json(version))
    .all(readOnly);
  return router;
}
