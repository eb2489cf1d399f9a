/**
 * `GET /cache/entry`: what the cache knows about a URL. `GET /cache/warm`: the warm list. `POST /cache/purge`: purging.
 */
import express, { type Request, type Response, type Router } from "express";

import { SEARCH_RESOURCES } from "../interface/resources.ts";
import { NAMESPACE } from "../query/key.ts";
import type { Inspect } from "../cache/inspect.ts";
import type { PurgeScope } from "../cache/store/purges.ts";
import { postOnly, readOnly } from "./guard.ts";
import {
  askedFor,
  FORMAT_PARAMETER,
  formatOf,
  mistake,
  parameter,
  parametersOf,
  refuseUnknownMembers,
  type Understanding,
  URL_PARAMETER,
} from "./parameters.ts";

export interface AdminCacheOptions extends Understanding {
  readonly inspect: Inspect;
  /** @returns the state of the warm list */
  readonly warm: () => readonly object[];
  /** Rejects with `StoreUnavailable` if it cannot reach every replica. */
  readonly purge: (scope: PurgeScope, hard: boolean) => Promise<{ readonly epoch: number }>;
}

export const ENTRY_PARAMETERS = [URL_PARAMETER, FORMAT_PARAMETER];

export function createAdminCache(options: AdminCacheOptions): Router {
  const router = express.Router();
  router
    .route("/cache/entry")
    .get(async (request, response) => {
      parametersOf(request, ENTRY_PARAMETERS);
      const format = formatOf(request);
      const asked = askedFor(parameter(request, "url"), format, options);
      const { query, key, canonicalQuery } = await options.pages.sourceOf(asked, format);
      const isItself = key === asked.key;
      response.json({
        query: asked.canonicalQuery,
        ...(!isItself && { cutFrom: canonicalQuery }),
        ...(await options.inspect(query, key)),
      });
    })
    .all(readOnly);
  router
    .route("/cache/warm")
    .get((_request, response) => void response.json({ urls: options.warm() }))
    .all(readOnly);
  router
    .route("/cache/purge")
    .post(express.json({ limit: "16kb", type: () => true }), async (request, response) => {
      await purge(request, response, options);
    })
    .all(postOnly);
  return router;
}

async function purge(request: Request, response: Response, options: AdminCacheOptions): Promise<void> {
  const body: unknown = request.body;
  if (typeof body !== "object" || body === null) throw mistake(ONE_SCOPE);
  const hard: unknown = Reflect.get(body, "hard") ?? false;
  if (typeof hard !== "boolean") throw mistake('"hard" must be true or false.');
  const [scope, ...others] = scopesIn(body, options);
  if (scope === undefined || others.length > 0) throw mistake(ONE_SCOPE);
  // A page is cut from its block. If only the page were purged, it would be cut from the same block again.
  const blocks = blockKeysIn(body, options).map((key) => ({ kind: "key", key }) as const);
  let epoch = 0;
  for (const each of [...blocks, scope]) {
    ({ epoch } = await options.purge(each, hard));
  }
  response.json({ purged: scope, hard, epoch });
}

const RESOURCES: readonly string[] = [...SEARCH_RESOURCES, "images"];
const TAG = /^(area|record):\d+$/;

/** The members of a purge's body as JSON Schemas. A body names exactly one of url, key, resource, tag and all. */
export const PURGE_PROPERTIES = {
  url: { type: "string", description: "A URL or path on the callers' port.", examples: ["/areas?q=Nacka"] },
  format: {
    type: "string",
    description: "With url: v2 for the answer frozen to version 2.",
    enum: ["json", "v2"],
  },
  key: { type: "string", description: "The key of an answer, as /cache/entry shows it." },
  resource: { type: "string", description: "All answers of a resource.", enum: RESOURCES },
  tag: { type: "string", description: "All answers about an area or a record.", pattern: TAG.source },
  all: { type: "boolean", description: "true: all answers." },
  hard: { type: "boolean", description: "true: they are never served again, not even as stale answers." },
} as const;

const NAMES = Object.keys(PURGE_PROPERTIES);
/** The part of an answer's key after the namespace (src/query/key.ts). */
const ANSWER = /^\{(?:json|v2|jpeg):.+\}$/;

/** @returns the keys of the blocks from which the page at the body's URL is cut */
function blockKeysIn(body: object, options: AdminCacheOptions): readonly string[] {
  const url: unknown = Reflect.get(body, "url");
  if (typeof url !== "string") return [];
  const format = formatIn(body);
  return options.pages.blockKeysOf(askedFor(url, format, options), format);
}

function formatIn(body: object): "json" | "v2" {
  const format: unknown = Reflect.get(body, "format") ?? "json";
  if (format !== "json" && format !== "v2") throw mistake('"format" must be json or v2.');
  return format;
}

/** @returns every scope that the body names. A valid body names exactly one. */
function scopesIn(body: object, options: AdminCacheOptions): PurgeScope[] {
  refuseUnknownMembers(body, NAMES);
  const text = (name: string): string | undefined => {
    const value: unknown = Reflect.get(body, name);
    if (value !== undefined && typeof value !== "string") throw mistake(`"${name}" must be a string.`);
    return value;
  };
  const scopes: PurgeScope[] = [];
  const [url, key, resource, tag] = [text("url"), text("key"), text("resource"), text("tag")];
  if (url !== undefined) {
    scopes.push({ kind: "key", key: askedFor(url, formatIn(body), options).key });
  }
  if (key !== undefined) scopes.push({ kind: "key", key: ownKey(key) });
  if (resource !== undefined) {
    if (!RESOURCES.includes(resource)) throw mistake(`"resource" must be one of ${RESOURCES.join(", ")}.`);
    scopes.push({ kind: "resource", resource });
  }
  if (tag !== undefined) {
    if (!TAG.test(tag))
      throw mistake('"tag" must be an area or a record with its number: area:76, record:123.');
    scopes.push({ kind: "tag", tag });
  }
  if (Reflect.get(body, "all") === true) scopes.push({ kind: "all" });
  return scopes;
}

/** @throws {Problem} if no answer can have the key. Such a purge would report success and purge nothing. */
function ownKey(key: string): string {
  if (key.startsWith(NAMESPACE) && ANSWER.test(key.slice(NAMESPACE.length))) return key;
  throw mistake(
    `"key" must be a key as GET /cache/entry shows it: ${NAMESPACE}{json:areas?q=Nacka}. ` +
      'Use "url" for a URL in any spelling.',
  );
}

const ONE_SCOPE =
  'Send JSON with one of "url", "key", "resource" (listings, sold, areas, images), "tag" (area:76, record:123) ' +
  'or "all": true. Add "hard": true if stale entries must not be served either.';
