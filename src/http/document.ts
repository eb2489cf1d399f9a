/** Serves documents that do not change while the process runs, without an upstream call. */
import { hash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";

import Negotiator from "negotiator";

import { Problem } from "../errors.ts";
import type { TypedText } from "../interface/media-types.ts";
import type { Arrival } from "./arrive.ts";
import { noneMatchNames } from "./negotiate.ts";
import { CACHE_NAME } from "./problem-response.ts";

const MAX_AGE_SECONDS = 300;

/** Sends the document. */
export type ServeDocument = (arrival: Arrival, message: IncomingMessage, response: ServerResponse) => void;

/** @param versions the first is preferred. With several, `Accept` chooses. */
export function createServeDocument(versions: readonly TypedText[]): ServeDocument {
  const byType = new Map(
    versions.map(({ type, text, headers }) => {
      const body = Buffer.from(text);
      return [
        type.split(";", 1)[0] ?? "",
        { body, tag: hash("sha256", body, "base64url").slice(0, 22), type, headers },
      ];
    }),
  );

  return function serveDocument(arrival, message, response) {
    const types = [...byType.keys()];
    const { accept = "*/*" } = message.headers;
    const chosen = versions.length > 1 ? new Negotiator({ headers: { accept } }).mediaType(types) : types[0];
    const version = byType.get(chosen ?? "");
    if (version === undefined) throw new Problem("not-acceptable");
    arrival.record.outcome = "hit";
    const headers = {
      "X-Request-Id": arrival.record.id,
      "Cache-Status": `${CACHE_NAME}; hit`,
      Age: "0",
      "Cache-Control": `max-age=${MAX_AGE_SECONDS}`,
      ETag: `"${version.tag}"`,
      ...version.headers,
    };
    if (versions.length > 1) response.setHeader("Vary", "Accept");
    const { corsHeaders = [] } = arrival;
    for (let at = 0; at < corsHeaders.length; at += 2)
      response.appendHeader(corsHeaders[at] ?? "", corsHeaders[at + 1] ?? "");
    if (noneMatchNames(message.headers["if-none-match"], [version.tag])) {
      response.writeHead(304, headers).end();
      return;
    }
    arrival.record.bytes = message.method === "HEAD" ? 0 : version.body.length;
    response.writeHead(200, {
      ...headers,
      "Content-Type": version.type,
      "Content-Length": String(version.body.length),
    });
    response.end(version.body);
  };
}
