/**
 * Parses a query string into the canonical query of its route, or into the list of all its mistakes.
 *
 * | Parameter                                                       | Result                            |
 * |-----------------------------------------------------------------|-----------------------------------|
 * | documented for the resource                                     | read by its shape (values.ts)     |
 * | named like a credential (credentials.ts), or in `query.ignore`  | dropped                           |
 * | in `query.allow`; any with `query.unknown: forward`             | sent to the upstream unchanged    |
 * | any other without a value                                       | dropped                           |
 * | any other                                                       | a mistake                         |
 *
 * A path that is passed through has no documented parameters, so all of them are sent unchanged except the dropped ones.
 */
import type { Config } from "../config/config.ts";
import { MOST_ERRORS } from "../errors.ts";
import { PARAMETERS, type Parameter } from "../interface/parameters.ts";
import { SEARCH_RESOURCES, type SearchResource } from "../interface/resources.ts";
import { nearest } from "../interface/intended-name.ts";
import { isCredentialName } from "./credentials.ts";
import type { Pair, ParameterFault, Query, StreamedQuery } from "./query.ts";
import type { KnownRoute } from "./route.ts";
import { joinItems, meansAbsent, readValue } from "./parse-values.ts";
import { readPairs } from "./wire.ts";

/** The settings of `query`. */
export type ParseOptions = Config["query"];

export type Parsed =
  | { readonly ok: true; readonly query: Query | StreamedQuery }
  | { readonly ok: false; readonly faults: readonly ParameterFault[] };

/** A query string that is being parsed. Each step adds the mistakes that it finds. */
interface Parsing {
  /** The documented parameters of the route. */
  readonly table: readonly Parameter[];
  readonly pairs: readonly Pair[];
  readonly options: ParseOptions;
  readonly faults: ParameterFault[];
}

/**
 * Parses a query string into the canonical query of its route.
 * @param search the query string without its `?`, still percent-encoded
 */
export function parseQuery(route: KnownRoute, search: string, options: ParseOptions): Parsed {
  const table: readonly Parameter[] = route.kind === "search" ? PARAMETERS[route.resource] : [];
  const { pairs, undecodable } = readPairs(search);
  const counts = ([name]: Pair): boolean => isIn(table, name) || !isDropped(name, options);
  const faults: ParameterFault[] = undecodable.filter(counts).map(([parameter, value]) => ({
    parameter,
    value,
    expected: "percent-encoded UTF-8",
    hint: "ä is %C3%A4; a percent sign itself is %25",
  }));
  const query = buildQuery(route, { table, pairs: pairs.filter(counts), options, faults });
  return faults.length > 0 ? { ok: false, faults } : { ok: true, query };
}

function isIn(table: readonly Parameter[], name: string): boolean {
  return table.some((parameter) => parameter.name === name);
}

function isDropped(name: string, { ignore }: ParseOptions): boolean {
  const isIgnored = (pattern: string): boolean =>
    pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
  return isCredentialName(name) || ignore.some(isIgnored);
}

/** @returns the query, which is not valid if there are faults */
function buildQuery(route: KnownRoute, parsing: Parsing): Query | StreamedQuery {
  switch (route.kind) {
    case "search":
      return searchQuery(route.resource, parsing);
    case "record":
      return {
        ...route,
        serviceId: readPart("serviceId", route.serviceId, { min: 0 }, parsing),
        extras: readExtras(parsing),
      };
    case "image": {
      const { width, height } = parsing.options.maxImageSize;
      return {
        ...route,
        serviceId: readPart("serviceId", route.serviceId, { min: 0 }, parsing),
        width: readPart("width", route.width, { min: 1, max: width }, parsing),
        height: readPart("height", route.height, { min: 1, max: height }, parsing),
        extras: readExtras(parsing),
      };
    }
    case "streamed":
      return { ...route, extras: sortedByName(parsing.pairs) };
  }
}

/** Reads a required whole number from the path. */
function readPart(
  parameter: string,
  value: string,
  bounds: { readonly min: number; readonly max?: number },
  { faults }: Parsing,
): string {
  const reading = readValue({ kind: "integer", ...bounds }, value) ?? { expected: "a whole number" };
  if (typeof reading === "string") return reading;
  faults.push({ parameter, value, ...reading });
  return "";
}

function searchQuery(resource: SearchResource, parsing: Parsing): Query {
  const { table } = parsing;
  const values = readParameters(parsing);
  dropRedundant(table, values);
  checkTogether(values, parsing);
  const limit = values.get("limit");
  return {
    kind: "search",
    resource,
    filters: [...values].filter(([name]) => name !== "limit" && name !== "offset"),
    extras: readExtras(parsing),
    limit: limit === undefined ? undefined : Number(limit),
    offset: isIn(table, "offset") ? Number(values.get("offset") ?? "0") : undefined,
  };
}

/** @returns the canonical values of the documented parameters, in the order of the table */
function readParameters({ table, pairs, options, faults }: Parsing): Map<string, string> {
  const values = new Map<string, string>();
  for (const { name: parameter, shape: documented } of table) {
    const shape = parameter === "limit" ? { ...documented, max: options.maxLimit } : documented;
    const given = pairs.filter(([name]) => name === parameter).map(([, value]) => value);
    const texts = new Set<string>();
    for (const value of joinItems(shape, given)) {
      const reading = readValue(shape, value);
      if (typeof reading === "object") faults.push({ parameter, value, ...reading });
      else if (reading !== undefined) texts.add(reading);
    }
    const [text] = texts;
    if (texts.size > 1)
      faults.push({ parameter, value: given.join(" and "), expected: "one value: it was given twice" });
    else if (text !== undefined) values.set(parameter, text);
  }
  return values;
}

/** Removes parameters that change nothing: those with their default, and those whose `onlyWith` is absent. */
function dropRedundant(table: readonly Parameter[], values: Map<string, string>): void {
  for (const { name, sameAsAbsent, onlyWith } of table) {
    const isDefault = sameAsAbsent !== undefined && values.get(name) === sameAsAbsent;
    const hasNoEffect = onlyWith !== undefined && !values.has(onlyWith);
    if (isDefault || hasNoEffect) values.delete(name);
  }
}

/** Reports a parameter without the one that it requires, and a `min…` above its `max…`. */
function checkTogether(values: ReadonlyMap<string, string>, { table, faults }: Parsing): void {
  const isGiven = (name: string): boolean =>
    values.has(name) || faults.some(({ parameter }) => parameter === name);
  for (const { name, requires } of table) {
    const value = values.get(name);
    if (value === undefined) continue;
    if (requires !== undefined && !isGiven(requires))
      faults.push({ parameter: name, value, expected: `to be given together with ${requires}` });
    const upper = name.startsWith("min") ? `max${name.slice(3)}` : "";
    const highest = values.get(upper);
    if (highest !== undefined && Number(value) > Number(highest))
      faults.push({ parameter: name, value, expected: `at most ${upper}, which is ${highest}` });
  }
}

/**
 * Reads the parameters that the interface does not document. Their meaning is unknown, so only their percent-encoding and
 * their order by name are normalised.
 */
function readExtras({ table, pairs, options: { unknown, allow }, faults }: Parsing): readonly Pair[] {
  const isForwarded = ([name]: Pair): boolean => unknown === "forward" || allow.includes(name);
  const extras = pairs.filter(([name]) => !isIn(table, name));
  for (const pair of extras) {
    const [parameter, value] = pair;
    if (isForwarded(pair) || meansAbsent(value)) continue;
    // A hint takes time, and the answer shows only the first mistakes.
    const hint = faults.length < MOST_ERRORS ? hintFor(parameter, table) : undefined;
    faults.push({
      parameter,
      value,
      expected: "a documented parameter",
      ...(hint !== undefined && { hint }),
    });
  }
  return sortedByName(extras.filter(isForwarded));
}

function hintFor(name: string, table: readonly Parameter[]): string | undefined {
  const knownBy = SEARCH_RESOURCES.filter((resource) => isIn(PARAMETERS[resource], name));
  const near = nearest(
    name,
    table.map((parameter) => parameter.name),
  );
  const hints = [
    ...(knownBy.length > 0 ? [`${name} is a parameter of /${knownBy.join(" and /")}`] : []),
    ...(near === undefined ? [] : [`did you mean ${near}?`]),
  ];
  return hints.length > 0 ? hints.join("; ") : undefined;
}

/** A stable sort, because the order of repeated parameters may matter. */
function sortedByName(pairs: readonly Pair[]): Pair[] {
  return pairs.toSorted(([a], [b]) => (a < b ? -1 : Number(a > b)));
}
