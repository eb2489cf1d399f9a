/**
 * Parses a query string into the canonical query of its route, or into the list of all its mistakes.
 */
import { PARAMETERS, type Parameter, type Shape } from "../interface/parameters.ts";
import { MAX_IMAGE_HEIGHT, MAX_IMAGE_WIDTH, type SearchResource } from "../interface/resources.ts";
import { nearest } from "../nearest.ts";
import { isCredentialName, shownToCaller } from "./credentials.ts";
import type { Pair, ParameterFault, Query, StreamedQuery, UnknownParameters } from "./query.ts";
import type { Route } from "./route.ts";
import { joinValues, readValue } from "./shapes.ts";
import { readPairs } from "./wire.ts";

export interface ParseOptions {
  readonly unknown: UnknownParameters;
  /** Names of parameters that are always dropped (setting `query.ignored`). */
  readonly ignored: readonly string[];
  /** Replaces the gateway's own secrets in a text by pseudonyms (credentials.ts). */
  readonly conceal: (text: string) => string;
}

export type Parsed<Q> =
  | { readonly ok: true; readonly query: Q }
  | { readonly ok: false; readonly faults: readonly ParameterFault[] };

type KnownRoute = Exclude<Route, { kind: "unknown" }>;

/**
 * Parses a query string into the canonical query of its route.
 * @param search the query string without its `?`, still percent-encoded
 */
export function parseQuery(
  route: KnownRoute,
  search: string,
  options: ParseOptions,
): Parsed<Query | StreamedQuery> {
  const { pairs: readable, undecodable } = readPairs(search);
  const pairs = readable.map(([name, value]): Pair => [options.conceal(name), options.conceal(value)]);
  const counts = ([name]: Pair): boolean => !isCredentialName(name) && !options.ignored.includes(name);
  const faults: ParameterFault[] = undecodable
    .filter((pair) => counts(pair) && !isDroppedAsUnknown(pair, route, options))
    .map(([parameter, value]) => ({
      parameter,
      value,
      expected: "percent-encoded UTF-8",
      hint: "ä is %C3%A4; a percent sign itself is %25",
    }));
  const asked = pairs.filter(counts);
  const query = buildQuery(route, asked, options, faults);
  return faults.length > 0 || query === undefined
    ? { ok: false, faults: faults.map(asShown) }
    : { ok: true, query };
}

function asShown(fault: ParameterFault): ParameterFault {
  return { ...fault, parameter: shownToCaller(fault.parameter), value: shownToCaller(fault.value) };
}

function isDroppedAsUnknown([name]: Pair, route: KnownRoute, { unknown }: ParseOptions): boolean {
  if (unknown !== "drop" || route.kind === "streamed") return false;
  const table: readonly Parameter[] = route.kind === "search" ? PARAMETERS[route.resource] : [];
  return !table.some((parameter) => parameter.name === name);
}

function buildQuery(
  route: KnownRoute,
  pairs: readonly Pair[],
  options: ParseOptions,
  faults: ParameterFault[],
): Query | StreamedQuery | undefined {
  switch (route.kind) {
    case "search":
      return searchQuery(route.resource, pairs, options, faults);
    case "record": {
      const serviceId = readPart("serviceId", route.serviceId, ID, faults);
      const extras = readExtras(pairs, [], options, faults);
      return serviceId === undefined
        ? undefined
        : { kind: "record", resource: route.resource, serviceId, extras };
    }
    case "image": {
      const serviceId = readPart("serviceId", route.serviceId, ID, faults);
      const width = readPart("width", route.width, { kind: "integer", min: 1, max: MAX_IMAGE_WIDTH }, faults);
      const height = readPart(
        "height",
        route.height,
        { kind: "integer", min: 1, max: MAX_IMAGE_HEIGHT },
        faults,
      );
      const extras = readExtras(pairs, [], options, faults);
      if (serviceId === undefined || width === undefined || height === undefined) return undefined;
      return {
        kind: "image",
        resource: "images",
        serviceId,
        width: Number(width),
        height: Number(height),
        extras,
      };
    }
    case "streamed":
      return { ...route, path: concealedPath(route.path, options), extras: sortedByName(pairs) };
  }
}

function concealedPath(path: string, { conceal }: ParseOptions): string {
  const parts = path.split("/").map((part) => {
    const decoded = decodeURIComponent(part);
    const concealed = conceal(decoded);
    return concealed === decoded ? part : encodeURIComponent(concealed);
  });
  return parts.join("/");
}

const ID: Shape = { kind: "integer", min: 0 };

/** Reads a required value from the path. */
function readPart(name: string, raw: string, shape: Shape, faults: ParameterFault[]): string | undefined {
  const reading = readValue(shape, raw);
  if (reading.ok && reading.text !== undefined) return reading.text;
  faults.push({ parameter: name, value: raw, expected: reading.ok ? "a whole number" : reading.expected });
  return undefined;
}

function searchQuery(
  resource: SearchResource,
  pairs: readonly Pair[],
  options: ParseOptions,
  faults: ParameterFault[],
): Query {
  const table: readonly Parameter[] = PARAMETERS[resource];
  const values = readParameters(table, pairs, faults);
  dropRedundant(table, values);
  const isGiven = (name: string): boolean =>
    values.has(name) || faults.some(({ parameter }) => parameter === name);
  for (const { name, requires } of table) {
    const value = values.get(name);
    if (value !== undefined && requires !== undefined && !isGiven(requires)) {
      faults.push({ parameter: name, value, expected: `to be given together with ${requires}` });
    }
  }
  const limit = values.get("limit");
  const hasOffset = table.some(({ name }) => name === "offset");
  return {
    kind: "search",
    resource,
    filters: [...values].filter(([name]) => name !== "limit" && name !== "offset"),
    extras: readExtras(pairs, table, options, faults),
    limit: limit === undefined ? undefined : Number(limit),
    offset: hasOffset ? Number(values.get("offset") ?? "0") : undefined,
  };
}

/** @returns the canonical values of the documented parameters, in the order of the table */
function readParameters(
  table: readonly Parameter[],
  pairs: readonly Pair[],
  faults: ParameterFault[],
): Map<string, string> {
  const values = new Map<string, string>();
  for (const { name, shape } of table) {
    const given = pairs.filter((pair) => pair[0] === name).map((pair) => pair[1]);
    const texts: string[] = [];
    for (const raw of given) {
      const reading = readValue(shape, raw);
      if (!reading.ok) faults.push(faultOf(name, raw, reading));
      else if (reading.text !== undefined) texts.push(reading.text);
    }
    const joined = joinValues(shape, texts);
    if (joined !== undefined) values.set(name, joined);
    else if (texts.length > 0) {
      faults.push({ parameter: name, value: given.join(" and "), expected: "one value: it was given twice" });
    }
  }
  return values;
}

function faultOf(name: string, raw: string, reading: { expected: string; hint?: string }): ParameterFault {
  const { expected, hint } = reading;
  return { parameter: name, value: raw, expected, ...(hint !== undefined && { hint }) };
}

/** Removes parameters that change nothing: those with their default, and those whose `onlyWith` is absent. */
function dropRedundant(table: readonly Parameter[], values: Map<string, string>): void {
  for (const { name, sameAsAbsent, onlyWith } of table) {
    const isDefault = sameAsAbsent !== undefined && values.get(name) === sameAsAbsent;
    const hasNoEffect = onlyWith !== undefined && !values.has(onlyWith);
    if (isDefault || hasNoEffect) values.delete(name);
  }
}

/**
 * Reads the parameters that the interface does not document. Their meaning is unknown, so only their percent-encoding and
 * their order by name are normalised.
 */
function readExtras(
  pairs: readonly Pair[],
  table: readonly Parameter[],
  options: ParseOptions,
  faults: ParameterFault[],
): readonly Pair[] {
  const known = table.map(({ name }) => name);
  const extras = pairs.filter(([name]) => !known.includes(name));
  if (options.unknown === "drop") return [];
  if (options.unknown === "reject") {
    for (const [name, value] of extras) {
      const near = nearest(name, known);
      faults.push({
        parameter: name,
        value,
        expected: "a documented parameter",
        ...(near !== undefined && { hint: `did you mean ${near}?` }),
      });
    }
  }
  return sortedByName(extras);
}

/** A stable sort, because the order of repeated parameters may matter. */
function sortedByName(pairs: readonly Pair[]): Pair[] {
  return pairs.toSorted(([a], [b]) => (a < b ? -1 : Number(a > b)));
}
