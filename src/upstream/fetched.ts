/**
 * What an upstream call yields.
 */

/** The upstream's validators of an answer, unchanged (RFC 9110, section 8.8). */
export interface Validators {
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
}

/** The upstream's headers about caching an answer. Durations in milliseconds; `undefined`: absent. */
export interface CachingHeaders {
  readonly mayStore: boolean;
  /** The age of the answer when it arrived. */
  readonly ageMs: number;
  /** How long the answer stays fresh; if negative, how long it has been stale. */
  readonly freshForMs: number | undefined;
  readonly staleWhileRevalidateMs: number | undefined;
  readonly staleIfErrorMs: number | undefined;
}

interface FetchedHead {
  readonly validators: Validators;
  readonly caching: CachingHeaders;
}

/** A page of a list, as its envelope describes it (interface, section 2.7). */
export interface ListPage {
  /** Records in the whole list. */
  readonly totalCount: number;
  /** Records on the page. */
  readonly count: number;
  /** The limit that the upstream applied, if it says so. */
  readonly limit?: number;
}

/** A valid body, or a 400 or 404 with its problem as the body. */
export interface FetchedAnswer extends FetchedHead {
  readonly status: 200 | 400 | 404;
  /** The ids of the records in the body. */
  readonly recordIds: readonly string[];
  /** Absent if the answer is not a page of a list. */
  readonly page?: ListPage | undefined;
  readonly contentType: string;
  readonly body: Buffer;
}

/** The cached answer is still current (RFC 9110, section 15.4.5). */
export interface NotModified extends FetchedHead {
  readonly status: 304;
}

/** The result of an upstream call. */
export type Fetched = FetchedAnswer | NotModified;
