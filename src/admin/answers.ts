/** What all answers of the admin port have in common: which parameters a path takes, and JSON for people. */
import express, { type Request, type Response, type Router } from "express";

import { type AdminParameter, parametersOf, PRETTY } from "./parameters.ts";

/**
 * Refuses parameters that a path does not take, and makes JSON readable for people who ask for that by `?pretty` or with a
 * browser.
 * @param parameters of each path of the port; other paths are left alone
 */
export function createAnswers(parameters: ReadonlyMap<string, readonly AdminParameter[]>): Router {
  // A router finds the path as the endpoints do: in any case, and with a slash at the end.
  const router = express.Router();
  for (const [path, known] of parameters) {
    router.all(path, (request, response, next) => {
      const given = parametersOf(request, known);
      writeFor(response, isForPeople(request, given.get(PRETTY.name)) ? 2 : 0);
      next();
    });
  }
  return router;
}

/** A browser that shows the answer prefers HTML. */
function isForPeople(request: Request, pretty: string | undefined): boolean {
  if (pretty !== undefined) return pretty === "" || pretty === "true";
  return request.accepts(["application/json", "text/html"]) === "text/html";
}

function writeFor(response: Response, indent: number): void {
  const end = indent > 0 ? "\n" : "";
  response.json = (body: unknown) =>
    response
      .vary("Accept")
      .type("application/json")
      .send(JSON.stringify(body, undefined, indent) + end);
}
