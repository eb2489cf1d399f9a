/** Serves documents that do not change while the process runs, without an upstream call. */
import Negotiator from "negotiator";

import { Problem } from "../errors.ts";
import type { TypedText } from "../interface/media-types.ts";
import type { Arrival } from "./arrive.ts";
import { entityTagOf } from "../http-fields.ts";
import { noneMatchNames } from "./negotiate.ts";
import { CACHE_NAME } from "./problem-response.ts";

const LIFETIME = "max-age=300";

/** Sends the document. */
export type ServeDocument = (arrival: Arrival) => void;

/** @param versions the first is preferred. With several, `Accept` chooses. */
export function createServeDocument(versions: readonly TypedText[]): ServeDocument {
  const ready = versions.map(({ type, text, headers = {} }) => {
    const tag = entityTagOf(text);
    const fixed = Object.entries({ "Cache-Control": LIFETIME, ETag: `"${tag}"`, ...headers }).flat();
    return { type, body: Buffer.from(text), tag, fixed };
  });
  const types = versions.map(({ type }) => type.split(";", 1)[0] ?? "");

  return function serveDocument({ record, corsHeaders, message, response }) {
    const { method, headers } = message;
    const { accept = "*/*" } = headers;
    const chosen = types.length > 1 ? new Negotiator({ headers: { accept } }).mediaType(types) : types[0];
    const version = ready[types.indexOf(chosen ?? "")];
    if (version === undefined) throw new Problem("not-acceptable");
    record.outcome = "hit";
    const { type, body, tag, fixed } = version;
    const head = ["X-Request-Id", record.id, "Cache-Status", `${CACHE_NAME}; hit`, "Age", "0", ...fixed];
    if (types.length > 1) head.push("Vary", "Accept");
    head.push(...corsHeaders);
    if (noneMatchNames(headers["if-none-match"], [tag])) return void response.writeHead(304, head).end();
    record.bytes = method === "HEAD" ? 0 : body.length;
    response.writeHead(200, [...head, "Content-Type", type, "Content-Length", String(body.length)]).end(body);
  };
}
