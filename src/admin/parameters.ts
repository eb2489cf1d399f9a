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

/** A query parameter of the admin port: what is validated is also what the OpenAPI document shows. */
export interface AdminParameter {
  readonly name: string;
  readonly meaning: string;
  readonly example: string;
  readonly required?: true;
  readonly values?: readonly string[];
}

/** Parameters that several paths take. */
export const URL_PARAMETER: AdminParameter = {
  name: "url",
  meaning: "URL or path on the callers' port, percent-encoded as a whole",
  example: "/listings?areaId=76",
  required: true,
};
export const FORMAT_PARAMETER: AdminParameter = {
  name: "format",
  meaning: "v2 asks about the answer frozen to version 2, which is cached apart",
  example: "v2",
};

/**
 * @returns the parameters of a request
 * @throws {Problem} `invalid-admin-request` where one is not known, or is there twice: what is silently ignored is
 *   believed to work
 */
export function parametersOf(
  { url }: Request,
  known: readonly AdminParameter[],
): ReadonlyMap<string, string> {
  const names = known.map(({ name }) => name);
  const parameters = new Map<string, string>();
  for (const [name, value] of new URL(url, "http://admin").searchParams) {
    if (!names.includes(name)) {
      const allowed = `${names.slice(0, -1).join(", ")} and ${names.at(-1)} are`;
      const hint = names.includes("url") ? " A URL that is asked about has to be percent-encoded whole." : "";
      throw mistake(`There is no parameter ${JSON.stringify(name.slice(0, 100))}; ${allowed}.${hint}`);
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
    throw mistake("Nothing at this URL is ever kept.");
  }
  const format = to.kind === "image" ? "jpeg" : jsonFormat;
  const { text, key, query } = meaningOf({ route: to, search, format }, parse);
  if (query.kind === "streamed") throw new Problem("internal-error");
  return { text, key, query };
}
