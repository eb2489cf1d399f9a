/**
 * CORS (Fetch standard): web pages of the origins in `server.corsOrigins` may call the gateway from a browser, without
 * cookies. The gateway answers a preflight here, without an upstream call.
 */
import type { Config } from "../config/config.ts";
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

export type Cors = ReturnType<typeof createCors>;

/** @param corsOrigins the origins whose web pages may call the gateway */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createCors({
  corsOrigins,
  appIdHeader,
}: Pick<Config["server"], "corsOrigins" | "appIdHeader">) {
  // Every response has it, also one to a request without `Origin`: a shared cache must not serve that one to a web page.
  const others = corsOrigins.length === 0 ? [] : ["Vary", "Origin"];
  const allowed = new Map(
    corsOrigins.map((origin) => [
      origin,
      [...others, "Access-Control-Allow-Origin", origin, "Access-Control-Expose-Headers", RESPONSE_HEADERS],
    ]),
  );
  const preflight = [
    ["Cache-Status", `${CACHE_NAME}; detail=preflight`],
    ["Access-Control-Allow-Methods", "GET, HEAD"],
    ["Access-Control-Allow-Headers", `${REQUEST_HEADERS}, ${appIdHeader}`],
    ["Access-Control-Max-Age", String(MAX_AGE_SECONDS)],
  ].flat();
  return {
    /** @returns the CORS headers of a response, alternating names and values */
    headersFor: (origin = ""): readonly string[] => allowed.get(origin) ?? others,
    /** Answers a preflight of a listed origin. @returns `false` for all other requests */
    servePreflight({ record, message: { method, headers }, response }: Arrival): boolean {
      const { origin = "", "access-control-request-method": wanted } = headers;
      const ofOrigin = allowed.get(origin);
      if (method !== "OPTIONS" || wanted === undefined || ofOrigin === undefined) return false;
      record.outcome = "hit";
      response.writeHead(204, ["X-Request-Id", record.id, ...ofOrigin, ...preflight]).end();
      return true;
    },
  };
}
