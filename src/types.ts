/**
 * The types that travel between the stages of a request, and the closed unions that logs, metrics and headers share.
 *
 * In order: the request, the query it asks, the upstream's answer, the cached entry, the answer to the caller, the wait for
 * a permit, the claim among replicas, and the records for logs and metrics.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";

import type { Problem, ProblemCode } from "./errors.ts";
import type { Format } from "./interface/media-types.ts";
import type { Resource } from "./interface/resources.ts";
import type { KnownTarget } from "./query/meanings.ts";
import type { Query, StreamedQuery } from "./query/query.ts";
import type { Route } from "./query/route.ts";

/** A content coding the gateway can send (RFC 9110, section 8.4.1; zstd: RFC 8878). */
export type ContentCoding = "identity" | "gzip" | "br" | "zstd";

/** A request as `admit` accepted it. Instants are epoch milliseconds. */
export interface GatewayRequest {
  readonly id: string;
  readonly method: "GET" | "HEAD";
  /** The id of a registered app, or `other`, so it is safe as a metric label. */
  readonly app: string;
  /** The priority of the app's requests. */
  readonly priority: Priority;
  /** Whether the app may force a new fetch although the cached answer is fresh. */
  readonly mayForceRefresh: boolean;
  readonly route: Exclude<Route, { kind: "unknown" }>;
  /** The raw request target. It may contain a credential: never log it. */
  readonly target: string;
  /** What the target meant before, by format. */
  readonly meanings: KnownTarget["meanings"];
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
  /** @returns a signal, always the same, that is aborted when the caller hangs up */
  readonly gone: () => AbortSignal;
  /** Absent if requests are not traced. */
  readonly trace?: Trace | undefined;
}

/** The caller's `Cache-Control` (RFC 9111, section 5.2.1). Durations in milliseconds; `undefined`: not given. */
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
  /** The highest accepted staleness if a new answer cannot be had (RFC 5861, section 4). */
  readonly staleIfErrorMs: number | undefined;
}

/** The directives of a request that has none. */
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

/** The upstream's validators of an answer, as it writes them (RFC 9110, section 8.8). */
export interface Validators {
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
}

/** What the upstream's headers say about caching an answer. Durations in milliseconds; `undefined`: not given. */
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
  /** Absent from answers that are no page of a list. */
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

/** How often an answer was seen to change. Older observations weigh less. */
export interface ChangeRate {
  /** The weighted number of changes. */
  readonly changes: number;
  /** The weighted time of observation, in milliseconds. */
  readonly watchedMs: number;
  /** With `cache.adaptiveTtl: shadow`: until when the entry would be fresh if its lifetime followed its change rate. */
  readonly shadowUntil?: number;
}

/** A cached answer, or one that could be cached. Instants are epoch milliseconds. */
export interface Entry {
  readonly status: 200 | 400 | 404;
  readonly contentType: string;
  /** The body in at least one coding. Other codings are made on demand and then kept. */
  readonly bodies: Readonly<Partial<Record<ContentCoding, Buffer>>>;
  /** The length of the body without coding. */
  readonly bodyBytes: number;
  /** The strong entity tag of the body without coding (RFC 9110, section 8.8.3), without quotes. */
  readonly etag: string;
  /** The upstream's own validators, for conditional requests. */
  readonly validators: Validators;
  /** Absent from answers that are no page of a list, and from entries that an older version stored. */
  readonly page?: ListPage | undefined;
  /** What the answer contains, for purging: `area:76`, `record:123`. */
  readonly tags: readonly string[];
  /** The latest purge when its fetch began. Later purges apply to the entry (src/cache/store/purges.ts). */
  readonly purgeEpoch: number;
  /** When the answer arrived, or when the upstream last confirmed it. */
  readonly storedAt: number;
  /** When the upstream made the answer. `Age` counts from here. */
  readonly bornAt: number;
  /** How long the fetch took, in milliseconds. */
  readonly fetchMs: number;
  readonly freshUntil: number;
  /** How long the upstream allows it to be served stale, in milliseconds; absent: not given. */
  readonly upstreamStale: {
    readonly whileRevalidateMs?: number | undefined;
    readonly ifErrorMs?: number | undefined;
  };
  readonly changeRate: ChangeRate;
  /** After this instant the entry can be removed. */
  readonly keepUntil: number;
}

/** Why a usable answer was not stored. */
export type WhyNotStored = "too-large" | "newer-stored" | "store-unavailable" | "upstream-no-store";

/** Where entries are stored; the closed set of the metric label `tier`. */
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
  "count",
  "claim",
  "release",
  "renew",
  "beat",
  "take",
  "settle",
  "look",
  "join",
  "ledger",
  "learned",
  "status",
] as const;
export type StoreOperation = (typeof STORE_OPERATIONS)[number];

/**
 * How the cache got an answer (RFC 9211, sections 2.1 and 2.2).
 * - `hit`: it was cached and fresh.
 * - `stale`: it was cached and stale; there was no fresh one, or the caller accepted it.
 * - `updating`: it was cached and stale, and is refreshed in the background.
 * - `miss`: the upstream was asked.
 * - `collapsed`: it came from the upstream call of another request.
 */
const CACHE_OUTCOMES = ["hit", "stale", "updating", "miss", "collapsed"] as const;
type CacheOutcome = (typeof CACHE_OUTCOMES)[number];

/** Why the upstream was asked (RFC 9211, section 2.2): not cached, stale, or the caller wanted a newer answer. */
export type Forwarded = "miss" | "stale" | "request";

/** Why a caller gets the cached answer although a newer one was wanted. */
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
  /** Where it was found, if it was cached. */
  readonly tier: Tier | undefined;
  readonly stored: true | WhyNotStored;
  /** Why the upstream was asked, if it was. */
  readonly forwarded: Forwarded | undefined;
  /** The upstream's status if it differs from the entry's, which means 304. */
  readonly forwardedStatus?: number | undefined;
  /** Why it is not newer. A problem's code means that the caller would otherwise have got that problem. */
  readonly note: ServeNote | undefined;
  /** Under which key memory keeps it, where that is not the question's own. */
  readonly keptAs?: string;
  /** Why it cost no upstream call, where that is not because it was held itself. */
  readonly saved?: PageSaving;
}

/**
 * Why a page cost no upstream call.
 * - `folded`: it was cut from a block that was held.
 * - `past_end`: a block that was held says that there is nothing.
 * - `derived`: it was computed from the held blocks of a broader search.
 */
export type PageSaving = "folded" | "past_end" | "derived";

/** A request that waits for an upstream call: its app, deadline and priority, and whether the caller hung up. */
export interface Waiter extends Pick<GatewayRequest, "app" | "deadlineAt" | "priority"> {
  /** Aborted when the caller hangs up. */
  readonly gone: AbortSignal;
  /** Until when it waits in the queue, if that is earlier than its deadline. Epoch milliseconds. */
  readonly queueDeadlineAt?: number;
}

/** Returns why a waiter is refused at its deadline; `undefined`: the call has left the queue. */
export type RefuseLate = (waiter: Pick<Waiter, "app" | "priority">) => Problem | undefined;

/** The waiters of an upstream call, as far as the queue needs to know them. */
export interface Waiting {
  /** Aborted when nobody waits any more. A queued call is then withdrawn and costs nothing. */
  readonly abandoned: AbortSignal;
  /** When the last waiter gives up, unless the call is sent before. Epoch milliseconds. */
  readonly deadlineAt: () => number;
  /** The priority of the most urgent waiter so far. */
  readonly priority: () => Priority;
  /** The apps that wait now, the longest waiting first; each may pay. */
  readonly apps: () => readonly string[];
  /** Calls back when `priority` becomes more urgent, or `apps` changes while somebody waits. */
  readonly onChange: (listen: () => void) => void;
  /** The call is queued now. A waiter whose deadline passes in the queue is refused by this, once. */
  readonly inQueue: (refuseLate: RefuseLate) => void;
}

/** Most urgent first: requests of callers, requests of background apps, then work that nobody waits for. */
export const PRIORITIES = ["interactive", "background", "refresh", "prefetch"] as const;
export type Priority = (typeof PRIORITIES)[number];

export { ORIGINS, type OriginName } from "./interface/resources.ts";

/** All apps that say no name, or that came when there was no room for another id. */
export const OTHER_APP = "other";

/** Why a request gets no permit; the closed set of the metric label `reason`. */
export const REFUSAL_REASONS = ["budget", "share", "per-day", "cool-off", "deadline"] as const;
export type RefusalReason = (typeof REFUSAL_REASONS)[number];

/** An app's share of one window of a budget. Numbers may have fractions; round them where they are shown. */
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
  /** The app that started it. This app pays, unless another waiting app gets its turn first. */
  readonly app: string;
  readonly cause: Cause;
  readonly resource: Resource;
  /** The canonical query. The ledger stores only a hash of it. */
  readonly query: string;
  readonly waiting: Waiting;
}

/** The state of a circuit breaker. `half-open`: one call tests whether the service is back. */
export type CircuitState = "closed" | "half-open" | "open";

/** How long a request would wait for a permit. Nothing is spent to find out. */
export interface PredictedWait {
  readonly waitMs: number;
  /** The reason for the wait. */
  readonly why: string;
  /** The code of the problem with which it would be refused, if it would be. */
  readonly refusal: string | undefined;
}

/** Why no requests are sent to the upstream for a while. */
type SlowDownCause = "too-many-requests" | "unavailable" | "unreachable";

/** How a request to the upstream ended. Durations in milliseconds, counted from its sending. */
export interface SendEnd {
  /** The HTTP status, or the kind of failure. */
  readonly status: number | UpstreamFaultKind;
  /** When the head of the answer arrived or the request failed. The request reached the upstream before that, or never. */
  readonly arrivedAfterMs: number;
  readonly durationMs: number;
  /** A sign that the upstream needs a pause. */
  readonly slowDown?: {
    readonly cause: SlowDownCause;
    /** The length of the pause, if the upstream named one. */
    readonly forMs: number | undefined;
  };
}

/**
 * Runs a job as soon as the budget permits the request. The job must report how the request ended. Rejects without running
 * the job if no permit will come before the deadline, or has not come by then: with `temporary-reduced-capacity`,
 * `quota-exceeded` or `upstream-unavailable`.
 */
export type Throttled = <T>(
  request: UpstreamRequest,
  job: (ended: (end: SendEnd) => void, permit: SendPermit) => Promise<T>,
) => Promise<T>;

/** The permit of a call, as far as the call needs to know it. */
export interface SendPermit {
  /** Monotonic milliseconds: the call must not be sent later, because it would arrive after its permit has expired. */
  readonly sendBy?: number | undefined;
}

/** What a flight brought, and how. */
export interface FlightResult<T> {
  readonly value: T;
  /** `found`: it was stored already; `fetched`: the upstream was asked; `followed`: another replica asked it. */
  readonly how: "found" | "fetched" | "followed";
}

/** How the flight of another replica ended. */
export type ClaimEnd =
  | { readonly kind: "landed" }
  | { readonly kind: "failed"; readonly problem: Problem }
  /** The leader withdrew or died, or nobody knows: whoever still wants the answer claims again. */
  | { readonly kind: "vacant" };

/** The result of claiming a key: the right to fetch it, or the flight of the replica that has that right. */
export type Claim =
  | { readonly kind: "leader"; readonly release: (end: ClaimEnd) => Promise<void> }
  /** `ended` resolves by message, or when the leader's lease runs out. It never rejects. */
  | { readonly kind: "follower"; readonly ended: Promise<ClaimEnd>; readonly stop: () => void }
  /** Claims are out of order: each replica fetches for itself. */
  | { readonly kind: "unavailable" };

export interface Claims {
  /** Never rejects. */
  readonly claim: (key: string) => Promise<Claim>;
}

/** The destination of an answer that is not cached. */
export interface StreamSink {
  readonly response: ServerResponse;
  /** Sets the status and headers of the response from the upstream's headers. */
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
 * - `warm`: the warm list asks for it.
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

/** The ways in which an upstream call can fail without a complete answer. */
export const UPSTREAM_FAULTS = [
  "connect-timeout",
  "header-timeout",
  "body-timeout",
  "total-timeout",
  "unreachable",
  "reset",
  "malformed",
  "stale-connection",
  "cut-body",
  "too-large",
  "bad-encoding",
] as const;
export type UpstreamFaultKind = (typeof UPSTREAM_FAULTS)[number];

/** One caller's request, for the log and the metrics. */
export interface RequestRecord {
  readonly id: string;
  readonly app: string;
  readonly method: string;
  readonly resource: Resource | "none";
  /** The canonical query, if it was understood. */
  readonly query: string | undefined;
  readonly status: number;
  readonly outcome: Outcome;
  /** Where the answer was found, if it was cached. */
  readonly tier: Tier | undefined;
  /** The code of the problem that was sent, if any. */
  readonly problem: string | undefined;
  readonly durationMs: number;
  readonly bytes: number;
  /** Where a page cost no upstream call because of its block. */
  readonly saved?: PageSaving | undefined;
  /** Of an answer that is no hit: why the upstream was asked. */
  readonly forwarded?: Forwarded | undefined;
  /** Of an answer that is no hit: why it is stale, or was not stored. */
  readonly detail?: ServeNote | WhyNotStored | undefined;
  /** When it arrived; epoch milliseconds. */
  readonly receivedAt: number;
  /** How old the answer from the cache was, in milliseconds; absent from all others. */
  readonly ageMs?: number | undefined;
  /** Of the request's own span, if requests are traced. */
  readonly traceparent?: string | undefined;
}

/** The parts of a request that a trace shows. */
type SpanName = "cache lookup" | "queue wait" | "upstream call";
type SpanValues = Readonly<Record<string, string | number | undefined>>;

/** The trace of a request (OpenTelemetry). */
export interface Trace {
  /** Begins a part of the request. Its end counts once. */
  readonly begin: (
    name: SpanName,
    attributes?: SpanValues,
  ) => { readonly end: (attributes?: SpanValues & { readonly error?: string }) => void };
  /** Of the request itself (W3C Trace Context). */
  readonly traceparent: string;
}

/** A trace as the first stage has it. */
export interface RequestTrace extends Trace {
  readonly end: (record: RequestRecord) => void;
}

/** Traces requests. */
export interface Tracing {
  readonly start: (caller: CallerFacts) => RequestTrace;
  /** Sends what is not sent yet. Never rejects; it may take as long as the collector lets it. */
  readonly close: () => Promise<void>;
}

/** What the access log says of a caller. It is read only if the line is written. */
export type CallerFacts = Pick<IncomingMessage, "headers" | "socket">;

/** Something that the gateway needs is out of order. */
export interface Outage {
  /** What is out of order, such as `Redis` or `upstream api/listings`. */
  readonly what: string;
  /** Why, as far as it is known. */
  readonly cause: string;
  /** What callers get meanwhile, in words. */
  readonly meanwhile: string;
  /** The resources that it concerns; absent: all of them. */
  readonly resources?: readonly Resource[];
}

/** What a check of a page that was cut from a block found; `unknown`: it could not be made. */
export const PAGE_CHECKS = ["agreed", "differed", "unknown"] as const;
export type PageCheck = (typeof PAGE_CHECKS)[number];

/**
 * Keeps what was learned about the upstream, as short texts. They are only ever added, and forgotten after some time.
 * Rejects if the store is out of order.
 */
export interface LearnedStore {
  /** Whether other processes write to it. */
  readonly isShared: boolean;
  /** The texts, and when each was learned, in epoch milliseconds. */
  readonly read: () => Promise<ReadonlyMap<string, number>>;
  /** @param forgetBefore epoch milliseconds: what is older may be dropped */
  readonly add: (facts: readonly string[], at: number, forgetBefore: number) => Promise<void>;
}

/** The result of fetching an answer that was cached already. */
export const CHANGES = ["changed", "unchanged", "not-modified"] as const;
export type Change = (typeof CHANGES)[number];

/**
 * How a refresh would differ if lifetimes followed the change rate (`cache.adaptiveTtl: shadow`).
 * - `saved`: it would not have been made, and the answer had not changed.
 * - `outdated`: it would not have been made, but the answer had changed.
 * - `extra`: another refresh would have been made before it.
 */
export const SHADOW_EFFECTS = ["saved", "outdated", "extra"] as const;
export type ShadowEffect = (typeof SHADOW_EFFECTS)[number];

/** A refresh, for the metrics. */
export interface RefreshRecord {
  readonly resource: Resource;
  readonly change: Change;
  readonly shadow: ShadowEffect | undefined;
}

/** How a refresh ended. `skipped`: another one was in progress. */
export const REFRESH_ENDS = ["refreshed", "refused", "failed", "skipped"] as const;
export type RefreshEnd = (typeof REFRESH_ENDS)[number];

/** Receives everything worth logging or counting. The stages get it passed in and do not know the log or the metrics. */
export interface Observer {
  readonly request: (record: RequestRecord, caller?: CallerFacts) => void;
  readonly upstreamCall: (record: UpstreamCallRecord) => void;
  readonly refreshed: (record: RefreshRecord) => void;
  /** An answer on the warm list was due for a refresh. */
  readonly warmed: (resource: Resource, end: RefreshEnd) => void;
  /** Something went out of order. Further reports of the same outage change nothing. */
  readonly outOfOrder: (outage: Outage) => void;
  /** It is back in order. @param what as in its outage */
  readonly backInOrder: (what: string) => void;
  /** Log messages for operators. `fields` must not contain a secret. */
  readonly info: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  readonly error: (message: string, fields: Readonly<Record<string, unknown>>) => void;
}
