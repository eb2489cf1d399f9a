/**
 * Writes answers as the upstream does (interface, section 2.7).
 */
import type { RecordResource, SearchResource } from "../interface/resources.ts";
import type { PropertyRow } from "./dataset/model.ts";
import type { SearchResult } from "./search.ts";

/** The interface's text and real answers use `offset`, its list samples `offSet`. */
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

const TO_ESCAPE = /[/\u0080-\uffff]/g;

function escapeUnit(unit: string): string {
  return unit === "/" ? "\\/" : `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/**
 * JSON as the upstream writes it: compact, slashes escaped (`\/`), everything beyond ASCII as lower-case
 * `\uXXXX` (PHP's `json_encode` without flags).
 * @param value anything JSON can hold; members that are `undefined` are left out
 * @returns ASCII text
 */
export function phpJson(value: unknown): string {
  // Slashes and non-ASCII occur only inside JSON strings, so escaping the whole text is safe.
  return JSON.stringify(value).replaceAll(TO_ESCAPE, escapeUnit);
}

const written = new WeakMap<object, string>();

/** Like `phpJson`, but each record is written once, because records never change and pages overlap. */
function phpJsonOnce(record: object): string {
  let text = written.get(record);
  if (text === undefined) {
    text = phpJson(record);
    written.set(record, text);
  }
  return text;
}
