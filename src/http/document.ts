/** Serves the OpenAPI document of the callers' port, without an upstream call. */
import { hash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";

import { Problem } from "../errors.ts";
import { splitTarget } from "../query/wire.ts";
import type { Arrival } from "./arrive.ts";
import { checkHead, type HeadLimits } from "./request-validation.ts";
import { noneMatchNames } from "./negotiate.ts";
import { CACHE_NAME } from "./problem-response.ts";

const PATH = "/openapi.json";
const MAX_AGE_SECONDS = 300;

/** Answers a request for the document. @returns `false` for all other requests */
export type ServeDocument = (arrival: Arrival, message: IncomingMessage, response: ServerResponse) => boolean;

/** @returns the stage. The stage throws a `Problem` for a request for the document that it refuses. */
export function createServeDocument(document: object, head: HeadLimits): ServeDocument {
  const body = Buffer.from(JSON.stringify(document));
  const tag = hash("sha256", body, "base64url").slice(0, 22);
  return function serveDocument(arrival, message, response) {
    const { url = "/" } = message;
    if (!url.includes(PATH) || splitTarget(url).path !== PATH) return false;
    checkHead(message, head);
    if (message.method !== "GET" && message.method !== "HEAD") {
      throw new Problem("method-not-allowed", { headers: { Allow: "GET, HEAD" } });
    }
    arrival.outcome = "hit";
    const headers = {
      "X-Request-Id": arrival.id,
      "Cache-Status": `${CACHE_NAME}; hit`,
      Age: "0",
      "Cache-Control": `max-age=${MAX_AGE_SECONDS}`,
      ETag: `"${tag}"`,
    };
    const { corsHeaders = [] } = arrival;
    for (let at = 0; at < corsHeaders.length; at += 2)
      response.setHeader(corsHeaders[at] ?? "", corsHeaders[at + 1] ?? "");
    if (noneMatchNames(message.headers["if-none-match"], [tag])) {
      response.writeHead(304, headers).end();
      return true;
    }
    arrival.bytes = message.method === "HEAD" ? 0 : body.length;
    response.writeHead(200, {
      ...headers,
      "Content-Type": "application/json",
      "Content-Length": String(body.length),
    });
    response.end(body);
    return true;
  };
}
