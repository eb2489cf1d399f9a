/**
 * The operators' view of the cache: what is known of a URL, and purging.
 */
import express, { type Request, type Response, type Router } from "express";

import { Problem } from "../errors.ts";
import { SEARCH_RESOURCES } from "../interface/resources.ts";
import { NAMESPACE } from "../query/key.ts";
import type { Query } from "../query/query.ts";
import { askedFor, formatOf, parameter, type Understanding } from "./admin-parameters.ts";

/** What a purge names; the same forms as in src/cache/purges.ts. */
type Scope =
  | { readonly kind: "key"; readonly key: string }
  | { readonly kind: "resource"; readonly resource: string }
  | { readonly kind: "tag"; readonly tag: string }
  | { readonly kind: "all" };

export interface AdminCacheOptions extends Understanding {
  /** What is known of a key. */
  readonly inspect: (query: Query, key: string) => Promise<object>;
  /** How what is kept warm stands. */
  readonly warm: () => readonly object[];
  /** Rejects with `store-unavailable` where it cannot reach every replica. */
  readonly purge: (scope: Scope, hard: boolean) => Promise<{ readonly epoch: number }>;
}

/** @returns `GET /cache/entry`, `GET /cache/warm` and `POST /cache/purge` */
export function createAdminCache(options: AdminCacheOptions): Router {
  const router = express.Router();
  router.get("/cache/entry", async (request, response) => {
    const { text, key, query } = askedFor(parameter(request, "url"), formatOf(request), options);
    response.json({ query: text, ...(await options.inspect(query, key)) });
  });
  router.get("/cache/warm", (_request, response) => void response.json({ urls: options.warm() }));
  router.post(
    "/cache/purge",
    express.json({ limit: "16kb", type: () => true }),
    async (request, response) => {
      await purge(request, response, options);
    },
  );
  return router;
}

async function purge(request: Request, response: Response, options: AdminCacheOptions): Promise<void> {
  const body: unknown = request.body;
  if (typeof body !== "object" || body === null) throw wrongPurge();
  const hard: unknown = Reflect.get(body, "hard") ?? false;
  const scopes = scopesIn(body, options);
  if (typeof hard !== "boolean" || scopes.length !== 1 || scopes[0] === undefined) throw wrongPurge();
  const { epoch } = await options.purge(scopes[0], hard);
  response.json({ purged: scopes[0], hard, epoch });
}

const NAMES = new Set(["url", "format", "key", "resource", "tag", "all", "hard"]);

/** Every scope a body names; a proper one names just one. */
function scopesIn(body: object, options: AdminCacheOptions): Scope[] {
  if (Object.keys(body).some((name) => !NAMES.has(name))) throw wrongPurge();
  const text = (name: string): string | undefined => {
    const value: unknown = Reflect.get(body, name);
    if (value !== undefined && typeof value !== "string") throw wrongPurge();
    return value;
  };
  const scopes: Scope[] = [];
  const [url, key, resource, tag] = [text("url"), text("key"), text("resource"), text("tag")];
  if (url !== undefined) {
    scopes.push({ kind: "key", key: askedFor(url, text("format") === "v2" ? "v2" : "json", options).key });
  }
  if (key?.startsWith(NAMESPACE)) scopes.push({ kind: "key", key });
  if (resource !== undefined && [...SEARCH_RESOURCES, "images"].includes(resource)) {
    scopes.push({ kind: "resource", resource });
  }
  if (tag !== undefined && /^(area|record):\d+$/.test(tag)) scopes.push({ kind: "tag", tag });
  if (Reflect.get(body, "all") === true) scopes.push({ kind: "all" });
  return scopes;
}

function wrongPurge(): Problem {
  return new Problem("invalid-admin-request", {
    detail:
      'Send JSON with one of "url", "key", "resource" (listings, sold, areas, images), "tag" (area:76, record:123) ' +
      'or "all": true, and "hard": true where entries must not be served even as stale.',
  });
}
