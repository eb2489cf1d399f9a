/**
 * The meaning of a request, as data.
 *
 * All spellings of one query have the same `Query`, and so the same canonical form (write-query.ts). Values are canonical
 * text and not floating-point numbers, because 9007199254740993 and 9007199254740992 are different values.
 */
import type { RecordResource, Resource, SearchResource } from "../interface/resources.ts";

/** A decoded parameter. */
export type Pair = readonly [name: string, value: string];

/** A search, `/listings`, `/sold` or `/areas` (interface, sections 4.1 to 4.3). */
export interface SearchTarget {
  readonly kind: "search";
  readonly resource: SearchResource;
  /** The documented parameters except `limit` and `offset`, with canonical values, in the order of the table. */
  readonly filters: readonly Pair[];
  /** `undefined` if the caller gave none, because the upstream's default is not documented. */
  readonly limit: number | undefined;
  /** `undefined` for areas, which have no offset. */
  readonly offset: number | undefined;
}

/** One record, `/{resource}/{serviceId}`. */
export interface RecordTarget {
  readonly kind: "record";
  readonly resource: RecordResource;
  readonly serviceId: string;
}

/** A thumbnail (interface, section 4.5). Width and height are in pixels. */
export interface ImageTarget {
  readonly kind: "image";
  readonly resource: "images";
  readonly serviceId: string;
  readonly width: string;
  readonly height: string;
}

/**
 * A path below a known resource that the gateway passes through without parsing it (`upstream.passThrough`), normalised and
 * percent-encoded, for example `/listings/123/similar`.
 */
export interface StreamedTarget {
  readonly kind: "streamed";
  readonly resource: Resource;
  readonly path: string;
}

interface Extras {
  /** The undocumented parameters that are forwarded, unchanged, sorted by name. */
  readonly extras: readonly Pair[];
}

/** What a query asks for, without undocumented parameters. */
export type Target = SearchTarget | RecordTarget | ImageTarget;

/** A query whose answer can be cached. */
export type Query = Target & Extras;

export type AnyQuery = Query | (StreamedTarget & Extras);

/** A query with its canonical form and its cache key. */
export interface ParsedQuery<Q extends AnyQuery = Query> {
  readonly query: Q;
  /** The canonical form of the query; for a streamed query, its path. Safe to log and to show. */
  readonly canonicalQuery: string;
  readonly key: string;
}
