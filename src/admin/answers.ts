/** What all answers of the admin port have in common: which parameters a path takes, and indented JSON for people. */
import express, { type Request, type Response, type Router } from "express";

import { type AdminParameter, parametersOf, PRETTY } from "./parameters.ts";

/**
 * Refuses parameters that a path does not take, and indents JSON for people: those who ask for it with `?pretty` or use a
 * browser.
 * @param parameters of each path of the port; other paths are left alone
 */
export function createAnswers(parameters: ReadonlyMap<string, readonly AdminParameter[]>): Router {
  // A router finds the path as the endpoints do: in any case, and with a slash at the end.
  const router = express.Router();
  for (const [path, known] of parameters) {
    router.all(path, (request, response, next) => {
      parametersOf(request, known);
      writeFor(response, indentFor(request));
      next();
    });
  }
  return router;
}

/** @returns by how many spaces JSON is indented for this request. 0: everything in one line */
export function indentFor(request: Request): number {
  const pretty = URL.parse(request.url, "http://admin")?.searchParams.get(PRETTY.name) ?? undefined;
  // A browser that shows the answer prefers HTML.
  const isForPeople =
    pretty === undefined
      ? request.accepts(["application/json", "text/html"]) === "text/html"
      : pretty === "" || pretty === "true";
  return isForPeople ? 2 : 0;
}

function writeFor(response: Response, indent: number): void {
  const end = indent > 0 ? "\n" : "";
  response.json = (body: unknown) =>
    response
      .vary("Accept")
      .type("application/json")
      .send(JSON.stringify(body, undefined, indent) + end);
}
