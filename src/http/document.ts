/** Serves documents that do not change while the process runs, without an upstream call. */
import type { Request, Response } from "express";

import { Problem } from "../errors.ts";
import { entityTagOf } from "../http-fields.ts";
import type { TypedText } from "../interface/media-types.ts";
import type { Arrival } from "./arrive.ts";
import { CACHE_NAME } from "./problem-response.ts";

const LIFETIME = "max-age=300";

/** @param versions the first is preferred. With several, `Accept` chooses. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createServeDocument(versions: readonly TypedText[]) {
  const types = versions.map(({ type }) => type);
  const hasChoice = versions.length > 1;

  return ({ record, corsHeaders }: Arrival, request: Request, response: Response): void => {
    const chosen = hasChoice ? request.accepts(types) : types[0];
    const version = versions.find(({ type }) => type === chosen);
    if (version === undefined) throw new Problem("not-acceptable");
    record.outcome = "hit";
    const body = Buffer.from(version.text);
    response
      .set({ "X-Request-Id": record.id, "Cache-Status": `${CACHE_NAME}; hit`, Age: "0" })
      .set({ "Cache-Control": LIFETIME, ETag: `"${entityTagOf(body)}"`, ...version.headers })
      // Express' `set` would add a character set.
      .setHeader("Content-Type", version.type);
    for (let at = 0; at < corsHeaders.length; at += 2)
      response.set(corsHeaders[at] ?? "", corsHeaders[at + 1]);
    if (hasChoice) response.vary("Accept");
    // Express sends 304 if the caller already has the document, and no body to HEAD.
    response.send(body);
    const hasBody = request.method === "GET" && response.statusCode === 200;
    record.bytes = hasBody ? body.length : 0;
  };
}
