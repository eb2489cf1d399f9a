/**
 * Writes a query (parse.ts has put it into its canonical form) as text. The cache key and the upstream's URL contain it.
 *
 * Example: `listings?areaId=1,76&minRooms=3&objectType=villa,radhus&limit=50&offset=0`. First come the documented filters
 * in the order of the interface's table, then the undocumented parameters by name, then limit and offset. Resources with an
 * offset always show it. The canonical form parses back to the same query.
 */
import { imagePath } from "../interface/resources.ts";
import type { AnyQuery, Pair, Query } from "./query.ts";
import { recordPathOf } from "./route.ts";
import { writePairs } from "./wire.ts";

/** @returns the canonical form, ASCII only, for example `sold/123` or `areas?q=Nacka` */
export function canonicalForm(query: Query): string {
  return withPairs(nameOf(query), pairsOf(query));
}

function nameOf(query: Query): string {
  switch (query.kind) {
    case "search":
      return query.resource;
    case "record":
      return `${query.resource}/${query.serviceId}`;
    case "image":
      return `images/${query.serviceId}_${query.width}x${query.height}`;
  }
}

/** @returns all parameters in canonical order */
function pairsOf(query: AnyQuery): readonly Pair[] {
  if (query.kind !== "search") return query.extras;
  const { filters, extras, limit, offset } = query;
  return [
    ...filters,
    ...extras,
    ...(limit === undefined ? [] : [["limit", String(limit)] as const]),
    ...(offset === undefined ? [] : [["offset", String(offset)] as const]),
  ];
}

function withPairs(name: string, pairs: readonly Pair[]): string {
  return pairs.length === 0 ? name : `${name}?${writePairs(pairs)}`;
}

/**
 * The path and query for the upstream, unsigned.
 * @param recordPath the template for the path of one record (`upstream.recordPath`)
 */
export function upstreamTarget(query: AnyQuery, recordPath: string): string {
  return withPairs(upstreamPath(query, recordPath), pairsOf(query));
}

function upstreamPath(query: AnyQuery, recordPath: string): string {
  switch (query.kind) {
    case "search":
      return `/${query.resource}`;
    case "record":
      return recordPathOf(recordPath, query.resource, query.serviceId);
    case "image":
      return imagePath(query.serviceId, query.width, query.height);
    case "streamed":
      return query.path;
  }
}
