/**
 * What travels through the stages: the request as admitted, the question understood, the answer.
 * Closed unions name every way it can go, so that metrics and headers speak of the same things.
 */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";

import type { Problem, ProblemCode } from "./errors.ts";
import type { Format } from "./interface/media-types.ts";
import type { Resource } from "./interface/resources.ts";
import type { Query, StreamedQuery } from "./query/query.ts";
import type { Route } from "./query/route.ts";

/** A content coding the gateway can send (RFC 9110, section 8.4.1; zstd: RFC 8878). */
export type ContentCoding = "identity" | "gzip" | "br" | "zstd";

/** A request as the edge admitted it. Instants are epoch milliseconds. */
export interface GatewayRequest {
  readonly id: string;
  readonly method: "GET" | "HEAD";
  /** The app that asks, as registered, or `other`: safe as a label. */
  readonly app: string;
  /** How urgent the app's requests are. */
  readonly priority: Priority;
  /** Whether the app may have a fresh answer fetched anew. */
  readonly mayForceRefresh: boolean;
  readonly route: Exclude<Route, { kind: "unknown" }>;
  /** The query string, still percent-encoded and unread. */
  readonly search: string;
  readonly format: Format;
  readonly coding: ContentCoding;
  readonly ifNoneMatch: string | undefined;
  readonly ifModifiedSince: string | undefined;
  readonly directives: CallerDirectives;
  readonly receivedAt: number;
  /** The caller has an answer, or a refusal, by then. */
  readonly deadlineAt: number;
  /** Aborted when the caller hangs up. */
  readonly gone: AbortSignal;
}

/** What a caller asks of the cache (RFC 9111, section 5.2.1). Milliseconds; `undefined`: nothing is asked. */
export interface CallerDirectives {
  /** To be streamed from the upstream, not kept. */
  readonly noStore: boolean;
  /** No answer without asking the upstream. */
  readonly noCache: boolean;
  /** No answer that has to be fetched. */
  readonly onlyIfCached: boolean;
  /** The oldest answer accepted. */
  readonly maxAgeMs: number | undefined;
  /** How long the answer is to be fresh yet. */
  readonly minFreshMs: number | undefined;
  /** For how long it may have been stale; infinity: for any time. */
  readonly maxStaleMs: number | undefined;
  /** For how long it may have been stale where there is no new one (RFC 5861, section 4). */
  readonly staleIfErrorMs: number | undefined;
}

/** What a request without any asks for. */
export const NO_DIRECTIVES: CallerDirectives = {
  noStore: false,
  noCache: false,
  onlyIfCached: false,
  maxAgeMs: undefined,
  minFreshMs: undefined,
  maxStaleMs: undefined,
  staleIfErrorMs: undefined,
};

/** A request whose meaning is known. */
export interface Question<Q extends Query | StreamedQuery = Query> {
  readonly request: GatewayRequest;
  readonly query: Q;
  /** Canonical text; for a streamed query its path. Safe to log and show. */
  readonly text: string;
  readonly key: string;
}

/** By what the upstream tells one version of an answer from another (RFC 9110, section 8.8); as it writes them. */
export interface Validators {
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
}

/** What the upstream's headers say about caching its answer. Milliseconds; `undefined`: they say nothing. */
export interface CachingHeaders {
  readonly mayStore: boolean;
  /** How old the answer was when it came. */
  readonly ageMs: number;
  /** How long it is fresh yet; below zero: for how long it has been stale. */
  readonly freshForMs: number | undefined;
  readonly staleWhileRevalidateMs: number | undefined;
  readonly staleIfErrorMs: number | undefined;
}

/** What every answer of the upstream has. */
interface FetchedHead {
  readonly validators: Validators;
  readonly caching: CachingHeaders;
}

/** A good body, or a 400 or 404 with the problem that says so. */
export interface FetchedAnswer extends FetchedHead {
  readonly status: 200 | 400 | 404;
  /** Ids of the records in the body. */
  readonly recordIds: readonly string[];
  readonly contentType: string;
  readonly body: Buffer;
}

/** What is held has not changed (RFC 9110, section 15.4.5). */
export interface NotModified extends FetchedHead {
  readonly status: 304;
}

/** What an upstream call brought. */
export type Fetched = FetchedAnswer | NotModified;

/** How often an answer was seen to change. */
export interface ChangeRate {
  /** The number of changes seen; older ones weigh less. */
  readonly changes: number;
  /** How long the answer was watched, in milliseconds; older time weighs less. */
  readonly watchedMs: number;
  /** In shadow mode: until when it would be fresh if its lifetime followed its change rate. */
  readonly shadowUntil?: number;
}

/** A stored answer, or one that could have been. Instants are epoch milliseconds. */
export interface Entry {
  readonly status: 200 | 400 | 404;
  readonly contentType: string;
  /** The body in the codings it is held in, at least one; each further one is made once. */
  readonly bodies: Readonly<Partial<Record<ContentCoding, Buffer>>>;
  /** Length of the uncoded body. */
  readonly bodyBytes: number;
  /** Opaque part of the strong validator of the uncoded body (RFC 9110, section 8.8.3), without quotes. */
  readonly etag: string;
  /** The upstream's own, to ask it whether the answer has changed. */
  readonly validators: Validators;
  /** What the answer is about, for purging: `area:76`, `record:123`. */
  readonly tags: readonly string[];
  /** The last purge known when its fetch began: any later one that names it applies (src/cache/store/purges.ts). */
  readonly purgeEpoch: number;
  /** When it was received, or last confirmed by the upstream. */
  readonly storedAt: number;
  /** When the upstream made it: what its age counts from. */
  readonly bornAt: number;
  /** How long it took to be fetched, in milliseconds. */
  readonly fetchMs: number;
  readonly freshUntil: number;
  /** The longest it may be given stale, by the upstream's own word. Milliseconds; absent: it says nothing. */
  readonly upstreamStale: {
    readonly whileRevalidateMs?: number | undefined;
    readonly ifErrorMs?: number | undefined;
  };
  readonly changeRate: ChangeRate;
  /** After this it is of no use to anybody. */
  readonly keepUntil: number;
}

/** Why a good answer was not kept. */
export type WhyNotStored = "too-large" | "newer-stored" | "store-unavailable" | "upstream-no-store";

/** The tiers entries are kept in; also the closed set of the metric label `tier`. */
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
  "beat",
  "take",
  "settle",
  "look",
  "join",
  "ledger",
] as const;
export type StoreOperation = (typeof STORE_OPERATIONS)[number];

/**
 * How the cache came by an answer (RFC 9211, sections 2.1 and 2.2). `stale`: a stale one, where no fresh was to
 * be had, or the caller accepted it; `updating`: a stale one, while it is refreshed.
 */
const CACHE_OUTCOMES = ["hit", "stale", "updating", "miss", "collapsed"] as const;
type CacheOutcome = (typeof CACHE_OUTCOMES)[number];

/** Why the upstream was asked (RFC 9211, section 2.2): nothing was held, it was stale, the caller wanted newer. */
export type Forwarded = "miss" | "stale" | "request";

/** Why a caller gets what is held although it, or the rules, would have liked something newer. */
export type ServeNote =
  | "stale-while-revalidate"
  | "max-stale"
  | "refresh-not-allowed"
  | "refreshed-recently"
  | ProblemCode;

/** What becomes of a request: a cache outcome, or that the cache had no part in it. */
export const OUTCOMES = [...CACHE_OUTCOMES, "bypass", "refused", "failed", "abandoned"] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** An answer from the cache stage. */
export interface Answer {
  readonly entry: Entry;
  readonly outcome: CacheOutcome;
  /** Where it was found, if it was. */
  readonly tier: Tier | undefined;
  readonly stored: true | WhyNotStored;
  /** Why the upstream was asked, where it was. */
  readonly forwarded: Forwarded | undefined;
  /** The status the upstream answered with, where that is not the entry's own: 304. */
  readonly forwardedStatus?: number | undefined;
  /** Why it is not newer; a problem's code: what it takes the place of. */
  readonly note: ServeNote | undefined;
}

/** A request that waits for an upstream call: its app, deadline and priority, and whether the caller hung up. */
export interface Waiter extends Pick<GatewayRequest, "app" | "deadlineAt" | "gone" | "priority"> {
  /** Until when it waits in the queue, if that is earlier than its deadline. Epoch milliseconds. */
  readonly placeBy?: number;
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

/** Whose turn comes first: callers' own requests, then those of background apps, then work nobody waits for. */
export const PRIORITIES = ["interactive", "background", "refresh", "prefetch"] as const;
export type Priority = (typeof PRIORITIES)[number];

export { ORIGINS, type OriginName } from "./interface/resources.ts";

/** The app of all callers that the settings do not list. */
export const OTHER_APP = "other";

/** Why a request gets no permit; the closed set of the metric label `reason`. */
export const REFUSAL_REASONS = ["budget", "share", "per-day", "cool-off", "deadline"] as const;
export type RefusalReason = (typeof REFUSAL_REASONS)[number];

/** What an app has of one window of a budget. Numbers may have fractions; whoever shows them rounds. */
export interface ShareOfWindow {
  /** As written in the settings, e.g. `1m`; or `per-day`, an app's own limit. */
  readonly name: string;
  /** Requests. */
  readonly limit: number;
  readonly windowSeconds: number;
  /** Requests that may go now. */
  readonly remaining: number;
  /** Until more may go than now. */
  readonly resetSeconds: number;
}

/** What is wanted of the upstream, as far as the budget needs to know. */
export interface Order {
  /** The app that started it: it pays, unless the turn of another one that waits for it comes first. */
  readonly app: string;
  readonly cause: Cause;
  readonly resource: Resource;
  /** Canonical text of the query; the ledger keeps a hash of it. */
  readonly text: string;
  readonly waiting: Waiting;
}

/** Why the upstream is to be left alone for a while. */
export type SlowDownCause = "too-many-requests" | "unavailable" | "unreachable";

/** How a send ended. Durations in milliseconds from the departure. */
export interface SendEnd {
  /** HTTP status, or the kind of failure where there was none. */
  readonly status: number | UpstreamFaultKind;
  /** By then it had reached the upstream, or never would: the head of the answer was here, or it had failed. */
  readonly arrivedAfterMs: number;
  readonly durationMs: number;
  /** What the upstream said, or showed, of its state. */
  readonly slowDown?: {
    readonly cause: SlowDownCause;
    /** For how long, where it said so. */
    readonly forMs: number | undefined;
  };
}

/**
 * Runs a job when its turn has come. Rejects, without running it, with `temporary-reduced-capacity`,
 * `quota-exceeded` or `upstream-unavailable` where the turn cannot come before the deadline, or has not come by
 * it all the same. The job says how its send ended.
 */
export type Throttled = <T>(order: Order, job: (ended: (end: SendEnd) => void) => Promise<T>) => Promise<T>;

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

/** Where an answer that is not kept goes: its head through `start`, its body into `response`. */
export interface StreamSink {
  readonly response: ServerResponse;
  /** Sends the response's head, given the upstream's headers. */
  readonly start: (headers: IncomingHttpHeaders) => void;
  /** Told of each piece of the body, in bytes. */
  readonly passed: (bytes: number) => void;
}

/**
 * Why an upstream call was made; the closed set of the metric label `cause`. `refresh`: in the background, for
 * an answer that was asked for; `forced`: because a caller asked for a newer one; `warm`: to keep it warm.
 */
export const CAUSES = ["miss", "retry", "bypass", "refresh", "forced", "warm"] as const;
export type Cause = (typeof CAUSES)[number];

/** One upstream call, for the log and the metrics. Durations in milliseconds. */
export interface UpstreamCallRecord {
  readonly resource: Resource;
  readonly text: string;
  readonly cause: Cause;
  /** HTTP status, or the kind of failure where there was none. */
  readonly status: number | UpstreamFaultKind;
  readonly durationMs: number;
  readonly bytes: number;
  /** For the log alone: never holds a signed URL. */
  readonly note?: string;
}

/** How an upstream call can fail without a usable answer. */
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

/** One request of a caller, for the log and the metrics. */
export interface RequestRecord {
  readonly id: string;
  readonly app: string;
  readonly method: string;
  readonly resource: Resource | "none";
  readonly text: string | undefined;
  readonly status: number;
  readonly outcome: Outcome;
  /** Where a hit was found. */
  readonly tier: Tier | undefined;
  readonly problem: string | undefined;
  readonly durationMs: number;
  readonly bytes: number;
}

/** What fetching brought where something was held before. */
export const CHANGES = ["changed", "unchanged", "not-modified"] as const;
export type Change = (typeof CHANGES)[number];

/**
 * What a refresh would have been if lifetimes followed how fast answers change: `saved`: it would not have been
 * made, and rightly so; `outdated`: likewise, but the answer had changed; `extra`: there would have been one before.
 */
export const SHADOW_EFFECTS = ["saved", "outdated", "extra"] as const;
export type ShadowEffect = (typeof SHADOW_EFFECTS)[number];

/** A refresh, for the metrics. */
export interface RefreshRecord {
  readonly resource: Resource;
  readonly change: Change;
  readonly shadow: ShadowEffect | undefined;
}

/** How a refresh ended; `skipped`: it was not tried, because another was under way. */
export const REFRESH_ENDS = ["refreshed", "refused", "failed", "skipped"] as const;
export type RefreshEnd = (typeof REFRESH_ENDS)[number];

/** Who watches: handed to the stages, so that none of them knows how it is written down. */
export interface Observer {
  readonly request: (record: RequestRecord) => void;
  readonly upstreamCall: (record: UpstreamCallRecord) => void;
  readonly refreshed: (record: RefreshRecord) => void;
  /** An answer that is kept warm was due. */
  readonly warmed: (resource: Resource, end: RefreshEnd) => void;
  /** Something an operator should look at; `fields` never hold a secret. */
  readonly info: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  readonly error: (message: string, fields: Readonly<Record<string, unknown>>) => void;
}
