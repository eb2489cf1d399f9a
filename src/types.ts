/**
 * The types that travel between the stages of a request, and the closed unions that logs, metrics and headers share.
 *
 * They are in this order: the request, its question, the upstream's answer, the cached entry, the answer to the caller, the
 * wait for a permit, the claim among replicas, and the records for logs and metrics.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";

import type { Problem, ProblemCode } from "./errors.ts";
import type { Format } from "./interface/media-types.ts";
import type { Resource } from "./interface/resources.ts";
import type { KnownTarget } from "./query/known-targets.ts";
import type { Query, StreamedQuery } from "./query/query.ts";
import type { Route } from "./query/route.ts";

/** A content coding that the gateway can send (RFC 9110, section 8.4.1; zstd: RFC 8878). */
export type ContentCoding = "identity" | "gzip" | "br" | "zstd";

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
  readonly route: Exclude<Route, { kind: "unknown" }>;
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
export interface Question<Q extends Query | StreamedQuery = Query> {
  readonly request: GatewayRequest;
  readonly query: Q;
  /** The canonical form of the query; for a streamed query, its path. Safe to log and to show. */
  readonly canonicalQuery: string;
  /** The cache key. */
  readonly key: string;
}

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

/** The body of an answer: in at least one coding, or packed. Other codings are added when a caller needs them. */
export type Bodies = Readonly<Partial<Record<ContentCoding, Buffer>>> & {
  readonly packed?: PackedBody;
};

/**
 * A body in several zstd frames, so that a part of it can be decompressed alone. It exists in memory only. Callers, Redis and
 * SQLite get the body in one frame, because some clients stop after the first one.
 */
export interface PackedBody {
  /** The frames, one after the other. Together they decompress to the whole body (RFC 8878, section 3). */
  readonly zstd: Buffer;
  /** Where each frame begins in `zstd`, and where the last one ends. */
  readonly framesAt: Uint32Array;
  /** The bytes before the first record, not compressed. */
  readonly head: Buffer;
  /** The bytes after the last record, not compressed. */
  readonly tail: Buffer;
}

/** A cached answer, or one that could be cached. Instants are epoch milliseconds. */
export interface Entry {
  readonly status: 200 | 400 | 404;
  readonly contentType: string;
  readonly bodies: Bodies;
  /** The length of the body without coding. */
  readonly bodyBytes: number;
  /** The strong entity tag of the body without coding (RFC 9110, section 8.8.3), without quotes. */
  readonly etag: string;
  /** The upstream's own validators, for conditional requests. */
  readonly validators: Validators;
  /** Absent if the answer is not a page of a list, or if an older version stored the entry. */
  readonly page?: ListPage | undefined;
  /** What the answer contains, for purging: `area:76`, `record:123`. */
  readonly tags: readonly string[];
  /** The latest purge when the fetch began. Later purges apply to the entry (src/cache/store/purges.ts). */
  readonly purgeEpoch: number;
  /** When the answer arrived, or when the upstream last confirmed it. */
  readonly storedAt: number;
  /** When the upstream made the answer. `Age` counts from here. */
  readonly bornAt: number;
  /** How long the fetch took, in milliseconds. */
  readonly fetchMs: number;
  readonly freshUntil: number;
  /** How long the upstream allows the entry to be served stale, in milliseconds; absent if it does not say. */
  readonly upstreamStale: {
    readonly whileRevalidateMs?: number | undefined;
    readonly ifErrorMs?: number | undefined;
  };
  /** After this instant the entry can be removed. */
  readonly keepUntil: number;
}

/** Why a usable answer was not stored. */
export type WhyNotStored = "too-large" | "newer-stored" | "store-unavailable" | "upstream-no-store";

/** The stores of entries; the closed set of the metric label `tier`. */
export const TIERS = ["memory", "sqlite", "redis"] as const;
export type Tier = (typeof TIERS)[number];

/** The timed operations on SQLite and Redis; the closed set of the metric label `operation`. */
export const STORE_OPERATIONS = [
  "get",
  "use",
  "set",
  "remove",
  "sweep",
  "purge",
  "purges",
  "claim",
  "release",
  "renew",
  "take",
  "settle",
  "look",
  "join",
  "ledger",
  "status",
] as const;
export type StoreOperation = (typeof STORE_OPERATIONS)[number];

/**
 * How the cache got an answer (RFC 9211, sections 2.1 and 2.2).
 * - `hit`: it was cached and fresh.
 * - `stale`: it was cached and stale; there was no fresh one, or the caller accepted it.
 * - `updating`: it was cached and stale, and the gateway refreshes it in the background.
 * - `miss`: the gateway fetched it from the upstream.
 * - `collapsed`: it came from the upstream call of another request.
 */
const CACHE_OUTCOMES = ["hit", "stale", "updating", "miss", "collapsed"] as const;
type CacheOutcome = (typeof CACHE_OUTCOMES)[number];

/** Why the gateway asked the upstream (RFC 9211, section 2.2): not cached, stale, or the caller wanted a newer answer. */
export type Forwarded = "miss" | "stale" | "request";

/** Why a caller gets a cached answer although it is stale, or the caller wanted a newer one. */
export type ServeNote =
  | "stale-while-revalidate"
  | "max-stale"
  | "refresh-not-allowed"
  | "refreshed-recently"
  | ProblemCode;

/** How a request ended: a cache outcome, or one without the cache. */
export const OUTCOMES = [...CACHE_OUTCOMES, "bypass", "refused", "failed", "abandoned"] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** The answer of the cache stage. */
export interface Answer {
  readonly entry: Entry;
  readonly outcome: CacheOutcome;
  /** The store that had the entry, if it was cached. */
  readonly tier: Tier | undefined;
  readonly stored: true | WhyNotStored;
  /** Why the gateway asked the upstream, if it did. */
  readonly forwarded: Forwarded | undefined;
  /** The upstream's status if it differs from the entry's, which means 304. */
  readonly forwardedStatus?: number | undefined;
  /** Why the answer is not newer. The code of a problem means that the caller would otherwise have got that problem. */
  readonly note: ServeNote | undefined;
  /** The key of the entry in memory, if it differs from that of the question. */
  readonly keptAs?: string;
  /** Why the answer cost no upstream call, if the answer itself was not cached. */
  readonly saved?: PageSaving;
}

/**
 * Why a page cost no upstream call.
 * - `folded`: it was cut from a cached block.
 * - `past_end`: a cached block shows that the list ends before this page.
 */
export type PageSaving = "folded" | "past_end";

/** A request that waits for an upstream call: its app, deadline and priority, and whether the caller hung up. */
export interface Waiter extends Pick<GatewayRequest, "app" | "deadlineAt" | "priority"> {
  /** Aborted when the caller hangs up. */
  readonly gone: AbortSignal;
  /** When it leaves the queue, if that is earlier than its deadline. Epoch milliseconds. */
  readonly queueDeadlineAt?: number;
}

/** @returns the problem for a waiter whose deadline has passed; `undefined` if the call has left the queue */
export type RefuseLate = (waiter: Pick<Waiter, "app" | "priority">) => Problem | undefined;

/** What the queue needs to know about the waiters of an upstream call. */
export interface Waiting {
  /** Aborted when the call has no waiters left. A queued call is then withdrawn and costs nothing. */
  readonly abandoned: AbortSignal;
  /** The latest deadline of the waiters. A call that is still queued then is withdrawn. Epoch milliseconds. */
  readonly deadlineAt: () => number;
  /** The priority of the most urgent waiter so far. */
  readonly priority: () => Priority;
  /** The apps that wait now, the longest waiting first. Each of them may pay. */
  readonly apps: () => readonly string[];
  /** Calls back when `priority` becomes more urgent, or when `apps` changes and there are still waiters. */
  readonly onChange: (listen: () => void) => void;
  /** Call it when the call enters the queue. `refuseLate` returns the problem for a waiter whose deadline passes there. */
  readonly inQueue: (refuseLate: RefuseLate) => void;
}

/** The most urgent first: requests of callers, requests of background apps, then work without a waiting caller. */
export const PRIORITIES = ["interactive", "background", "refresh", "prefetch"] as const;
export type Priority = (typeof PRIORITIES)[number];

export { ORIGINS, type OriginName } from "./interface/resources.ts";

/** The id for all requests without an app id, and for all ids beyond 100 unlisted ones. */
export const OTHER_APP = "other";

/** Why a request gets no permit; the closed set of the metric label `reason`. */
export const REFUSAL_REASONS = ["budget", "share", "per-day", "cool-off", "redis-away", "deadline"] as const;
export type RefusalReason = (typeof REFUSAL_REASONS)[number];

/** An app's share of one window of a budget. Numbers may have fractions. Round them before you show them. */
export interface ShareOfWindow {
  /** The window as in the settings, e.g. `1m`, or `per-day` for the app's own daily limit. */
  readonly name: string;
  /** Requests. */
  readonly limit: number;
  readonly windowSeconds: number;
  /** How many requests may be sent now. */
  readonly remaining: number;
  /** How long until more requests may be sent. */
  readonly resetSeconds: number;
}

/** A request to the upstream that needs a permit. */
export interface UpstreamRequest {
  /** The app that started the call. This app pays, unless the queue chooses another waiting app first. */
  readonly app: string;
  readonly cause: Cause;
  readonly resource: Resource;
  /** The canonical query. The ledger stores only a hash of it. */
  readonly query: string;
  /** Whether this is a retry with new credentials. It does not use the retry budget, because the upstream works. */
  readonly hasNewCredentials?: boolean | undefined;
  readonly waiting: Waiting;
}

/** The state of a circuit breaker. `half-open`: one call tests whether the service is back. */
export type CircuitState = "closed" | "half-open" | "open";

/** How long a request would wait for a permit. The prediction does not spend budget. */
export interface PredictedWait {
  readonly waitMs: number;
  /** The reason for the wait. */
  readonly why: string;
  /** The code of the problem, if the request would be refused. */
  readonly refusal: string | undefined;
}

/** Why the gateway sends no requests to the upstream for a while. */
type SlowDownCause = "too-many-requests" | "unavailable" | "unreachable";

/** How a request to the upstream ended. Durations in milliseconds, from the sending of the request. */
export interface SendEnd {
  /** The HTTP status, or the kind of failure. */
  readonly status: number | UpstreamFaultKind;
  /** When the head of the answer arrived or the request failed. The request cannot reach the upstream after that. */
  readonly arrivedAfterMs: number;
  readonly durationMs: number;
  /** Set if the upstream needs a pause. */
  readonly slowDown?: {
    readonly cause: SlowDownCause;
    /** The length of the pause, if the upstream specified one. */
    readonly forMs: number | undefined;
  };
}

/**
 * Runs a job as soon as the budget permits the request. The job must report how the request ended. Rejects without running
 * the job if the request gets no permit before its deadline, or cannot get one: with `temporary-reduced-capacity`,
 * `quota-exceeded` or `upstream-unavailable`.
 */
export type Throttled = <T>(
  request: UpstreamRequest,
  job: (ended: (end: SendEnd) => void, permit: SendPermit) => Promise<T>,
) => Promise<T>;

/** What a call needs to know about its permit. */
export interface SendPermit {
  /** The latest instant to send the call, by the monotonic clock. A later call would arrive after its permit has expired. */
  readonly sendBy?: number | undefined;
}

/** The result of a flight, and its origin. */
export interface FlightResult<T> {
  readonly value: T;
  /** `found`: it was already stored. `fetched`: this replica fetched it. `followed`: another replica fetched it. */
  readonly how: "found" | "fetched" | "followed";
}

/** How the flight of another replica ended. */
export type ClaimEnd =
  /** The entry is in the shared store. */
  | { readonly kind: "landed" }
  | { readonly kind: "failed"; readonly problem: Problem }
  /** The leader withdrew or died, or the end is unknown. A replica that still needs the answer claims the key again. */
  | { readonly kind: "vacant" };

/** The result of claiming a key: the right to fetch it, or a wait for the replica that has this right. */
export type Claim =
  | { readonly kind: "leader"; readonly release: (end: ClaimEnd) => Promise<void> }
  /** `ended` resolves with the leader's message, or when its lease has expired. It never rejects. */
  | { readonly kind: "follower"; readonly ended: Promise<ClaimEnd>; readonly stop: () => void }
  /** Claims do not work now, so each replica fetches for itself. */
  | { readonly kind: "unavailable" };

export interface Claims {
  /** Never rejects. */
  readonly claim: (key: string) => Promise<Claim>;
}

/** The destination of an answer that is not cached. */
export interface StreamSink {
  readonly response: ServerResponse;
  /** Sets the status and headers of the response, from the upstream's headers. */
  readonly start: (headers: IncomingHttpHeaders) => void;
  /** Reports the bytes of the body. */
  readonly passed: (bytes: number) => void;
}

/**
 * Why an upstream call was made; the closed set of the metric label `cause`.
 * - `miss`: the answer was not cached, or not fresh.
 * - `retry`: the first attempt failed.
 * - `bypass`: the answer is passed through, not cached.
 * - `refresh`: a stale or popular answer is refreshed in the background.
 * - `forced`: a caller asked for a newer answer.
 * - `warm`: the answer is on the warm list.
 */
export const CAUSES = ["miss", "retry", "bypass", "refresh", "forced", "warm"] as const;
export type Cause = (typeof CAUSES)[number];

/** One upstream call, for the log and the metrics. Durations in milliseconds. */
export interface UpstreamCallRecord {
  readonly resource: Resource;
  /** The canonical query. */
  readonly query: string;
  readonly cause: Cause;
  /** The HTTP status, or the kind of failure. */
  readonly status: number | UpstreamFaultKind;
  readonly durationMs: number;
  readonly bytes: number;
  /** Why it failed, for the log only. It never contains a signed URL. */
  readonly note?: string;
}

/** The faults that leave an upstream call without a complete answer. */
export const UPSTREAM_FAULTS = [
  "connect-timeout",
  "header-timeout",
  "body-timeout",
  "total-timeout",
  "unreachable",
  "no-descriptor",
  "reset",
  "malformed",
  "stale-connection",
  "cut-body",
  "too-large",
  "bad-encoding",
  /** Its caller hung up, or could not wait any longer. This says nothing about the upstream. */
  "given-up",
] as const;
export type UpstreamFaultKind = (typeof UPSTREAM_FAULTS)[number];

/** One caller's request, for the log and the metrics. */
export interface RequestRecord {
  readonly id: string;
  readonly app: string;
  readonly method: string;
  readonly resource: Resource | "none";
  /** The canonical query, if the gateway could parse it. */
  readonly query: string | undefined;
  readonly status: number;
  readonly outcome: Outcome;
  /** The store that had the answer, if it was cached. */
  readonly tier: Tier | undefined;
  /** The code of the problem that the caller got, if any. */
  readonly problem: string | undefined;
  readonly durationMs: number;
  readonly bytes: number;
  /** Why the page cost no upstream call, if a cached block answered it. */
  readonly saved?: PageSaving | undefined;
  /** For an answer that is not a hit: why the gateway asked the upstream. */
  readonly forwarded?: Forwarded | undefined;
  /** For an answer that is not a hit: why it is stale, or was not stored. */
  readonly detail?: ServeNote | WhyNotStored | undefined;
  /** When the request arrived; epoch milliseconds. */
  readonly receivedAt: number;
  /** The age of the answer in milliseconds, if it came from the cache. */
  readonly ageMs?: number | undefined;
  /** The W3C Trace Context of the request's span, if requests are traced. */
  readonly traceparent?: string | undefined;
}

/** The parts of a request that a trace shows. */
type SpanName = "cache lookup" | "queue wait" | "upstream call";
type SpanValues = Readonly<Record<string, string | number | undefined>>;

/** The trace of a request (OpenTelemetry). */
export interface Trace {
  /** Begins a part of the request. Only the first call of `end` counts. */
  readonly begin: (
    name: SpanName,
    attributes?: SpanValues,
  ) => { readonly end: (attributes?: SpanValues & { readonly error?: string }) => void };
  /** The W3C Trace Context of the request's span. */
  readonly traceparent: string;
}

/** The trace in the first stage, which ends it. */
export interface RequestTrace extends Trace {
  readonly end: (record: RequestRecord) => void;
}

/** Traces requests. */
export interface Tracing {
  readonly start: (caller: CallerFacts) => RequestTrace;
  /** Sends the remaining spans. Never rejects. It has no time limit of its own. */
  readonly close: () => Promise<void>;
}

/** What the access log shows about a caller. It is read only if the log writes a line. */
export type CallerFacts = Pick<IncomingMessage, "headers" | "socket">;

/** An outage of something that the gateway needs. */
export interface Outage {
  /** What does not work, such as `Redis` or `upstream api/listings`. */
  readonly what: string;
  /** The cause, as far as it is known. */
  readonly cause: string;
  /** Describes what callers get during the outage. */
  readonly meanwhile: string;
  /** The affected resources; absent: all of them. */
  readonly resources?: readonly Resource[];
}

/** The result of comparing a page from a block with the upstream's own page. `unknown`: the check failed. */
export const PAGE_CHECKS = ["agreed", "differed", "unknown"] as const;
export type PageCheck = (typeof PAGE_CHECKS)[number];

/** The result of fetching an answer that was already cached. */
export const CHANGES = ["changed", "unchanged", "not-modified"] as const;
export type Change = (typeof CHANGES)[number];

/** A refresh, for the metrics. */
export interface RefreshRecord {
  readonly resource: Resource;
  readonly change: Change;
}

/** How a refresh ended. `skipped`: another one was in progress. */
export const REFRESH_ENDS = ["refreshed", "refused", "failed", "skipped"] as const;
export type RefreshEnd = (typeof REFRESH_ENDS)[number];

/** Receives all events for logs and metrics. It is passed to the stages, so that they need neither the log nor the metrics. */
export interface Observer {
  readonly request: (record: RequestRecord, caller?: CallerFacts) => void;
  readonly upstreamCall: (record: UpstreamCallRecord) => void;
  readonly refreshed: (record: RefreshRecord) => void;
  /** An answer on the warm list was due for a refresh. */
  readonly warmed: (resource: Resource, end: RefreshEnd) => void;
  /** An outage began. Further reports of the same outage change nothing. */
  readonly outOfOrder: (outage: Outage) => void;
  /**
   * An outage ended.
   * @param what as in its outage
   */
  readonly backInOrder: (what: string) => void;
  /** Log messages for operators. `fields` must not contain a secret. */
  readonly info: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  readonly error: (message: string, fields: Readonly<Record<string, unknown>>) => void;
}
