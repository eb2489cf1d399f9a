/**
 * Parses a query string into the canonical query of its route, or into the list of all its mistakes.
 *
 * | Parameter                                                       | Result                              |
 * |-----------------------------------------------------------------|-------------------------------------|
 * | documented for the resource                                     | read by its shape (parse-values.ts) |
 * | named like a credential (credentials.ts)                        | dropped                             |
 * | in `query.allow`                                                | sent to the upstream unchanged      |
 * | in `query.ignore`                                               | dropped                             |
 * | any other with `query.unknown: forward`                         | sent to the upstream unchanged      |
 * | any other without a value                                       | dropped                             |
 * | any other                                                       | a mistake                           |
 *
 * A path that is passed through has no documented parameters, so all of them are sent unchanged except the dropped ones.
 */
import type { Config } from "../config/config.ts";
import { MOST_ERRORS, Problem, type ProblemDetails } from "../errors.ts";
import { nearest } from "../interface/intended-name.ts";
import type { Format } from "../interface/media-types.ts";
import { PARAMETERS, type Parameter } from "../interface/parameters.ts";
import { SEARCH_RESOURCES, type SearchResource } from "../interface/resources.ts";
import { canonicalForm } from "./write-query.ts";
import { isCredentialName } from "./credentials.ts";
import { cacheKey } from "./key.ts";
import { joinItems, meansAbsent, readValue } from "./parse-values.ts";
import type { AnyQuery, Pair, ParsedQuery, SearchTarget, StreamedTarget, Target } from "./query.ts";
import type { KnownRoute, Route } from "./route.ts";
import { readPairs, splitTarget } from "./wire.ts";

/** The settings of `query`. */
export type ParseOptions = Config["query"];

/** A query string that is being parsed. Each step adds the mistakes that it finds. */
interface Parsing {
  /** The documented parameters of the route. */
  readonly table: readonly Parameter[];
  readonly pairs: readonly Pair[];
  readonly options: ParseOptions;
  readonly faults: NonNullable<ProblemDetails["errors"]>[number][];
}

/**
 * Parses a query string into the canonical query of its route.
 * @param search the query string without its `?`, still percent-encoded
 * @throws {Problem} `invalid-query` with every mistake
 */
export function parseQuery(
  route: KnownRoute,
  search: string,
  format: Format,
  options: ParseOptions,
): ParsedQuery<AnyQuery> {
  const table: readonly Parameter[] = route.kind === "search" ? PARAMETERS[route.resource] : [];
  const { pairs, undecodable } = readPairs(search);
  const counts = ([name]: Pair): boolean => isIn(table, name) || !isDropped(name, options);
  const faults: Parsing["faults"] = undecodable.filter(counts).map(([parameter, value]) => ({
    parameter,
    value,
    expected: "percent-encoded UTF-8",
    hint: "ä is %C3%A4; a percent sign itself is %25",
  }));
  const query = readQuery(route, { table, pairs: pairs.filter(counts), options, faults });
  if (faults.length > 0)
    throw new Problem("invalid-query", { detail: countInWords(faults.length), errors: faults });
  const canonicalQuery = query.kind === "streamed" ? query.path : canonicalForm(query);
  return { query, canonicalQuery, key: cacheKey(format, canonicalQuery) };
}

function countInWords(count: number): string {
  if (count === 1) return "One parameter does not have its documented form.";
  const rest = count > MOST_ERRORS ? `; the first ${MOST_ERRORS} are listed` : "";
  return `${count} parameters do not have their documented form${rest}.`;
}

/**
 * The query of a URL of the callers' port, and the format of its answer.
 * @returns `undefined` if answers at the URL are never cached
 * @throws {Problem} `invalid-query` with every mistake
 */
export function cacheableQueryAt(
  url: string,
  wanted: Format,
  routeOf: (path: string) => Route,
  options: ParseOptions,
): (ParsedQuery & { readonly format: Format }) | undefined {
  const { path, search } = splitTarget(url);
  const route = routeOf(path);
  if (route.kind === "unknown" || route.kind === "streamed") return undefined;
  const format = route.kind === "image" ? "jpeg" : wanted;
  const { query, ...parsed } = parseQuery(route, search, format, options);
  return query.kind === "streamed" ? undefined : { query, ...parsed, format };
}

function isIn(table: readonly Parameter[], name: string): boolean {
  return table.some((parameter) => parameter.name === name);
}

function isDropped(name: string, { ignore, allow }: ParseOptions): boolean {
  const isIgnored = (pattern: string): boolean =>
    pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
  return isCredentialName(name) || (!allow.includes(name) && ignore.some(isIgnored));
}

/** @returns the query, which is not valid if there are faults */
function readQuery(route: KnownRoute, parsing: Parsing): AnyQuery {
  return route.kind === "streamed"
    ? { ...route, extras: sortedByName(parsing.pairs) }
    : { ...readTarget(route, parsing), extras: readExtras(parsing) };
}

function readTarget(route: Exclude<KnownRoute, StreamedTarget>, parsing: Parsing): Target {
  if (route.kind === "search") return readSearch(route.resource, parsing);
  const serviceId = readPart("serviceId", route.serviceId, { min: 0 }, parsing);
  if (route.kind === "record") return { ...route, serviceId };
  const { maxImageSize } = parsing.options;
  return {
    ...route,
    serviceId,
    width: readPart("width", route.width, { min: 1, max: maxImageSize.width }, parsing),
    height: readPart("height", route.height, { min: 1, max: maxImageSize.height }, parsing),
  };
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

function readSearch(resource: SearchResource, parsing: Parsing): SearchTarget {
  const { table } = parsing;
  const values = readParameters(parsing);
  dropRedundant(table, values);
  checkTogether(values, parsing);
  const limit = values.get("limit");
  return {
    kind: "search",
    resource,
    filters: [...values].filter(([name]) => name !== "limit" && name !== "offset"),
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
