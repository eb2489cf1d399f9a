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
  readonly route: Exclude<Route, { kind: "unknown" }>;
  /** The query string, still percent-encoded and unread. */
  readonly search: string;
  readonly format: Format;
  readonly coding: ContentCoding;
  readonly ifNoneMatch: string | undefined;
  /** `Cache-Control: no-store`: to be streamed from the upstream, not kept (RFC 9111, section 5.2.1.5). */
  readonly noStore: boolean;
  readonly receivedAt: number;
  /** The caller has an answer, or a refusal, by then. */
  readonly deadlineAt: number;
  /** Aborted when the caller hangs up. */
  readonly gone: AbortSignal;
}

/** A request whose meaning is known. */
export interface Question<Q extends Query | StreamedQuery = Query> {
  readonly request: GatewayRequest;
  readonly query: Q;
  /** Canonical text; for a streamed query its path. Safe to log and show. */
  readonly text: string;
  readonly key: string;
}

/** What an upstream call brought: a good body, or a 404 with the problem that says so. */
export interface Fetched {
  readonly status: 200 | 404;
  /** Ids of the records in the body. */
  readonly recordIds: readonly string[];
  readonly contentType: string;
  readonly body: Buffer;
  readonly lastModified: string | undefined;
}

/** A stored answer, or one that could have been. Instants are epoch milliseconds. */
export interface Entry {
  readonly status: 200 | 404;
  readonly contentType: string;
  /** The body in the codings it is held in, at least one; each further one is made once. */
  readonly bodies: Readonly<Partial<Record<ContentCoding, Buffer>>>;
  /** Length of the uncoded body. */
  readonly bodyBytes: number;
  /** Opaque part of the strong validator of the uncoded body (RFC 9110, section 8.8.3), without quotes. */
  readonly etag: string;
  readonly lastModified: string | undefined;
  /** What the answer is about, for purging: `area:76`, `record:123`. */
  readonly tags: readonly string[];
  /** The last purge known when its fetch began: any later one that names it applies (src/cache/purges.ts). */
  readonly purgeEpoch: number;
  readonly storedAt: number;
  readonly freshUntil: number;
  /** After this it is of no use to anybody. */
  readonly keepUntil: number;
}

/** Why a good answer was not kept. */
export type WhyNotStored = "too-large" | "newer-stored" | "store-unavailable";

/** The tiers entries are kept in; also the closed set of the metric label `tier`. */
export const TIERS = ["memory", "sqlite", "redis"] as const;
export type Tier = (typeof TIERS)[number];

/** How the cache came by an answer (RFC 9211, sections 2.1 and 2.2); `stale`: a stale one, where no fresh was to be had. */
const CACHE_OUTCOMES = ["hit", "stale", "miss", "collapsed"] as const;
export type CacheOutcome = (typeof CACHE_OUTCOMES)[number];

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
  /** Why a stale one is given: the problem it takes the place of. */
  readonly insteadOf: ProblemCode | undefined;
}

/** Who waits for an upstream call, as far as the queue in front of it needs to know. */
export interface Waiting {
  /** Aborted when nobody waits any more: a queued call is then withdrawn and spends nothing. */
  readonly abandoned: AbortSignal;
  /** Epoch milliseconds: when the last one who waits gives up. */
  readonly deadlineAt: () => number;
}

/** Whose turn comes first: callers' own requests, then those of background apps, then work nobody waits for. */
export const PRIORITIES = ["interactive", "background", "refresh", "prefetch"] as const;
export type Priority = (typeof PRIORITIES)[number];

/** The parts of the upstream, each with a budget of its own (interface, sections 1 and 4.5). */
export const ORIGINS = ["api", "images"] as const;
export type OriginName = (typeof ORIGINS)[number];

/** What an app has of one window of a budget. Numbers may have fractions; whoever shows them rounds. */
export interface ShareOfWindow {
  /** As written in the settings, e.g. `1m`. */
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
  /** Whose share pays: the app that started it. */
  readonly app: string;
  readonly priority: Priority;
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
 * `quota-exceeded` or `upstream-unavailable` where the turn cannot come before the deadline, and with
 * `deadline-exceeded` where it has not come by the deadline all the same. The job says how its send ended.
 */
export type Throttled = <T>(order: Order, job: (ended: (end: SendEnd) => void) => Promise<T>) => Promise<T>;

/** How another replica's flight ended, or that it has ended without saying so. */
export type ClaimEnd =
  | { readonly kind: "landed" }
  | { readonly kind: "failed"; readonly problem: Problem }
  /** Withdrawn, or its replica died: whoever still wants the answer claims anew. */
  | { readonly kind: "vacant" };

/** The claim to be the one replica that fetches a key. */
export type Claim =
  | { readonly kind: "leader"; readonly release: (end: ClaimEnd) => Promise<void> }
  /** `ended` resolves by message, or when the leader's lease runs out; it never rejects. */
  | { readonly kind: "follower"; readonly ended: Promise<ClaimEnd>; readonly stop: () => void }
  /** The service of claims is out of order: everyone for himself. */
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

/** Why an upstream call was made; the closed set of the metric label `cause`. */
export const CAUSES = ["miss", "retry", "bypass"] as const;
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

/** Who watches: handed to the stages, so that none of them knows how it is written down. */
export interface Observer {
  readonly request: (record: RequestRecord) => void;
  readonly upstreamCall: (record: UpstreamCallRecord) => void;
  /** Something an operator should look at; `fields` never hold a secret. */
  readonly info: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  readonly error: (message: string, fields: Readonly<Record<string, unknown>>) => void;
}
