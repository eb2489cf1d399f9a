/**
 * An accepted request, and its question for the later stages.
 */
import type { ContentCoding } from "../content-codings.ts";
import type { Format } from "../interface/media-types.ts";
import type { Priority, Trace } from "../telemetry/events.ts";
import type { AnyQuery, ParsedQuery, Query } from "./query.ts";

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

/** The caller's `Cache-Control` (RFC 9111, section 5.2.1). Durations in milliseconds. */
export interface CallerDirectives {
  /** Pass the upstream's answer through without storing it. */
  readonly noStore?: boolean;
  /** Do not answer without asking the upstream. */
  readonly noCache?: boolean;
  /** Answer only from the cache. */
  readonly onlyIfCached?: boolean;
  /** The highest accepted age. */
  readonly maxAgeMs?: number | undefined;
  /** How long the answer must stay fresh. */
  readonly minFreshMs?: number | undefined;
  /** The highest accepted staleness; infinity accepts any. */
  readonly maxStaleMs?: number | undefined;
  /** The highest accepted staleness if the gateway cannot get a new answer (RFC 5861, section 4). */
  readonly staleIfErrorMs?: number | undefined;
}

/** For a request without directives. */
export const NO_DIRECTIVES: CallerDirectives = {};

/** A request with its parsed query. */
export interface Question<Q extends AnyQuery = Query> extends ParsedQuery<Q> {
  readonly request: GatewayRequest;
}
