/**
 * Answers the three searches from the data set.
 */
import { MAX_LIMIT } from "../interface/parameters.ts";
import type { SearchResource } from "../interface/resources.ts";
import { findAreas } from "./area-search.ts";
import type { AreaRecord, PropertyRecord, PropertyRow, SandboxData } from "./dataset/model.ts";
import { LISTINGS_FILTERS, SOLD_FILTERS } from "./filters.ts";
import type { Filter, Given } from "./filters.ts";
import { BadParameter, readInteger } from "./values.ts";

/** Default page sizes, as in the interface's samples. Its text does not define them. */
const DEFAULT_LIMIT = { listings: 35, sold: 35, areas: 30 } as const;

const AREAS_ECHOED = ["q", "lat", "lng"];
const AREAS_SWITCHES = ["listings", "transactions"];

/** Query parameters by name; empty values count as absent, unknown names are ignored. */
export type SearchParams = Readonly<Record<string, string>> | URLSearchParams;

export interface SearchResult {
  readonly totalCount: number;
  readonly records: readonly (PropertyRecord | AreaRecord)[];
  readonly limit: number;
  /** Areas have none. */
  readonly offset?: number;
  /** The parameters applied, numbers as numbers. */
  readonly searchParams: Readonly<Record<string, string | number>>;
}

/** If a name is repeated, the last value counts, as in PHP. */
function givenIn(params: SearchParams): Given {
  const entries = params instanceof URLSearchParams ? [...params] : Object.entries(params);
  return new Map(
    entries.map(([name, text]) => [name, text.trim()] as const).filter(([, text]) => text !== ""),
  );
}

function readCount(given: Given, name: string, otherwise: number): number {
  const text = given.get(name);
  if (text === undefined) return otherwise;
  const count = readInteger(name, text);
  if (count < 0) throw new BadParameter(name, "zero or more");
  return count;
}

function readLimit(given: Given, resource: SearchResource): number {
  const limit = readCount(given, "limit", DEFAULT_LIMIT[resource]);
  if (limit > MAX_LIMIT) throw new BadParameter("limit", `at most ${MAX_LIMIT}`);
  return limit;
}

function normalised(text: string): string | number {
  return /^-?\d{1,15}(\.\d+)?$/.test(text) ? Number(text) : text;
}

function echo(given: Given, names: readonly string[]): Record<string, string | number> {
  const params: Record<string, string | number> = {};
  for (const name of names) {
    const text = given.get(name);
    if (text !== undefined) params[name] = normalised(text);
  }
  return params;
}

function matchingRows(
  rows: readonly PropertyRow[],
  filters: readonly Filter[],
  given: Given,
): readonly PropertyRow[] {
  let matching = rows;
  for (const filter of filters) {
    const text = given.get(filter.name);
    const predicate = text === undefined ? undefined : filter.compile(text, given);
    if (predicate) matching = matching.filter(predicate);
  }
  return matching;
}

function searchProperties(data: SandboxData, resource: "listings" | "sold", given: Given): SearchResult {
  const filters = resource === "listings" ? LISTINGS_FILTERS : SOLD_FILTERS;
  const limit = readLimit(given, resource);
  const offset = readCount(given, "offset", 0);
  const rows = matchingRows(data[resource], filters, given);
  return {
    totalCount: rows.length,
    records: rows.slice(offset, offset + limit).map((row) => row.record),
    limit,
    offset,
    searchParams: echo(
      given,
      filters.map((filter) => filter.name),
    ),
  };
}

function searchAreas(data: SandboxData, given: Given): SearchResult {
  const limit = readLimit(given, "areas");
  const areas = findAreas(data, given);
  const searchParams = echo(given, AREAS_ECHOED);
  for (const name of AREAS_SWITCHES) searchParams[name] = given.get(name) === "1" ? 1 : 0;
  return {
    totalCount: areas.length,
    records: areas.slice(0, limit).map((area) => area.record),
    limit,
    searchParams,
  };
}

/**
 * The expected result of a search (sections 4.1 to 4.4).
 * @throws BadParameter if a value is malformed
 */
export function search(data: SandboxData, resource: SearchResource, params: SearchParams): SearchResult {
  const given = givenIn(params);
  if (resource === "areas") return searchAreas(data, given);
  return searchProperties(data, resource, given);
}
