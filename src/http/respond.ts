/**
 * respond and refuse: the last stages. Here an answer, a stream or an error becomes a response: headers, content coding,
 * 304, `Cache-Status`.
 */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";

import { Problem, type ProblemCode } from "../errors.ts";
import type {
  Answer,
  ContentCoding,
  Entry,
  GatewayRequest,
  Observer,
  Outcome,
  Question,
  ShareOfWindow,
  StreamSink,
} from "../types.ts";
import { httpDateMs } from "../http-fields.ts";
import type { Resource } from "../interface/resources.ts";
import { looksLikeCredential } from "../query/credentials.ts";
import type { Query, StreamedQuery } from "../query/query.ts";
import type { Arrival } from "./arrive.ts";
import { noneMatchNames } from "./negotiate.ts";
import { CACHE_NAME, problemResponse } from "./problem-response.ts";
import { createRateLimitHeaders, withNothingLeft } from "./rate-limit-headers.ts";

export interface RespondOptions {
  readonly now: () => number;
  /** @returns an entry's body in a coding, encoded once and then remembered */
  readonly encode: (key: string, entry: Entry, coding: ContentCoding) => Promise<Buffer>;
  readonly isCompressible: (entry: Entry) => boolean;
  /**
   * @returns an app's share of each window of the budget that pays for a resource. If it is empty, the response says
   *   nothing about the budget. The same array means the same share, and is rendered once.
   */
  readonly share: (app: string, resource: Resource) => readonly ShareOfWindow[];
  /** Seconds until the upstream is asked again, where a circuit leaves it alone. */
  readonly retryAfterSeconds?: (resource: Resource) => number | undefined;
}

export interface Respond {
  /** Sends an answer from the cache stage. */
  answer(arrival: Arrival, question: Question, answer: Answer, response: ServerResponse): Promise<void>;
  /** @returns the destination of an answer that is not cached */
  stream(arrival: Arrival, question: Question<Query | StreamedQuery>, response: ServerResponse): StreamSink;
  /** Sends a problem. */
  problem(arrival: Arrival, problem: Problem, response: ServerResponse): void;
}

export function createRespond(options: RespondOptions): Respond {
  const rateLimitHeaders = createRateLimitHeaders();

  /** Sets the headers about the caller's preference and budget, which every response carries. */
  function setCallerHeaders(
    { app, resource, preferenceApplied }: Arrival,
    response: ServerResponse,
    problem?: Problem,
  ): void {
    if (preferenceApplied !== undefined) response.setHeader("Preference-Applied", preferenceApplied);
    if (resource === "none") return;
    const shares = options.share(app, resource);
    const refusedFor = problem !== undefined && BUDGET_PROBLEMS.has(problem.code);
    const { retryAfterSeconds = 1 } = problem?.details ?? {};
    const headers = rateLimitHeaders(refusedFor ? withNothingLeft(shares, retryAfterSeconds) : shares);
    if (headers === undefined) return;
    response.setHeader("RateLimit-Policy", headers.policy);
    response.setHeader("RateLimit", headers.limit);
  }

  return {
    async answer(arrival, question, answer, response) {
      const { request, key } = question;
      const { entry, outcome, tier, saved, keptAs = key } = answer;
      Object.assign(arrival, { outcome, tier, saved });
      const coding = options.isCompressible(entry) ? request.coding : "identity";
      setCallerHeaders(arrival, response);
      const now = options.now();
      setEntryHeaders(response, question, answer, coding, now);
      if (entry.status === 200 && isUnchanged(request, entry, now)) {
        response.writeHead(304).end();
        return;
      }
      const body = await options.encode(keptAs, entry, coding);
      response.setHeader("Content-Type", entry.contentType);
      if (coding !== "identity") response.setHeader("Content-Encoding", coding);
      send(arrival, request, response, entry.status, body);
    },

    stream: (arrival, question, response) => ({
      response,
      start: (headers) => {
        setCallerHeaders(arrival, response);
        setStreamHeaders(arrival, question, headers, response);
      },
      passed: (bytes) => {
        arrival.bytes += bytes;
      },
    }),

    problem(arrival, problem, response) {
      arrival.problem = problem.code;
      arrival.outcome = outcomeOf(problem);
      const forwarded = arrival.outcome !== "refused";
      const told = withRetryAfter(problem, arrival.resource, options);
      const { status, headers, body } = problemResponse(told, arrival.id, forwarded);
      setCallerHeaders(arrival, response, problem);
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      response.statusCode = status;
      arrival.bytes = body.length;
      response.end(body);
    },
  };
}

/** A 502 or 504 says when to come again, if that is known. */
function withRetryAfter(
  problem: Problem,
  resource: Arrival["resource"],
  { retryAfterSeconds }: RespondOptions,
): Problem {
  const { status, details } = problem;
  if ((status !== 502 && status !== 504) || resource === "none" || details.retryAfterSeconds !== undefined)
    return problem;
  const seconds = retryAfterSeconds?.(resource);
  return seconds === undefined
    ? problem
    : new Problem(problem.code, { ...details, retryAfterSeconds: seconds });
}

/** Refused because the budget, or the app's share of it, is used up. */
const BUDGET_PROBLEMS: ReadonlySet<ProblemCode> = new Set(["quota-exceeded", "temporary-reduced-capacity"]);

export type Refuse = (arrival: Arrival, error: unknown, response: ServerResponse) => void;

/** @returns the stage that ends every failed request: with a problem for the caller, and a log line if it is a bug */
export function createRefuse(respond: Pick<Respond, "problem">, observer: Observer): Refuse {
  return function refuse(arrival, error, response) {
    // No problem can be sent any more: the caller hung up, or the head of the response is out.
    if (arrival.gone.aborted || response.headersSent) {
      response.destroy();
      return;
    }
    if (error instanceof Problem) {
      respond.problem(arrival, error, response);
      return;
    }
    observer.error("A request ended in an unexpected error. This is a bug in the gateway.", {
      requestId: arrival.id,
      query: arrival.query,
      err: error,
    });
    respond.problem(arrival, new Problem("internal-error"), response);
  };
}

/** Node itself omits the body of a response to HEAD. `Content-Length` stays. */
function send(
  arrival: Arrival,
  request: GatewayRequest,
  response: ServerResponse,
  status: number,
  body: Buffer,
): void {
  response.setHeader("Content-Length", String(body.length));
  response.statusCode = status;
  arrival.bytes = request.method === "HEAD" ? 0 : body.length;
  response.end(body);
}

/** Sets the status and headers of a streamed answer. */
function setStreamHeaders(
  arrival: Arrival,
  question: Question<Query | StreamedQuery>,
  headers: IncomingHttpHeaders,
  response: ServerResponse,
): void {
  arrival.outcome = "bypass";
  const why = question.query.kind === "streamed" ? "bypass" : "request";
  response.setHeader(
    "Cache-Status",
    `${CACHE_NAME}; fwd=${why}; fwd-status=200; key="${shownKey(question)}"`,
  );
  response.setHeader("Cache-Control", "no-store");
  response.setHeader("Age", "0");
  for (const name of ["content-type", "content-length", "last-modified", "etag"]) {
    const value = headers[name];
    if (value !== undefined) response.setHeader(name, value);
  }
  response.statusCode = 200;
}

/**
 * Sets the headers of a cached answer. `Age` is the true age of the entry, and `max-age` is the rest of its lifetime. A
 * stale answer has `max-age=0`. Its `ttl` is negative if it has expired, and 0 if a purge made it stale (RFC 9211,
 * section 2.5).
 */
function setEntryHeaders(
  response: ServerResponse,
  question: Question,
  answer: Answer,
  coding: ContentCoding,
  now: number,
): void {
  const { entry } = answer;
  const ageSeconds = Math.max(0, Math.floor((now - entry.bornAt) / 1000));
  const leftSeconds = Math.floor((entry.freshUntil - now) / 1000);
  // If the gateway may not store the answer, its callers may not either.
  const isKept = answer.stored !== "upstream-no-store";
  const isStale = answer.outcome === "stale" || answer.outcome === "updating";
  const ttlSeconds = isStale || !isKept ? Math.min(0, leftSeconds) : Math.max(0, leftSeconds);
  response.setHeader("Cache-Status", cacheStatus(answer, ttlSeconds, question));
  response.setHeader("Age", String(ageSeconds));
  response.setHeader("Cache-Control", isKept ? `max-age=${Math.max(0, ttlSeconds)}` : "no-store");
  response.setHeader("ETag", `"${tagFor(entry, coding)}"`);
  response.setHeader("Vary", "Accept, Accept-Encoding");
  const { lastModified } = entry.validators;
  if (lastModified !== undefined) response.setHeader("Last-Modified", lastModified);
}

/** Whether the caller has the answer already. Dates count only without entity tags (RFC 9110, section 13.2.2). */
function isUnchanged({ ifNoneMatch, ifModifiedSince }: GatewayRequest, entry: Entry, now: number): boolean {
  if (ifNoneMatch !== undefined) return noneMatchNames(ifNoneMatch, tagsOf(entry));
  const since = httpDateMs(ifModifiedSince, now);
  const modifiedAt = httpDateMs(entry.validators.lastModified, now);
  return since !== undefined && modifiedAt !== undefined && since >= modifiedAt;
}

/** @returns the entity tag of a coding: strong tags must differ between codings (RFC 9110, section 8.8.3.3) */
function tagFor(entry: Entry, coding: ContentCoding): string {
  return coding === "identity" ? entry.etag : `${entry.etag}-${coding}`;
}

function tagsOf(entry: Entry): string[] {
  return (["identity", "gzip", "br", "zstd"] as const).map((coding) => tagFor(entry, coding));
}

/** @returns the value of `Cache-Status` (RFC 9211, section 2) */
function cacheStatus(answer: Answer, ttlSeconds: number, question: Question): string {
  const { outcome, forwarded, forwardedStatus, stored, tier, entry, note } = answer;
  const parts = [CACHE_NAME];
  if (forwarded === undefined) parts.push("hit");
  else {
    parts.push(`fwd=${forwarded}`, `fwd-status=${forwardedStatus ?? entry.status}`);
    if (outcome === "collapsed") parts.push("collapsed");
    if (stored === true) parts.push("stored");
  }
  parts.push(`ttl=${ttlSeconds}`, `key="${shownKey(question)}"`);
  const detail = note ?? (stored === true ? tier : stored);
  if (detail !== undefined) parts.push(`detail=${detail}`);
  return parts.join("; ");
}

const LONGEST_SHOWN_KEY = 1024;

/**
 * The key as `Cache-Status` shows it. It needs no escapes, because a canonical query is ASCII without quotes and
 * backslashes (RFC 9651). It is hidden if an undocumented parameter or a path that is passed through may contain a
 * credential (query/credentials.ts).
 */
function shownKey({ canonicalQuery, query }: Question<Query | StreamedQuery>): string {
  const isUndocumented = query.kind === "streamed" || query.extras.length > 0;
  if (isUndocumented && canonicalQuery.split(/[/?&=]/).some((part) => looksLikeCredential(part)))
    return "[not shown]";
  return canonicalQuery.length > LONGEST_SHOWN_KEY
    ? `${canonicalQuery.slice(0, LONGEST_SHOWN_KEY)}...`
    : canonicalQuery;
}

/** @returns the outcome of a request that ended with this problem, for logs and metrics */
function outcomeOf(problem: Problem): Outcome {
  if (problem.code === "upstream-rejected" || problem.code === "not-found") return "miss";
  if (problem.details.refusedHere === true) return "refused";
  if (problem.code === "temporary-reduced-capacity" || problem.code === "not-in-cache") return "refused";
  return problem.status < 500 ? "refused" : "failed";
}
