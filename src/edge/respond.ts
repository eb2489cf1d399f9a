/**
 * respond: headers, content coding, 304, Cache-Status; the one place where an answer becomes a response.
 */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";

import type { Problem } from "../errors.ts";
import type {
  Answer,
  CacheOutcome,
  ContentCoding,
  Entry,
  GatewayRequest,
  Outcome,
  Question,
  StreamSink,
} from "../exchange.ts";
import type { Query, StreamedQuery } from "../query/query.ts";
import type { Arrival } from "./arrival.ts";
import { noneMatchNames } from "./negotiate.ts";
import { CACHE_NAME, problemMessage } from "./problem-message.ts";

export interface RespondOptions {
  readonly now: () => number;
  /** An entry's body in a coding, made once and kept. */
  readonly encode: (key: string, entry: Entry, coding: ContentCoding) => Promise<Buffer>;
  readonly isCompressible: (entry: Entry) => boolean;
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
  return {
    async answer(arrival, question, answer, response) {
      const { request, key } = question;
      const { entry } = answer;
      arrival.outcome = answer.outcome;
      arrival.tier = answer.tier;
      const coding = options.isCompressible(entry) ? request.coding : "identity";
      setEntryHeaders(response, question, answer, coding, options.now());
      if (entry.status === 200 && noneMatchNames(request.ifNoneMatch, tagsOf(entry))) {
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
      start: (headers) => setStreamHeaders(arrival, question, headers, response),
      passed: (bytes) => {
        arrival.bytes += bytes;
      },
    }),

    problem(arrival, problem, response) {
      arrival.problem = problem.code;
      arrival.outcome = outcomeOf(problem);
      const forwarded = arrival.outcome !== "refused";
      const { status, headers, body } = problemMessage(problem, arrival.id, forwarded);
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
    `${CACHE_NAME}; fwd=${why}; fwd-status=200; key="${shown(question.text)}"`,
  );
  response.setHeader("Cache-Control", "no-store");
  response.setHeader("Age", "0");
  for (const name of ["content-type", "content-length", "last-modified", "etag"]) {
    const value = headers[name];
    if (value !== undefined) response.setHeader(name, value);
  }
  response.statusCode = 200;
}

/** `max-age` is what is left, as the contract with callers says; `Age` is the entry's true age. */
function setEntryHeaders(
  response: ServerResponse,
  question: Question,
  answer: Answer,
  coding: ContentCoding,
  now: number,
): void {
  const { entry } = answer;
  const ageSeconds = Math.max(0, Math.floor((now - entry.storedAt) / 1000));
  const leftSeconds = Math.max(0, Math.floor((entry.freshUntil - now) / 1000));
  response.setHeader("Cache-Status", cacheStatus(answer, leftSeconds, question.text));
  response.setHeader("Age", String(ageSeconds));
  response.setHeader("Cache-Control", `max-age=${leftSeconds}`);
  response.setHeader("ETag", `"${tagFor(entry, coding)}"`);
  response.setHeader("Vary", "Accept, Accept-Encoding");
  if (entry.lastModified !== undefined) response.setHeader("Last-Modified", entry.lastModified);
}

/** A strong validator differs between codings (RFC 9110, section 8.8.3.3). */
function tagFor(entry: Entry, coding: ContentCoding): string {
  return coding === "identity" ? entry.etag : `${entry.etag}-${coding}`;
}

function tagsOf(entry: Entry): string[] {
  return (["identity", "gzip", "br", "zstd"] as const).map((coding) => tagFor(entry, coding));
}

const FORWARDED: Record<CacheOutcome, string> = {
  hit: "hit",
  miss: "fwd=miss",
  collapsed: "fwd=miss; collapsed",
};

function cacheStatus(answer: Answer, ttlSeconds: number, text: string): string {
  const { outcome, stored, tier, entry } = answer;
  const parts = [CACHE_NAME, FORWARDED[outcome]];
  if (outcome !== "hit") parts.push(`fwd-status=${entry.status}`);
  if (outcome !== "hit" && stored === true) parts.push("stored");
  parts.push(`ttl=${ttlSeconds}`, `key="${shown(text)}"`);
  const detail = stored === true ? tier : stored;
  if (detail !== undefined) parts.push(`detail=${detail}`);
  return parts.join("; ");
}

const LONGEST_SHOWN_KEY = 1024;

/** Canonical text is ASCII without quotes and backslashes: it can stand in an sf-string as it is (RFC 9651). */
function shown(text: string): string {
  return text.length > LONGEST_SHOWN_KEY ? `${text.slice(0, LONGEST_SHOWN_KEY)}...` : text;
}

/** What the problem says about how the request went. */
function outcomeOf(problem: Problem): Outcome {
  if (problem.code === "upstream-rejected" || problem.code === "not-found") return "miss";
  if (problem.code === "temporary-reduced-capacity") return "refused";
  return problem.status < 500 ? "refused" : "failed";
}
