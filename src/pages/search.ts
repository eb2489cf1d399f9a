/**
 * What is asked of a search: which stretch of its results, and which question brings it.
 */
import type { Format } from "../interface/media-types.ts";
import { cacheKey } from "../query/key.ts";
import type { Query } from "../query/query.ts";
import { canonicalForm } from "../query/canonical.ts";
import type { Question } from "../types.ts";
import type { FoldedResource, Stretch } from "./block-index.ts";

/** A query of a search that has pages. */
export type PagedQuery = Extract<Query, { kind: "search" }> & {
  readonly resource: FoldedResource;
  readonly offset: number;
};

/** An upstream may refuse larger offsets; then it is not for the gateway to say that there is nothing. */
const LARGEST_OFFSET = 1_000_000_000;

/**
 * Whether a query's answer may be cut from a block. A parameter that the interface does not document may mean
 * anything, also something about the page.
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

/** What a question asks for, apart from whose request it is. */
export type Asked = Omit<Question, "request">;

/** A block, and the question that brings it. */
export interface Block {
  readonly asked: Asked;
  readonly stretch: Stretch;
}

export function blockOf(query: PagedQuery, format: Format, stretch: Stretch): Block {
  const wanted: Query = { ...query, ...stretch };
  const canonicalQuery = canonicalForm(wanted);
  return { asked: { query: wanted, canonicalQuery, key: cacheKey(format, canonicalQuery) }, stretch };
}

/** What all pages of a search in one format have in common. */
export function searchKey(query: PagedQuery, format: Format): string {
  return `${format}:${canonicalForm({ ...query, limit: undefined, offset: undefined })}`;
}
