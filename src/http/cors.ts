/**
 * CORS (Fetch standard): web pages of the origins in `server.corsOrigins` may call the gateway from a browser, without
 * cookies. The gateway answers a preflight here, without an upstream call.
 */
import type { IncomingMessage, ServerResponse } from "node:http";

import type { Arrival } from "./arrive.ts";
import { CACHE_NAME } from "./problem-response.ts";

/** How long a browser may remember a preflight. Chromium accepts no longer time. */
const MAX_AGE_SECONDS = 7_200;

/** Request headers that a script may send, besides the one that names its app. */
const REQUEST_HEADERS =
  "Authorization, Accept, Cache-Control, If-Modified-Since, If-None-Match, Pragma, Prefer, X-Request-Deadline-Ms, " +
  "X-Request-Id, traceparent, tracestate";

/** Response headers that a script may read, besides those that every script may read. */
const RESPONSE_HEADERS =
  "Age, Cache-Status, ETag, Link, Preference-Applied, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id";

/** @returns the CORS headers of a response, alternating names and values; `undefined` if no origin is listed */
export type CorsHeaders = (origin: string | undefined) => readonly string[] | undefined;

/** @param origins the origins whose web pages may call the gateway */
export function createCorsHeaders(origins: readonly string[]): CorsHeaders {
  if (origins.length === 0) return () => undefined;
  // Every response has it, also one to a request without `Origin`: a shared cache must not serve that one to a web page.
  const vary = ["Vary", "Origin"];
  const allowed = new Map(
    origins.map((origin) => [
      origin,
      [...vary, "Access-Control-Allow-Origin", origin, "Access-Control-Expose-Headers", RESPONSE_HEADERS],
    ]),
  );
  return (origin) => (origin === undefined ? vary : (allowed.get(origin) ?? vary));
}

export interface PreflightOptions {
  readonly appIdHeader: string;
  readonly isAllowed: (origin: string | undefined) => boolean;
}

/** Answers a preflight of a listed origin. @returns `false` for all other requests */
export type ServePreflight = (
  arrival: Arrival,
  message: IncomingMessage,
  response: ServerResponse,
) => boolean;

export function createServePreflight({ appIdHeader, isAllowed }: PreflightOptions): ServePreflight {
  const allowed = [
    ["Cache-Status", `${CACHE_NAME}; detail=preflight`],
    ["Access-Control-Allow-Methods", "GET, HEAD"],
    ["Access-Control-Allow-Headers", `${REQUEST_HEADERS}, ${appIdHeader}`],
    ["Access-Control-Max-Age", String(MAX_AGE_SECONDS)],
  ].flat();
  return function servePreflight({ record, corsHeaders = [] }, { method, headers }, response) {
    const { origin, "access-control-request-method": wanted } = headers;
    if (method !== "OPTIONS" || wanted === undefined || !isAllowed(origin)) return false;
    record.outcome = "hit";
    response.writeHead(204, ["X-Request-Id", record.id, ...corsHeaders, ...allowed]).end();
    return true;
  };
}
