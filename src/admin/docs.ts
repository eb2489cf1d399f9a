/** The OpenAPI documents of both ports, and the versions of the gateway and of Node. */
import express, { type Router } from "express";

import { readOnly } from "./guard.ts";

export interface AdminDocuments {
  /** The document of the callers' port. */
  readonly callers: object;
  /** The document of this port. */
  readonly admin: object;
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
