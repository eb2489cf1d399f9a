/**
 * What is meant by a request: the canonical query.
 *
 * Two spellings of one question are one `Query`, and its text (src/query/canonical.ts) is one text. Values
 * are kept as canonical text, never as floating-point numbers: 9007199254740993 and 9007199254740992
 * are two meanings.
 */
import type { RecordResource, Resource, SearchResource } from "../interface/resources.ts";

/** A parameter name and its value, both decoded. */
export type Pair = readonly [name: string, value: string];

/** A search, `/listings`, `/sold` or `/areas` (interface, sections 4.1 to 4.3). */
interface SearchQuery {
  readonly kind: "search";
  readonly resource: SearchResource;
  /** Documented parameters but `limit` and `offset`, canonical values, in the order of the table. */
  readonly filters: readonly Pair[];
  /** Parameters the interface does not document, as given, sorted by name. */
  readonly extras: readonly Pair[];
  /** Absent where the caller gave none: the upstream's default is not documented. */
  readonly limit: number | undefined;
  /** Absent for areas, which have no offset. */
  readonly offset: number | undefined;
}

/** One record, `/{resource}/{serviceId}`. */
interface RecordQuery {
  readonly kind: "record";
  readonly resource: RecordResource;
  readonly serviceId: string;
  readonly extras: readonly Pair[];
}

/** A thumbnail (interface, section 4.5); width and height in pixels. */
interface ImageQuery {
  readonly kind: "image";
  readonly resource: "images";
  readonly serviceId: string;
  readonly width: number;
  readonly height: number;
  readonly extras: readonly Pair[];
}

/** A path below a known resource that is streamed, not understood (`upstream.passThrough`). */
export interface StreamedQuery {
  readonly kind: "streamed";
  readonly resource: Resource;
  /** Normalised and percent-encoded, e.g. `/listings/123/similar`. */
  readonly path: string;
  readonly extras: readonly Pair[];
}

/** A query whose answer can be kept. */
export type Query = SearchQuery | RecordQuery | ImageQuery;

/** What is wrong with one parameter, in words for the caller. */
export interface ParameterFault {
  readonly parameter: string;
  readonly value: string;
  readonly expected: string;
  readonly hint?: string;
}

/** What to do with parameters the interface does not document (setting `query.unknown`). */
export type UnknownParameters = "forward" | "drop" | "reject";
