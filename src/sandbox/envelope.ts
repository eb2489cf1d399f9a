/**
 * Writes answers as the upstream does (interface, section 2.7).
 */
import type { RecordResource, SearchResource } from "../interface/resources.ts";
import type { PropertyRow } from "./dataset/model.ts";
import { phpJson, phpJsonOnce } from "./php-json.ts";
import type { SearchResult } from "./search.ts";

/** Pagination text and real answers say `offset`, list samples `offSet`. */
export type OffsetSpelling = "offset" | "offSet";

/** @returns a list response's body */
export function listBody(resource: SearchResource, result: SearchResult, spelling: OffsetSpelling): string {
  const records = result.records.map((record) => phpJsonOnce(record)).join(",");
  const offset = result.offset === undefined ? "" : `,"${spelling}":${result.offset}`;
  return (
    `{"totalCount":${result.totalCount},"count":${result.records.length},"${resource}":[${records}],` +
    `"limit":${result.limit}${offset},"searchParams":${phpJson(result.searchParams)}}`
  );
}

/** @returns a single-record response's body: only the array, with one element; a listing has `pageviews` */
export function singleBody(resource: RecordResource, row: PropertyRow): string {
  const record = resource === "listings" ? { ...row.record, pageviews: row.pageviews } : row.record;
  return phpJson({ [resource]: [record] });
}
