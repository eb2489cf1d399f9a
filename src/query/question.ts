/**
 * What a caller asks: an accepted request, and its question for the later stages.
 */
import type { Priority, Trace } from "../telemetry/events.ts";
import type { ContentCoding, Format } from "../interface/media-types.ts";
import { MOST_ERRORS, Problem } from "../errors.ts";
import { canonicalForm } from "./canonical.ts";
import { cacheKey } from "./key.ts";
import type { KnownTarget, ParsedQuery } from "./known-targets.ts";
import { parseQuery, type ParseOptions } from "./parse.ts";
import type { KnownRoute, Route } from "./route.ts";
import { splitTarget } from "./wire.ts";
import type { Query, StreamedQuery } from "./query.ts";

/** A request that `admit` has accepted. Instants are epoch milliseconds. */
export interface GatewayRequest {
  readonly id: string;
  readonly method: "GET" | "HEAD";
  /** The id of a registered app, or `other`, so it is safe as a metric label. */
  readonly app: string;
  /** The priority of the app's requests. */
  readonly priority: Priority;
  /** Whether the app may force a fetch although the cached answer is fresh. */
  readonly mayForceRefresh: boolean;
  readonly route: KnownRoute;
  /** The raw request target. It may contain a credential: never log it. */
  readonly target: string;
  /** The query of this target by format, if an earlier request had the same target. */
  readonly parsed: KnownTarget["parsed"];
  /** The raw query string, still percent-encoded. */
  readonly search: string;
  readonly format: Format;
  readonly coding: ContentCoding;
  readonly ifNoneMatch: string | undefined;
  readonly ifModifiedSince: string | undefined;
  readonly directives: CallerDirectives;
  readonly receivedAt: number;
  /** The caller gets an answer or a refusal before this instant. */
  readonly deadlineAt: number;
  /** @returns the signal that aborts when the caller hangs up; always the same one */
  readonly gone: () => AbortSignal;
  /** Absent if requests are not traced. */
  readonly trace?: Trace | undefined;
}

/** The caller's `Cache-Control` (RFC 9111, section 5.2.1). Durations in milliseconds; `undefined`: absent. */
export interface CallerDirectives {
  /** Pass the upstream's answer through without storing it. */
  readonly noStore: boolean;
  /** Do not answer without asking the upstream. */
  readonly noCache: boolean;
  /** Answer only from the cache. */
  readonly onlyIfCached: boolean;
  /** The highest accepted age. */
  readonly maxAgeMs: number | undefined;
  /** How long the answer must stay fresh. */
  readonly minFreshMs: number | undefined;
  /** The highest accepted staleness; infinity accepts any. */
  readonly maxStaleMs: number | undefined;
  /** The highest accepted staleness if the gateway cannot get a new answer (RFC 5861, section 4). */
  readonly staleIfErrorMs: number | undefined;
}

/** For a request without directives. */
export const NO_DIRECTIVES: CallerDirectives = {
  noStore: false,
  noCache: false,
  onlyIfCached: false,
  maxAgeMs: undefined,
  minFreshMs: undefined,
  maxStaleMs: undefined,
  staleIfErrorMs: undefined,
};

/** A request with its parsed query. */
export interface Question<Q extends Query | StreamedQuery = Query> extends ParsedQuery<Q> {
  readonly request: GatewayRequest;
}

/** @throws {Problem} `invalid-query` with every mistake */
export function parseRequest(
  { route, search, format }: Pick<GatewayRequest, "route" | "search" | "format">,
  options: ParseOptions,
): ParsedQuery {
  const parsed = parseQuery(route, search, options);
  if (!parsed.ok) {
    throw new Problem("invalid-query", { detail: countInWords(parsed.faults.length), errors: parsed.faults });
  }
  const { query } = parsed;
  const canonicalQuery = query.kind === "streamed" ? query.path : canonicalForm(query);
  return { query, canonicalQuery, key: cacheKey(format, canonicalQuery) };
}

function countInWords(count: number): string {
  if (count === 1) return "One parameter does not have its documented form.";
  const rest = count > MOST_ERRORS ? `; the first ${MOST_ERRORS} are listed` : "";
  return `${count} parameters do not have their documented form${rest}.`;
}

/**
 * The question that a URL of the callers' port asks.
 * @returns `undefined` if answers at the URL are never cached
 * @throws {Problem} `invalid-query` with every mistake
 */
export function cacheableQuestionAt(
  url: string,
  format: Format,
  route: (path: string) => Route,
  options: ParseOptions,
): { asked: ParsedQuery<Query>; about: Pick<GatewayRequest, "route" | "format"> } | undefined {
  const { path, search } = splitTarget(url);
  const to = route(path);
  if (to.kind === "unknown" || to.kind === "streamed") return undefined;
  const about = { route: to, format: to.kind === "image" ? "jpeg" : format } as const;
  const { query, ...named } = parseRequest({ ...about, search }, options);
  return query.kind === "streamed" ? undefined : { asked: { query, ...named }, about };
}
