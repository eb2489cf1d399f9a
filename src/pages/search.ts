/** Searches with pages, and the questions for their blocks. */
import type { Format } from "../interface/media-types.ts";
import { cacheKey } from "../query/key.ts";
import type { ParsedQuery, Query } from "../query/query.ts";
import { canonicalForm } from "../query/write-query.ts";
import type { PagedResource, Stretch } from "./block-index.ts";

/** A query of a search that has pages. */
export type PagedQuery = Extract<Query, { kind: "search" }> & {
  readonly resource: PagedResource;
  readonly offset: number;
};

/** The upstream may refuse larger offsets, so the gateway must not answer them with an empty page. */
const LARGEST_OFFSET = 1_000_000_000;

/**
 * Whether a query's answer may be cut from a block. Undocumented parameters exclude that, because they could affect the
 * page in unknown ways.
 */
export function isPaged(query: Query): query is PagedQuery {
  return (
    query.kind === "search" &&
    (query.resource === "listings" || query.resource === "sold") &&
    query.extras.length === 0 &&
    query.offset !== undefined &&
    query.offset <= LARGEST_OFFSET
  );
}

/** The question that fetches a block. */
export type Block = ParsedQuery<PagedQuery & Stretch>;

/** @returns the block of a search that covers a stretch of its results */
export function blockOf(query: PagedQuery, format: Format, stretch: Stretch): Block {
  const wanted = { ...query, ...stretch };
  const canonicalQuery = canonicalForm(wanted);
  return { query: wanted, canonicalQuery, key: cacheKey(format, canonicalQuery) };
}

/** Identifies a search in one format: all its pages have the same key. */
export function searchKey(query: PagedQuery, format: Format): string {
  return `${format}:${canonicalForm({ ...query, limit: undefined, offset: undefined })}`;
}
