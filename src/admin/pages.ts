/**
 * The pages of the admin port: `/` (the status page) and `/docs` (the OpenAPI documents). They are static files without
 * secrets, so they need no token. The data that they fetch from this port do. They load nothing from other hosts.
 */
import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import express, { type Response, type Router } from "express";

import { readOnly } from "./guard.ts";
import type { AdminParameter } from "./parameters.ts";

/** Allows only this port's own files and `data:` images; no inline scripts or styles. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const TYPES = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
} as const;

/** The files by path. Files of libraries are served from `node_modules`. */
const FILES: Readonly<Record<string, string>> = {
  "/": own("status.html"),
  ...Object.fromEntries(
    readdirSync(new URL("page/status/", import.meta.url)).map((name) => [
      `/page/${name}`,
      own(`status/${name}`),
    ]),
  ),
  "/page/uplot.js": import.meta.resolve("uplot/dist/uPlot.esm.js"),
  "/page/uplot.css": import.meta.resolve("uplot/dist/uPlot.min.css"),
  "/docs": own("docs.html"),
  "/docs/page.js": own("docs.js"),
  "/docs/page.css": own("docs.css"),
  "/docs/swagger-ui.js": import.meta.resolve("swagger-ui-dist/swagger-ui-bundle.js"),
  "/docs/swagger-ui.css": import.meta.resolve("swagger-ui-dist/swagger-ui.css"),
};

/** `/docs?of=callers` shows the document of the callers' port (page/docs.js). */
const OF: AdminParameter = {
  name: "of",
  meaning: "callers: the document of the callers' port",
  example: "callers",
  values: ["admin", "callers"],
};

/** The parameters of the pages and their assets by path. The scripts of the pages read them. */
export const PAGE_PARAMETERS: ReadonlyMap<string, readonly AdminParameter[]> = new Map(
  Object.keys(FILES).map((path) => [path, path === "/docs" ? [OF] : []]),
);

/** @returns the pages and their assets. Each response has an `ETag`. */
export function createPages(): Router {
  const router = express.Router({ strict: true });
  for (const [path, file] of Object.entries(FILES)) {
    const type = typeOf(file);
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
  // Express adds the ETag, and answers 304 if the browser has the file.
  response.send(content);
}

function typeOf(file: string): string {
  return file.endsWith(".html") ? TYPES.html : file.endsWith(".css") ? TYPES.css : TYPES.js;
}

function own(path: string): string {
  return new URL(`page/${path}`, import.meta.url).href;
}
