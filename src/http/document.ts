/** Serves the OpenAPI document of the callers' port, without an upstream call. */
import { hash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";

import type { Arrival } from "./arrive.ts";
import { noneMatchNames } from "./negotiate.ts";
import { CACHE_NAME } from "./problem-response.ts";

const MAX_AGE_SECONDS = 300;

/** Sends the document. */
export type ServeDocument = (arrival: Arrival, message: IncomingMessage, response: ServerResponse) => void;

export function createServeDocument(document: object): ServeDocument {
  const body = Buffer.from(JSON.stringify(document));
  const tag = hash("sha256", body, "base64url").slice(0, 22);
  return function serveDocument(arrival, message, response) {
    arrival.record.outcome = "hit";
    const headers = {
      "X-Request-Id": arrival.record.id,
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
      return;
    }
    arrival.record.bytes = message.method === "HEAD" ? 0 : body.length;
    response.writeHead(200, {
      ...headers,
      "Content-Type": "application/json",
      "Content-Length": String(body.length),
    });
    response.end(body);
  };
}
