/** What requests on the admin port name: parameters, and URLs of the callers' port. */
import type { Request } from "express";

import { Problem } from "../errors.ts";
import type { Format } from "../interface/media-types.ts";
import type { ParseOptions } from "../query/parse.ts";
import type { Query } from "../query/query.ts";
import type { Route } from "../query/route.ts";
import { splitTarget } from "../query/wire.ts";
import { meaningOf } from "../http/understand.ts";

/** What an operator is told who has asked wrongly. */
export function mistake(detail: string): Problem {
  return new Problem("invalid-admin-request", { detail });
}

/**
 * @returns the parameters of a request
 * @throws {Problem} `invalid-admin-request` where one is not known, or is there twice: what is silently ignored is
 *   believed to work
 */
export function parametersOf({ url }: Request, names: readonly string[]): ReadonlyMap<string, string> {
  const parameters = new Map<string, string>();
  for (const [name, value] of new URL(url, "http://admin").searchParams) {
    if (!names.includes(name)) {
      const known = `Known: ${names.join(", ")}`;
      const hint = names.includes("url") ? " Percent-encode the whole URL." : "";
      throw mistake(`Unknown parameter ${JSON.stringify(name.slice(0, 100))}. ${known}.${hint}`);
    }
    if (parameters.has(name)) throw mistake(`Give the parameter ${name} once.`);
    parameters.set(name, value);
  }
  return parameters;
}

/** @returns a parameter's value, `undefined` where it is absent or empty */
export function optionalParameter(request: Request, name: string): string | undefined {
  return new URL(request.url, "http://admin").searchParams.get(name) || undefined;
}

/** @throws {Problem} `invalid-admin-request` where it is absent */
export function parameter(request: Request, name: string): string {
  const value = optionalParameter(request, name);
  if (value === undefined) {
    throw mistake(`Give the parameter ${name}, percent-encoded.`);
  }
  return value;
}

/** `format=v2` asks for answers frozen to version 2; they have entries of their own. */
export function formatOf(request: Request): "json" | "v2" {
  return optionalParameter(request, "format") === "v2" ? "v2" : "json";
}

export interface Understanding {
  readonly route: (path: string) => Route;
  readonly parse: ParseOptions;
}

/**
 * @returns what a URL of the callers' port asks for
 * @throws {Problem} `invalid-query` where it has a mistake, `invalid-admin-request` where nothing at it is
 *   ever kept
 */
export function askedFor(
  url: string,
  jsonFormat: Format,
  { route, parse }: Understanding,
): { text: string; key: string; query: Query } {
  const { path, search } = splitTarget(url);
  const to = route(path);
  if (to.kind === "unknown" || to.kind === "streamed") {
    throw mistake("Answers at this URL are never cached.");
  }
  const format = to.kind === "image" ? "jpeg" : jsonFormat;
  const { text, key, query } = meaningOf({ route: to, search, format }, parse);
  if (query.kind === "streamed") throw new Problem("internal-error");
  return { text, key, query };
}
