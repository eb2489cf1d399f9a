/**
 * The OpenAPI documents of both ports, and a page to read and try them. The page and its assets are static files without
 * secrets, so they need no token; the documents do. Everything comes from this port.
 */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import express, { type Response, type Router } from "express";

import { readOnly } from "./guard.ts";

export interface AdminDocuments {
  /** The document of the callers' port. */
  readonly callers: object;
  /** The document of this port. */
  readonly admin: object;
}

/** @returns `GET /openapi.json` and, for the page, `GET /docs/callers.json` */
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

/** Nothing but this port's own files; no inline scripts and styles. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const ASSETS = {
  "/docs": { file: own("page/docs.html"), type: "text/html; charset=utf-8" },
  "/docs/page.js": { file: own("page/docs.js"), type: "text/javascript; charset=utf-8" },
  "/docs/page.css": { file: own("page/docs.css"), type: "text/css; charset=utf-8" },
  "/docs/swagger-ui.js": {
    file: import.meta.resolve("swagger-ui-dist/swagger-ui-bundle.js"),
    type: "text/javascript; charset=utf-8",
  },
  "/docs/swagger-ui.css": {
    file: import.meta.resolve("swagger-ui-dist/swagger-ui.css"),
    type: "text/css; charset=utf-8",
  },
} as const;

/** @returns `GET /docs` and its assets */
export function createDocsPage(): Router {
  const router = express.Router({ strict: true });
  for (const [path, { file, type }] of Object.entries(ASSETS)) {
    router
      .route(path)
      .get(async (_request, response) => send(response, await readFile(fileURLToPath(file)), type))
      .all(readOnly);
  }
  return router;
}

function send(response: Response, content: Buffer, type: string): void {
  response.set({
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
    "Content-Type": type,
  });
  response.send(content);
}

function own(path: string): string {
  return new URL(path, import.meta.url).href;
}
