/**
 * The machinery of the admin port: an endpoint says its method, path, parameters and body, and answers what it was asked.
 * Zod checks what was asked. Unknown parameters and members are refused, because an operator would believe that they work.
 */
import express, { type Express, type Request, type RequestHandler, type Response } from "express";
import { z } from "zod";

import { Problem } from "../errors.ts";

export interface Endpoint {
  readonly method: "GET" | "POST";
  readonly path: string;
  /** @returns a JSON value; nothing if it has written the response itself */
  readonly answer: (request: Request, response: Response) => unknown;
}

/** Every path accepts it, with any value: JSON with line breaks. Browsers get line breaks without it. */
const PRETTY = { pretty: z.string().optional() };

type Answer<Given> = (given: Given, request: Request, response: Response) => unknown;

export function get<Shape extends z.ZodRawShape>(
  path: string,
  shape: Shape,
  answer: Answer<z.output<z.ZodObject<Shape & typeof PRETTY>>>,
): Endpoint {
  const schema = z.strictObject({ ...shape, ...PRETTY });
  return {
    method: "GET",
    path,
    answer: (request, response) => answer(checked(schema, request.query, "parameter"), request, response),
  };
}

export function post<Body extends z.ZodType>(
  path: string,
  body: Body,
  answer: Answer<z.output<Body>>,
): Endpoint {
  const checkAndAnswer: Answer<unknown> = (_query, request, response) =>
    answer(checked(body, request.body ?? {}, "member"), request, response);
  return { ...get(path, {}, checkAndAnswer), method: "POST" };
}

const readJson = express.json({ limit: "16kb", type: () => true });

/**
 * Adds endpoints to the server. Other methods at their paths get 405 (RFC 9110, section 15.5.6).
 * @param redact removes secrets, which a caller may have written into a query
 */
export function mount(app: Express, redact: (text: string) => string, endpoints: readonly Endpoint[]): void {
  for (const { method, path, answer } of endpoints) {
    const route = app.route(path);
    const handle: RequestHandler = async (request, response) => {
      const json = await answer(request, response);
      if (response.headersSent) return;
      const indent = indentFor(request);
      const text = JSON.stringify(json, undefined, indent) + (indent > 0 ? "\n" : "");
      response.vary("Accept").type("application/json").send(redact(text));
    };
    // Express answers HEAD as GET.
    if (method === "GET") route.get(handle);
    else route.post(readJson, handle);
    const methods = method === "GET" ? ["GET", "HEAD"] : ["POST"];
    route.all(() => {
      throw new Problem("method-not-allowed", {
        remedy: `Use ${methods.join(" or ")} at this path.`,
        headers: { Allow: methods.join(", ") },
      });
    });
  }
}

/** @returns by how many spaces JSON is indented for this request. 0: everything in one line */
export function indentFor(request: Request): number {
  // Only a browser that shows the answer prefers HTML to JSON.
  const isForBrowser = request.accepts(["application/json", "text/html"]) === "text/html";
  return isForBrowser || "pretty" in request.query ? 2 : 0;
}

/** @returns the problem of a malformed admin request */
export function mistake(detail: string): Problem {
  return new Problem("invalid-admin-request", { detail });
}

/** A mistake may contain what was sent. */
const MOST_CHARACTERS = 300;

function checked<Schema extends z.ZodType>(schema: Schema, value: unknown, word: string): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const mistakes = result.error.issues.map(({ path, message }) => `${[word, ...path].join(" ")}: ${message}`);
  throw mistake(mistakes.join(". ").slice(0, MOST_CHARACTERS));
}
