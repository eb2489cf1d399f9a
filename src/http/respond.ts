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
  /** Does the same at once, if the body exists in the caller's coding. @returns whether it was sent */
  answerAtOnce(arrival: Arrival, question: Question, answer: Answer, response: ServerResponse): boolean;
  /** @returns the destination of an answer that is not cached */
  stream(arrival: Arrival, question: Question<Query | StreamedQuery>, response: ServerResponse): StreamSink;
  /** Sends a problem. */
  problem(arrival: Arrival, problem: Problem, response: ServerResponse): void;
}

export function createRespond(options: RespondOptions): Respond {
  const callerHeaders = createCallerHeaders(options);
  const send = createSendAnswer(callerHeaders);

  function choose({ request }: Question, { entry }: Answer): Chosen {
    const now = options.now();
    const coding = options.isCompressible(entry) ? request.coding : "identity";
    return { now, coding, isUnchanged: isUnchanged(request, entry, now) };
  }

  return {
    async answer(arrival, question, answer, response) {
      const { entry, keptAs = question.key } = answer;
      const chosen = choose(question, answer);
      const body = chosen.isUnchanged ? NOTHING : await options.encode(keptAs, entry, chosen.coding);
      send(arrival, question, answer, response, chosen, body);
    },

    answerAtOnce(arrival, question, answer, response) {
      const chosen = choose(question, answer);
      const body = chosen.isUnchanged ? NOTHING : answer.entry.bodies[chosen.coding];
      if (body === undefined) return false;
      send(arrival, question, answer, response, chosen, body);
      return true;
    },

    stream: (arrival, question, response) => ({
      response,
      start: (headers) => {
        setHeaders(response, callerHeaders(arrival));
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
      setHeaders(response, callerHeaders(arrival, problem));
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

/** Names and values in turn, as `writeHead` takes them. One array is cheaper than a call per header. */
type Head = string[];

function setHeaders(response: ServerResponse, head: Head): void {
  for (let at = 0; at < head.length; at += 2) response.setHeader(head[at] ?? "", head[at + 1] ?? "");
}

/** @returns the headers about a request and its app's budget, which every response carries */
type CallerHeaders = (arrival: Arrival, problem?: Problem) => Head;

function createCallerHeaders({ share }: RespondOptions): CallerHeaders {
  const rateLimitHeaders = createRateLimitHeaders();
  return ({ id, app, resource, preferenceApplied }, problem) => {
    const head = ["X-Request-Id", id];
    if (preferenceApplied !== undefined) head.push("Preference-Applied", preferenceApplied);
    if (resource === "none") return head;
    const shares = share(app, resource);
    const isRefusedFor = problem !== undefined && BUDGET_PROBLEMS.has(problem.code);
    const headers = rateLimitHeaders(
      isRefusedFor ? withNothingLeft(shares, problem.details.retryAfterSeconds ?? 1) : shares,
    );
    if (headers !== undefined) head.push("RateLimit-Policy", headers.policy, "RateLimit", headers.limit);
    return head;
  };
}

/** How an answer is sent. */
interface Chosen {
  readonly now: number;
  readonly coding: ContentCoding;
  /** The caller has it already. */
  readonly isUnchanged: boolean;
}

const NOTHING = Buffer.alloc(0);

type SendAnswer = (
  arrival: Arrival,
  question: Question,
  answer: Answer,
  response: ServerResponse,
  chosen: Chosen,
  body: Buffer,
) => void;

/** @returns the one place that decides the headers of answers, whether they are sent at once or later */
function createSendAnswer(callerHeaders: CallerHeaders): SendAnswer {
  return (arrival, question, answer, response, { now, coding, isUnchanged: isNotModified }, body) => {
    const { entry } = answer;
    arrival.outcome = answer.outcome;
    arrival.tier = answer.tier;
    arrival.saved = answer.saved;
    if (answer.outcome !== "hit") {
      arrival.forwarded = answer.forwarded;
      arrival.detail = answer.note ?? (answer.stored === true ? undefined : answer.stored);
    }
    const head = callerHeaders(arrival);
    addEntryHeaders(head, question, answer, coding, now);
    if (isNotModified) {
      response.writeHead(304, head).end();
      return;
    }
    head.push("Content-Type", entry.contentType);
    if (coding !== "identity") head.push("Content-Encoding", coding);
    head.push("Content-Length", String(body.length));
    // Node itself omits the body of a response to HEAD. `Content-Length` stays.
    arrival.bytes = question.request.method === "HEAD" ? 0 : body.length;
    response.writeHead(entry.status, head).end(body);
  };
}

export type Refuse = (arrival: Arrival, error: unknown, response: ServerResponse) => void;

/** @returns the stage that ends every failed request: with a problem for the caller, and a log line if it is a bug */
export function createRefuse(respond: Pick<Respond, "problem">, observer: Observer): Refuse {
  return function refuse(arrival, error, response) {
    // No problem can be sent any more: the caller hung up, or the head of the response is out.
    if (arrival.gone().aborted || response.headersSent) {
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
 * Adds the headers of a cached answer. `Age` is the true age of the entry, and `max-age` is the rest of its lifetime. A
 * stale answer has `max-age=0`. Its `ttl` is negative if it has expired, and 0 if a purge made it stale (RFC 9211,
 * section 2.5).
 */
function addEntryHeaders(
  head: Head,
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
  head.push(
    "Cache-Status",
    cacheStatus(answer, ttlSeconds, question),
    "Age",
    String(ageSeconds),
    "Cache-Control",
    isKept ? `max-age=${Math.max(0, ttlSeconds)}` : "no-store",
    "ETag",
    `"${tagFor(entry, coding)}"`,
    "Vary",
    "Accept, Accept-Encoding",
  );
  const { lastModified } = entry.validators;
  if (lastModified !== undefined) head.push("Last-Modified", lastModified);
}

/** Whether the caller has the answer already. Dates count only without entity tags (RFC 9110, section 13.2.2). */
function isUnchanged({ ifNoneMatch, ifModifiedSince }: GatewayRequest, entry: Entry, now: number): boolean {
  if (entry.status !== 200) return false;
  if (ifNoneMatch !== undefined) return noneMatchNames(ifNoneMatch, tagsOf(entry));
  if (ifModifiedSince === undefined) return false;
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
