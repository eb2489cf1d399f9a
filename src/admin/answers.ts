/** Rules for all answers of the admin port: unknown parameters are refused, and people get readable JSON. */
import express, { type Request, type Response, type Router } from "express";

import { type AdminParameter, parametersOf, PRETTY, searchOf } from "./parameters.ts";

/**
 * Refuses parameters that a path does not have. Writes JSON with line breaks if the request has `?pretty` or comes from a
 * browser.
 * @param parameters of each path of the port; requests for other paths pass unchanged
 */
export function createAnswers(parameters: ReadonlyMap<string, readonly AdminParameter[]>): Router {
  // A router finds the path as the endpoints do: in any case, and with a slash at the end.
  const router = express.Router();
  for (const [path, known] of parameters) {
    router.all(path, (request, response, next) => {
      parametersOf(request, known);
      indentJson(response, indentFor(request));
      next();
    });
  }
  return router;
}

/** @returns by how many spaces JSON is indented for this request. 0: everything in one line */
export function indentFor(request: Request): number {
  const pretty = searchOf(request).get(PRETTY.name) ?? undefined;
  // Only a browser that shows the answer prefers HTML to JSON.
  const isForPeople =
    pretty === undefined
      ? request.accepts(["application/json", "text/html"]) === "text/html"
      : pretty === "" || pretty === "true";
  return isForPeople ? 2 : 0;
}

function indentJson(response: Response, indent: number): void {
  const end = indent > 0 ? "\n" : "";
  response.json = (body: unknown) =>
    response
      .vary("Accept")
      .type("application/json")
      .send(JSON.stringify(body, undefined, indent) + end);
}
