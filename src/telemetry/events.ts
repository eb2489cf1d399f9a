/**
 * The events that the parts report, and the closed sets of names in them. Log, metrics, traces and the status page all read
 * these. A set that is a metric's label must stay closed, so it is declared here.
 */
import type { ProblemCode } from "../errors.ts";
import { type OriginName, type Resource, resourcesOf } from "../interface/resources.ts";
import type { IncomingMessage } from "node:http";

/** Why a usable answer was not stored. */
export type WhyNotStored = "too-large" | "newer-stored" | "store-unavailable" | "upstream-no-store";

/** The stores of entries; the closed set of the metric label `tier`. */
export const TIERS = ["memory", "sqlite", "redis"] as const;
export type Tier = (typeof TIERS)[number];

const CACHE_OPERATIONS = ["get", "set", "remove", "purge", "purges", "claim", "release", "renew"] as const;
const BUDGET_OPERATIONS = ["take", "settle", "look", "ledger"] as const;
/** The timed operations on SQLite and Redis; the closed set of the metric label `operation`. */
export const STORE_OPERATIONS = [...CACHE_OPERATIONS, ...BUDGET_OPERATIONS, "status"] as const;
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
export type CacheOutcome = (typeof CACHE_OUTCOMES)[number];

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

/**
 * Why a page cost no upstream call.
 * - `folded`: it was cut from a cached block.
 * - `past_end`: a cached block shows that the list ends before this page.
 */
export type PageSaving = "folded" | "past_end";

/** The most urgent first: requests of callers, requests of background apps, then work without a waiting caller. */
export const PRIORITIES = ["interactive", "background", "refresh", "prefetch"] as const;
export type Priority = (typeof PRIORITIES)[number];

/** The smaller the number, the more urgent. */
export const urgencyOf = (priority: Priority): number => PRIORITIES.indexOf(priority);

/** The id for all requests without an app id, and for all ids beyond 100 unlisted ones. */
export const OTHER_APP = "other";

/** Why a request gets no permit; the closed set of the metric label `reason`. */
export const REFUSAL_REASONS = ["budget", "share", "per-day", "cool-off", "redis-away", "deadline"] as const;
export type RefusalReason = (typeof REFUSAL_REASONS)[number];

/** The states of a circuit breaker, with their values in metrics. `half-open`: one call tests whether the service is back. */
export const CIRCUIT_STATES = { closed: 0, "half-open": 1, open: 2 } as const;
export type CircuitState = keyof typeof CIRCUIT_STATES;

/** The part of an address of the upstream that a circuit stops: all of it, or one resource. */
export type CircuitScope = "origin" | Resource;

/** The scopes of an address: each may have a circuit. */
export function scopesOf(origin: OriginName): CircuitScope[] {
  return ["origin", ...resourcesOf(origin)];
}

/** The name of a circuit, such as `api/all`; the closed set of the metric label `circuit`. */
export function circuitLabel(origin: OriginName, scope: CircuitScope): string {
  return `${origin}/${scope === "origin" ? "all" : scope}`;
}

/**
 * Why an upstream call was made; the closed set of the metric label `cause`.
 * - `miss`: the answer was not cached, or not fresh.
 * - `retry`: the first attempt failed.
 * - `bypass`: the answer is passed through, not cached.
 * - `refresh`: a cached answer is refreshed or checked in the background.
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
  /** Why it failed, for the log and the status page. It never contains a signed URL. */
  readonly note?: string;
}

const NETWORK_FAULTS = ["unreachable", "no-descriptor", "reset", "stale-connection"] as const;
const TIMEOUTS = ["connect-timeout", "header-timeout", "body-timeout", "total-timeout"] as const;
const UNUSABLE_ANSWERS = ["malformed", "cut-body", "too-large", "bad-encoding"] as const;
/**
 * The faults that leave an upstream call without a complete answer. `given-up`: its caller hung up, or could not wait any longer.
 * This says nothing about the upstream.
 */
export const UPSTREAM_FAULTS = [...TIMEOUTS, ...NETWORK_FAULTS, ...UNUSABLE_ANSWERS, "given-up"] as const;
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
  readonly problem: ProblemCode | undefined;
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
  /** The W3C Trace Context of the request's span, if requests are traced. */
  readonly traceparent?: string | undefined;
}

/** The parts of a request that a trace shows. */
type SpanName = "cache lookup" | "queue wait" | "upstream call";

export type SpanValues = Readonly<Record<string, string | number | undefined>>;

/** The trace of a request (OpenTelemetry). */
export interface Trace {
  /** Begins a part of the request. Only the first call of `end` counts. */
  readonly begin: (
    name: SpanName,
    attributes?: SpanValues,
  ) => { readonly end: (attributes?: SpanValues & { readonly error?: string }) => void };
}

/** What the access log shows about a caller. It is read only if the log writes a line. */
export type CallerFacts = Pick<IncomingMessage, "headers" | "socket">;

/** An outage of something that the gateway needs. */
export interface Outage {
  /** What does not work, such as `Redis` or `upstream api/listings`. */
  readonly what: string;
  /** The cause, as far as it is known. */
  readonly cause: string;
  /** What it means for callers or operators, and what to do. */
  readonly meanwhile: string;
  /** The affected resources; absent: all of them. */
  readonly resources?: readonly Resource[];
}

/** An outage that has not ended. `since`: epoch milliseconds. */
export type CurrentOutage = Pick<Outage, "what" | "cause" | "meanwhile"> & { readonly since: number };

/** Why a request needed no upstream call of its own. */
export const SAVINGS = ["hit", "collapsed", "folded", "past_end", "refused"] as const;
type Saving = (typeof SAVINGS)[number];

/** Why a request needed no call; `undefined`: it needed a call, got no answer, or asked for a page of the gateway. */
export function savingOf({ saved, outcome, problem, resource }: RequestRecord): Saving | undefined {
  if (saved !== undefined) return saved;
  if (problem === "invalid-query") return "refused";
  if (resource === "none") return undefined;
  return outcome === "hit" || outcome === "collapsed" ? outcome : undefined;
}

/** The results of a reload of the settings. */
export const RELOAD_RESULTS = ["applied", "invalid", "restart-needed"] as const;

/** The result of comparing a page from a block with the upstream's own page. `unknown`: the check failed. */
export const PAGE_CHECKS = ["agreed", "differed", "unknown"] as const;
export type PageCheck = (typeof PAGE_CHECKS)[number];

/** The result of fetching an answer that was already cached. */
export const CHANGES = ["changed", "unchanged", "not-modified"] as const;
export type Change = (typeof CHANGES)[number];

/** How a refresh ended. `skipped`: another one was in progress. */
export const REFRESH_ENDS = ["refreshed", "refused", "failed", "skipped"] as const;
export type RefreshEnd = (typeof REFRESH_ENDS)[number];

/** Receives all events for logs and metrics. It is passed to the stages, so that they need neither the log nor the metrics. */
export interface Observer {
  readonly request: (record: RequestRecord, caller?: CallerFacts) => void;
  readonly upstreamCall: (record: UpstreamCallRecord) => void;
  /** An answer was fetched that was already cached. */
  readonly refreshed: (resource: Resource, change: Change) => void;
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
