/**
 * Reads the query parameters of admin requests: words, instants, and URLs of the callers' port.
 */
import type { Request } from "express";

import { Problem } from "../errors.ts";
import { parseRequest } from "../http/understand.ts";
import type { Format } from "../interface/media-types.ts";
import type { Pages } from "../pages/pages.ts";
import type { ParseOptions } from "../query/parse.ts";
import type { Query } from "../query/query.ts";
import type { Route } from "../query/route.ts";
import { splitTarget } from "../query/wire.ts";

/** @returns the problem of a malformed admin request */
export function mistake(detail: string): Problem {
  return new Problem("invalid-admin-request", { detail });
}

/** A query parameter of the admin port. The handlers validate it, and the OpenAPI document describes it. */
export interface AdminParameter {
  readonly name: string;
  readonly meaning: string;
  readonly example: string;
  readonly required?: true;
  readonly values?: readonly string[];
}

/** Every path accepts it. */
export const PRETTY: AdminParameter = {
  name: "pretty",
  meaning:
    "true or no value: JSON with line breaks; false: JSON in one line. Browsers get line breaks by default",
  example: "true",
  values: ["true", "false", ""],
};

/** Parameters of several paths. */
export const URL_PARAMETER: AdminParameter = {
  name: "url",
  meaning: "URL or path on the callers' port, percent-encoded as a whole",
  example: "/listings?areaId=76",
  required: true,
};
export const FORMAT_PARAMETER: AdminParameter = {
  name: "format",
  meaning: "v2: the answer frozen to version 2, which is cached separately",
  example: "v2",
  values: ["json", "v2"],
};

/**
 * Reads all parameters of a request.
 * @throws {Problem} `invalid-admin-request` if one is unknown or repeated, or has none of its possible values. An operator
 *   would believe that an ignored parameter works.
 */
export function parametersOf(
  { url }: Request,
  allowed: readonly AdminParameter[],
): ReadonlyMap<string, string> {
  const known = [...allowed, PRETTY];
  const names = known.map(({ name }) => name);
  const parameters = new Map<string, string>();
  for (const [name, value] of searchOf({ url })) {
    if (!names.includes(name)) {
      const others = `Known: ${names.join(", ")}`;
      const hint = names.includes("url") ? " Percent-encode the whole URL." : "";
      throw mistake(`Unknown parameter ${JSON.stringify(name.slice(0, 100))}. ${others}.${hint}`);
    }
    if (parameters.has(name)) throw mistake(`Give the parameter ${name} once.`);
    const { values } = known.find((one) => one.name === name) ?? {};
    if (values?.includes(value) === false) throw mistake(`The parameter ${name} must be ${orList(values)}.`);
    parameters.set(name, value);
  }
  return parameters;
}

/** @returns for example `app, resource or hour` */
function orList(words: readonly string[]): string {
  const named = words.map((word) => word || "empty");
  return `${named.slice(0, -1).join(", ")} or ${named.at(-1)}`;
}

/**
 * @throws {Problem} `invalid-admin-request` if a JSON body has an unknown member. An operator would believe that an ignored
 *   member works.
 */
export function refuseUnknownMembers(body: unknown, known: readonly string[]): void {
  if (typeof body !== "object" || body === null) return;
  const unknown = Object.keys(body).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw mistake(`Unknown member ${JSON.stringify(unknown.slice(0, 100))}. Known: ${known.join(", ")}.`);
}

/** The query of a request's target. Any target has one: `//` and `http://x:99999/` are no URLs, but may be sent. */
export function searchOf({ url }: Pick<Request, "url">): URLSearchParams {
  const [beforeFragment = ""] = url.split("#", 1);
  const mark = beforeFragment.indexOf("?");
  return new URLSearchParams(mark === -1 ? "" : beforeFragment.slice(mark + 1));
}

/** @returns the value of a parameter, `undefined` if it is absent or empty */
export function optionalParameter(request: Request, name: string): string | undefined {
  return searchOf(request).get(name) || undefined;
}

/** @throws {Problem} `invalid-admin-request` if the parameter is absent */
export function parameter(request: Request, name: string): string {
  const value = optionalParameter(request, name);
  if (value === undefined) {
    throw mistake(`Give the parameter ${name}, percent-encoded.`);
  }
  return value;
}

export function formatOf(request: Request): "json" | "v2" {
  return optionalParameter(request, "format") === "v2" ? "v2" : "json";
}

/** What is needed to interpret a URL of the callers' port. */
export interface Understanding {
  readonly route: (path: string) => Route;
  readonly parse: ParseOptions;
  /** Finds the blocks that an answer is cut from. */
  readonly pages: Pick<Pages, "sourceOf" | "blockKeysOf">;
}

/**
 * Interprets a URL of the callers' port.
 * @throws {Problem} `invalid-query` if the URL has a mistake, `invalid-admin-request` if its answers are never cached
 */
export function askedFor(
  url: string,
  jsonFormat: Format,
  { route, parse }: Understanding,
): { canonicalQuery: string; key: string; query: Query } {
  const { path, search } = splitTarget(url);
  const to = route(path);
  if (to.kind === "unknown" || to.kind === "streamed") {
    throw mistake("Answers at this URL are never cached.");
  }
  const format = to.kind === "image" ? "jpeg" : jsonFormat;
  const { canonicalQuery, key, query } = parseRequest({ route: to, search, format }, parse);
  if (query.kind === "streamed") throw new Problem("internal-error");
  return { canonicalQuery, key, query };
}

const MS_PER_UNIT: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** A time ago, such as `-24h`. */
const AGO = /^-(\d{1,9})([smhd])$/;
/** Only these lengths, because `2026` and `20261121` are dates, not epoch seconds. */
const EPOCH_SECONDS = /^(?:0|\d{9,11})$/;
/** ISO 8601 and RFC 3339: a day, and an instant with its offset. */
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const INSTANT = /^(\d{4}-\d{2}-\d{2})T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/;

/** The forms that `parseInstant` reads, for error messages. */
export const INSTANT_FORMS =
  "an instant with its offset (2026-11-21T07:00Z), a day (2026-11-21), a time ago (-24h, -7d), or epoch seconds";

/**
 * Reads an instant. A day means its beginning in UTC.
 * @param text the decoded parameter. If the plus sign of an offset was not encoded, it is a space here.
 * @param now epoch milliseconds
 * @returns epoch milliseconds, not before 1970; `undefined` if the text is not an instant
 */
function parseInstant(text: string, now: number): number | undefined {
  const at = readInstant(text, now);
  return at !== undefined && at >= 0 ? at : undefined;
}

/**
 * Reads the parameters `from` and `to`.
 * @throws {Problem} `invalid-admin-request`
 */
export function periodIn(
  parameters: ReadonlyMap<string, string>,
  now: number,
): { readonly from: number; readonly to: number } {
  const instant = (name: string): number | undefined => {
    const text = parameters.get(name);
    if (text === undefined) return undefined;
    const at = parseInstant(text, now);
    if (at === undefined) throw mistake(`The parameter ${name} must be ${INSTANT_FORMS}.`);
    return at;
  };
  const to = instant("to") ?? now;
  const from = instant("from") ?? to - DEFAULT_PERIOD_MS;
  if (from >= to) throw mistake("The parameter from must be before to.");
  return { from, to };
}

const DEFAULT_PERIOD_MS = 86_400_000;

function readInstant(text: string, now: number): number | undefined {
  const [, count, unit = ""] = AGO.exec(text) ?? [];
  if (count !== undefined) return now - Number(count) * (MS_PER_UNIT[unit] ?? Number.NaN);
  if (EPOCH_SECONDS.test(text)) return Number(text) * 1_000;
  if (DAY.test(text)) return midnight(text);
  const written = text.toUpperCase().replace(/ (?=\d{2}:\d{2}$)/, "+");
  const [, day] = INSTANT.exec(written) ?? [];
  if (day === undefined || midnight(day) === undefined) return undefined;
  const at = Date.parse(written);
  return Number.isNaN(at) ? undefined : at;
}

/** @returns `undefined` if there is no such day. `Date.parse` would read February 30 as March 2. */
function midnight(day: string): number | undefined {
  const at = Date.parse(day);
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(day) ? at : undefined;
}
