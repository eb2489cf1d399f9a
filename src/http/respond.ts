/**
 * respond and refuse: the last stages. They turn an answer, a stream or an error into a response: headers, content coding,
 * 304, `Cache-Status`.
 */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";

import { Problem, type ProblemCode } from "../errors.ts";
import type { Answer } from "../cache/cache.ts";
import type { ContentCoding } from "../interface/media-types.ts";
import type { Entry } from "../cache/entry.ts";
import type { GatewayRequest, Question } from "../query/question.ts";
import type { Observer, Outcome } from "../telemetry/events.ts";
import type { ShareOfWindow } from "../ratelimit/overview.ts";
import type { StreamSink } from "../upstream/pass-through.ts";
import { httpDateMs } from "../http-fields.ts";
import type { Resource } from "../interface/resources.ts";
import type { Query, StreamedQuery } from "../query/query.ts";
import type { Arrival } from "./arrive.ts";
import { type Head, headOfAnswer, type Sending, shownKey, tagsOf } from "./answer-head.ts";
import { noneMatchNames } from "./negotiate.ts";
import { CACHE_NAME, problemResponse } from "./problem-response.ts";
import { createRateLimitHeaders, withNothingLeft } from "./rate-limit-headers.ts";

export interface RespondOptions {
  readonly now: () => number;
  /**
   * @returns an entry's body in a coding, encoded once and then remembered; uncompressed if too many other bodies wait to be
   *   compressed. Rejects if no caller waits for the body any more.
   */
  readonly encode: (
    key: string,
    entry: Entry,
    coding: ContentCoding,
    isWanted: () => boolean,
  ) => Promise<{ readonly body: Buffer; readonly coding: ContentCoding }>;
  readonly isCompressible: (entry: Entry) => boolean;
  /**
   * @returns an app's share of each window of the budget for a resource. If it is empty, the response has no headers about
   *   the budget. The same array always means the same share, so that it is rendered only once.
   */
  readonly share: (app: string, resource: Resource) => readonly ShareOfWindow[];
  /** Seconds until an open circuit lets the next call through; `undefined` if the circuit is closed. */
  readonly retryAfterSeconds?: (resource: Resource) => number | undefined;
}

export interface Respond {
  /** Sends an answer from the cache stage. */
  answer(arrival: Arrival, question: Question, answer: Answer, response: ServerResponse): Promise<void>;
  /**
   * Does the same synchronously, if the body already exists in the caller's coding.
   * @returns whether the answer was sent
   */
  answerAtOnce(arrival: Arrival, question: Question, answer: Answer, response: ServerResponse): boolean;
  /** @returns the destination of an answer that is not cached */
  stream(arrival: Arrival, question: Question<Query | StreamedQuery>, response: ServerResponse): StreamSink;
  /** Sends a problem. */
  problem(arrival: Arrival, problem: Problem, response: ServerResponse): void;
}

export function createRespond(options: RespondOptions): Respond {
  const addCallerHeaders = createAddCallerHeaders(options);
  const send = createSendAnswer(addCallerHeaders);
  const callerHeaders = (arrival: Arrival, problem?: Problem): Head => {
    const head: Head = [];
    addCallerHeaders(head, arrival, problem);
    return head;
  };

  function choose({ request }: Question, { entry }: Answer, now: number): Sending {
    const coding = options.isCompressible(entry) ? request.coding : "identity";
    return { now, coding, isUnchanged: isUnchanged(request, entry, now) };
  }

  return {
    async answer(arrival, question, answer, response) {
      const sending = choose(question, answer, options.now());
      if (sending.isUnchanged) return send(arrival, question, answer, response, sending, NOTHING);
      const { entry, keptAs = question.key } = answer;
      const isWanted = (): boolean => !arrival.gone().aborted;
      const { body, coding } = await options.encode(keptAs, entry, sending.coding, isWanted);
      send(arrival, question, answer, response, { ...sending, coding }, body);
    },

    answerAtOnce(arrival, question, answer, response) {
      const sending = choose(question, answer, arrival.record.receivedAt);
      const body = sending.isUnchanged ? NOTHING : answer.entry.bodies[sending.coding];
      if (body === undefined) return false;
      send(arrival, question, answer, response, sending, body);
      return true;
    },

    stream: (arrival, question, response) => ({
      response,
      start: (headers) => {
        setHeaders(response, callerHeaders(arrival));
        setStreamHeaders(arrival, question, headers, response);
      },
      passed: (bytes) => {
        arrival.record.bytes += bytes;
      },
    }),

    problem(arrival, problem, response) {
      arrival.record.problem = problem.code;
      arrival.record.outcome = outcomeOf(problem);
      const forwarded = arrival.record.outcome !== "refused";
      const complete = withRetryAfter(problem, arrival.record.resource, options);
      const { status, headers, body } = problemResponse(complete, arrival.record.id, forwarded);
      setHeaders(response, callerHeaders(arrival, problem));
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      response.statusCode = status;
      arrival.record.bytes = body.length;
      response.end(body);
    },
  };
}

/** Adds `Retry-After` to a 502 or 504, if the time is known. */
function withRetryAfter(
  problem: Problem,
  resource: Arrival["record"]["resource"],
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

/** Problems that mean that the budget, or the app's share of it, is spent. */
const BUDGET_PROBLEMS: ReadonlySet<ProblemCode> = new Set(["quota-exceeded", "temporary-reduced-capacity"]);

function setHeaders(response: ServerResponse, head: Head): void {
  for (let at = 0; at < head.length; at += 2) response.setHeader(head[at] ?? "", head[at + 1] ?? "");
}

/** Adds the headers about a request and its app's budget, which every response carries. */
type AddCallerHeaders = (head: Head, arrival: Arrival, problem?: Problem) => void;

function createAddCallerHeaders({ share }: RespondOptions): AddCallerHeaders {
  const rateLimitHeaders = createRateLimitHeaders();
  return (head, { record: { id, app, resource }, preferenceApplied, corsHeaders }, problem) => {
    head.push("X-Request-Id", id);
    if (corsHeaders !== undefined) head.push(...corsHeaders);
    if (preferenceApplied !== undefined) head.push("Preference-Applied", preferenceApplied);
    if (resource === "none") return;
    const shares = share(app, resource);
    const isRefusedFor = problem !== undefined && BUDGET_PROBLEMS.has(problem.code);
    const headers = rateLimitHeaders(
      isRefusedFor ? withNothingLeft(shares, problem.details.retryAfterSeconds ?? 1) : shares,
    );
    if (headers !== undefined) head.push("RateLimit-Policy", headers.policy, "RateLimit", headers.limit);
  };
}

const NOTHING = Buffer.alloc(0);

type SendAnswer = (
  arrival: Arrival,
  question: Question,
  answer: Answer,
  response: ServerResponse,
  sending: Sending,
  body: Buffer,
) => void;

function createSendAnswer(addCallerHeaders: AddCallerHeaders): SendAnswer {
  return (arrival, question, answer, response, sending, body) => {
    const { record } = arrival;
    record.outcome = answer.outcome;
    record.tier = answer.tier;
    record.saved = answer.saved;
    if (answer.outcome !== "hit") {
      record.forwarded = answer.forwarded;
      record.detail = answer.note ?? (answer.stored === true ? undefined : answer.stored);
    }
    if (answer.forwarded === undefined) record.ageMs = Math.max(0, sending.now - answer.entry.bornAt);
    const head = headOfAnswer(question, answer, sending, body);
    addCallerHeaders(head, arrival);
    if (sending.isUnchanged) {
      response.writeHead(304, head).end();
      return;
    }
    // Node itself omits the body of a response to HEAD. `Content-Length` stays.
    record.bytes = question.request.method === "HEAD" ? 0 : body.length;
    response.writeHead(answer.entry.status, head).end(body);
  };
}

export type Refuse = (arrival: Arrival, error: unknown, response: ServerResponse) => void;

/** @returns the stage that ends every failed request. It sends a problem, and it logs an unexpected error. */
export function createRefuse(respond: Pick<Respond, "problem">, observer: Observer): Refuse {
  return function refuse(arrival, error, response) {
    // It is too late for a problem: the caller has hung up, or the head of the response is already sent.
    if (arrival.gone().aborted || response.headersSent) {
      response.destroy();
      return;
    }
    if (error instanceof Problem) {
      respond.problem(arrival, error, response);
      return;
    }
    observer.error("A request ended in an unexpected error. This is a bug in the gateway.", {
      requestId: arrival.record.id,
      query: arrival.record.query,
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
  arrival.record.outcome = "bypass";
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

/** Whether the caller already has the answer. Dates count only without entity tags (RFC 9110, section 13.2.2). */
function isUnchanged({ ifNoneMatch, ifModifiedSince }: GatewayRequest, entry: Entry, now: number): boolean {
  if (entry.status !== 200) return false;
  if (ifNoneMatch !== undefined) return noneMatchNames(ifNoneMatch, tagsOf(entry));
  if (ifModifiedSince === undefined) return false;
  const since = httpDateMs(ifModifiedSince, now);
  const modifiedAt = httpDateMs(entry.validators.lastModified, now);
  return since !== undefined && modifiedAt !== undefined && since >= modifiedAt;
}

/** @returns the outcome of a request that ended with this problem, for logs and metrics */
function outcomeOf(problem: Problem): Outcome {
  if (problem.code === "upstream-rejected" || problem.code === "not-found") return "miss";
  if (problem.details.refusedHere === true) return "refused";
  if (problem.code === "temporary-reduced-capacity" || problem.code === "not-in-cache") return "refused";
  return problem.status < 500 ? "refused" : "failed";
}
