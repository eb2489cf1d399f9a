/** Rules for all answers of the admin port: unknown parameters are refused, and people get readable JSON. */
import type { Request, RequestHandler, Response } from "express";

import { type AdminParameter, parametersOf, PRETTY, splitUrl } from "./parameters.ts";

/**
 * Refuses parameters that a path does not have. Writes JSON with line breaks if the request has `?pretty` or comes from a
 * browser.
 * @param parameters of each path of the port; requests for other paths pass unchanged
 */
export function createAnswers(parameters: ReadonlyMap<string, readonly AdminParameter[]>): RequestHandler {
  return (request, response, next) => {
    const known = parameters.get(splitUrl(request).pathname);
    if (known === undefined) return next();
    const values = parametersOf(request, known);
    indentJson(response, isForPeople(request, values.get(PRETTY.name)) ? 2 : 0);
    next();
  };
}

/** Only a browser that shows the answer prefers HTML to JSON. */
function isForPeople(request: Request, pretty: string | undefined): boolean {
  if (pretty !== undefined) return pretty === "" || pretty === "true";
  return request.accepts(["application/json", "text/html"]) === "text/html";
}

function indentJson(response: Response, indent: number): void {
  const end = indent > 0 ? "\n" : "";
  response.json = (body: unknown) =>
    response
      .vary("Accept")
      .type("application/json")
      .send(JSON.stringify(body, undefined, indent) + end);
}
