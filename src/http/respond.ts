/**
 * respond: headers, content coding, 304, Cache-Status; the one place where an answer becomes a response.
 */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";

import type { Problem } from "../errors.ts";
import type {
  Answer,
  ContentCoding,
  Entry,
  GatewayRequest,
  Outcome,
  Question,
  ShareOfWindow,
  StreamSink,
} from "../types.ts";
import { httpDateMs } from "../http-date.ts";
import type { Resource } from "../interface/resources.ts";
import { looksLikeCredential } from "../query/credentials.ts";
import type { Query, StreamedQuery } from "../query/query.ts";
import type { Arrival } from "./arrive.ts";
import { noneMatchNames } from "./negotiate.ts";
import { CACHE_NAME, problemMessage } from "./problem-message.ts";
import { createRateLimitHeaders } from "./rate-limit.ts";

export interface RespondOptions {
  readonly now: () => number;
  /** An entry's body in a coding, made once and kept. */
  readonly encode: (key: string, entry: Entry, coding: ContentCoding) => Promise<Buffer>;
  readonly isCompressible: (entry: Entry) => boolean;
  /**
   * What an app has of each window of the budget that pays for a resource; none: nothing is said of it.
   * The same array stands for the same share, and is rendered once.
   */
  readonly share: (app: string, resource: Resource) => readonly ShareOfWindow[];
}

export interface Respond {
  /** Sends an answer from the cache stage. */
  answer(arrival: Arrival, question: Question, answer: Answer, response: ServerResponse): Promise<void>;
  /** Where an answer that is not kept is streamed to. */
  stream(arrival: Arrival, question: Question<Query | StreamedQuery>, response: ServerResponse): StreamSink;
  /** Sends a problem. */
  problem(arrival: Arrival, problem: Problem, response: ServerResponse): void;
}

export function createRespond(options: RespondOptions): Respond {
  const rateLimitHeaders = createRateLimitHeaders();

  /** What every response says of the agreement with its caller. */
  function setTerms({ app, resource, preferenceApplied }: Arrival, response: ServerResponse): void {
    if (preferenceApplied !== undefined) response.setHeader("Preference-Applied", preferenceApplied);
    const headers = resource === "none" ? undefined : rateLimitHeaders(options.share(app, resource));
    if (headers === undefined) return;
    response.setHeader("RateLimit-Policy", headers.policy);
    response.setHeader("RateLimit", headers.limit);
  }

  return {
    async answer(arrival, question, answer, response) {
      const { request, key } = question;
      const { entry } = answer;
      arrival.outcome = answer.outcome;
      arrival.tier = answer.tier;
      const coding = options.isCompressible(entry) ? request.coding : "identity";
      setTerms(arrival, response);
      setEntryHeaders(response, question, answer, coding, options.now());
      if (entry.status === 200 && isUnchanged(request, entry)) {
        response.writeHead(304).end();
        return;
      }
      const body = await options.encode(key, entry, coding);
      response.setHeader("Content-Type", entry.contentType);
      if (coding !== "identity") response.setHeader("Content-Encoding", coding);
      send(arrival, request, response, entry.status, body);
    },

    stream: (arrival, question, response) => ({
      response,
      start: (headers) => {
        setTerms(arrival, response);
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
      const { status, headers, body } = problemMessage(problem, arrival.id, forwarded);
      setTerms(arrival, response);
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      response.statusCode = status;
      arrival.bytes = body.length;
      response.end(body);
    },
  };
}

/** Node itself leaves the body out of a response to HEAD; its length stays. */
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

/** The head of an answer that is streamed; its body follows from elsewhere. */
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
 * `max-age` is what is left, as the contract with callers says; `Age` is the entry's true age. Of a stale
 * answer nothing is left, also where a purge and not its age made it stale; then `ttl` is 0, else negative:
 * how long ago it expired (RFC 9211, section 2.5).
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
  // What the gateway may not keep its callers are not told to keep either.
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

/** Whether the caller has it already; dates count only where no tags are given (RFC 9110, section 13.2.2). */
function isUnchanged({ ifNoneMatch, ifModifiedSince }: GatewayRequest, entry: Entry): boolean {
  if (ifNoneMatch !== undefined) return noneMatchNames(ifNoneMatch, tagsOf(entry));
  const since = httpDateMs(ifModifiedSince);
  const modifiedAt = httpDateMs(entry.validators.lastModified);
  return since !== undefined && modifiedAt !== undefined && since >= modifiedAt;
}

/** A strong validator differs between codings (RFC 9110, section 8.8.3.3). */
function tagFor(entry: Entry, coding: ContentCoding): string {
  return coding === "identity" ? entry.etag : `${entry.etag}-${coding}`;
}

function tagsOf(entry: Entry): string[] {
  return (["identity", "gzip", "br", "zstd"] as const).map((coding) => tagFor(entry, coding));
}

/** What became of the request, in the terms of RFC 9211, section 2. */
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
 * Canonical text is ASCII without quotes and backslashes, so it is a valid sf-string (RFC 9651). What callers invent,
 * an undocumented parameter or a path that is passed through, may hold a credential (query/credentials.ts).
 */
function shownKey({ text, query }: Question<Query | StreamedQuery>): string {
  const isInvented = query.kind === "streamed" || query.extras.length > 0;
  if (isInvented && text.split(/[/?&=]/).some((part) => looksLikeCredential(part))) return "[not shown]";
  return text.length > LONGEST_SHOWN_KEY ? `${text.slice(0, LONGEST_SHOWN_KEY)}...` : text;
}

/** What the problem says about how the request went. */
function outcomeOf(problem: Problem): Outcome {
  if (problem.code === "upstream-rejected" || problem.code === "not-found") return "miss";
  if (problem.details.refusedHere === true) return "refused";
  if (problem.code === "temporary-reduced-capacity" || problem.code === "not-in-cache") return "refused";
  return problem.status < 500 ? "refused" : "failed";
}
