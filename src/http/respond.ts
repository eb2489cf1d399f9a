/**
 * respond and refuse: the last stages. They turn an answer, a stream or an error into a response: headers, content coding,
 * 304, `Cache-Status`.
 */
import type { Answer } from "../cache/cache.ts";
import type { Encode } from "../cache/encoder.ts";
import type { Entry } from "../cache/entry.ts";
import type { Context } from "../context.ts";
import { BUDGET_SPENT, Problem } from "../errors.ts";
import { httpDateMs } from "../http-fields.ts";
import { originOf, type OriginName } from "../interface/resources.ts";
import type { GatewayRequest, Question } from "../query/request.ts";
import type { Budgets } from "../ratelimit/budgets.ts";
import type { Outcome } from "../telemetry/events.ts";
import type { StreamSink } from "../upstream/pass-through.ts";
import { type Head, headOfAnswer, headOfStream, type Sending, tagsOf } from "./answer-head.ts";
import type { Arrival } from "./arrive.ts";
import { noneMatchNames } from "./negotiate.ts";
import { problemResponse } from "./problem-response.ts";
import { rateLimitHeaders, withNothingLeft } from "./rate-limit-headers.ts";
import type { AnyQuestion } from "./understand.ts";

export interface RespondOptions extends Pick<Context, "clock" | "observer"> {
  readonly encode: Encode;
  readonly isCompressible: (entry: Entry) => boolean;
  readonly budgets: Readonly<Record<OriginName, Pick<Budgets["api"], "shareOf" | "retryAfterSeconds">>>;
}

export type Respond = ReturnType<typeof createRespond>;

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createRespond(options: RespondOptions) {
  const choose = ({ request }: Question, { entry }: Answer, now: number): Sending => ({
    now,
    coding: options.isCompressible(entry) ? request.coding : "identity",
    isUnchanged: isUnchanged(request, entry, now),
  });

  /** @param body empty for a 304 */
  function send(arrival: Arrival, question: Question, answer: Answer, sending: Sending, body: Buffer): void {
    noteAnswer(arrival.record, answer, sending.now);
    const head = addCallerHead(headOfAnswer(question, answer, sending, body), arrival, options);
    // Node itself omits the body of a response to HEAD. `Content-Length` stays.
    arrival.record.bytes = question.request.method === "HEAD" ? 0 : body.length;
    arrival.response.writeHead(sending.isUnchanged ? 304 : answer.entry.status, head).end(body);
  }

  function sendProblem(arrival: Arrival, problem: Problem): void {
    const { record, response } = arrival;
    record.problem = problem.code;
    record.outcome = outcomeOf(problem);
    const complete = withRetryAfter(problem, record.resource, options);
    const { status, headers, body } = problemResponse(complete, record.id, record.outcome !== "refused");
    record.bytes = body.length;
    const head = addCallerHead(Object.entries(headers).flat(), arrival, options, problem);
    response.writeHead(status, head).end(body);
  }

  return {
    /** Sends an answer from the cache stage. */
    async answer(arrival: Arrival, question: Question, answer: Answer): Promise<void> {
      const sending = choose(question, answer, options.clock.now());
      const { entry, keptAs = question.key } = answer;
      const isWanted = (): boolean => !arrival.gone().aborted;
      const { body, coding } = sending.isUnchanged
        ? { ...sending, body: NOTHING }
        : await options.encode(keptAs, entry, sending.coding, isWanted);
      send(arrival, question, answer, { ...sending, coding }, body);
    },

    /**
     * Does the same synchronously, if the body already exists in the caller's coding.
     * @returns whether the answer was sent
     */
    answerAtOnce(arrival: Arrival, question: Question, answer: Answer): boolean {
      const sending = choose(question, answer, arrival.record.receivedAt);
      const body = sending.isUnchanged ? NOTHING : answer.entry.bodies[sending.coding];
      if (body === undefined) return false;
      send(arrival, question, answer, sending, body);
      return true;
    },

    /** @returns the destination of an answer that is not cached */
    stream: (arrival: Arrival, question: AnyQuestion): StreamSink => streamTo(arrival, question, options),

    /** Ends a failed request. It sends a problem, and logs an unexpected error. */
    refuse: (arrival: Arrival, error: unknown): void => {
      const { record, response } = arrival;
      // It is too late for a problem: the caller has hung up, or the head of the response is already sent.
      if (arrival.gone().aborted || response.headersSent) return void response.destroy();
      if (error instanceof Problem) return sendProblem(arrival, error);
      options.observer.error("A request ended in an unexpected error. This is a bug in the gateway.", {
        requestId: record.id,
        query: record.query,
        err: error,
      });
      sendProblem(arrival, new Problem("internal-error"));
    },
  };
}

function streamTo(arrival: Arrival, question: AnyQuestion, options: RespondOptions): StreamSink {
  const { response, record } = arrival;
  return {
    response,
    start(headers) {
      record.outcome = "bypass";
      const head = addCallerHead(headOfStream(question, headers), arrival, options);
      for (let at = 0; at < head.length; at += 2) response.setHeader(head[at] ?? "", head[at + 1] ?? "");
      response.statusCode = 200;
    },
    passed: (bytes) => void (record.bytes += bytes),
  };
}

const NOTHING = Buffer.alloc(0);

/** Notes for logs and metrics how a request was answered. */
function noteAnswer(record: Arrival["record"], answer: Answer, now: number): void {
  record.outcome = answer.outcome;
  record.tier = answer.tier;
  record.saved = answer.saved;
  if (answer.outcome !== "hit") {
    record.forwarded = answer.forwarded;
    record.detail = answer.note ?? (answer.stored === true ? undefined : answer.stored);
  }
  if (answer.forwarded === undefined) record.ageMs = Math.max(0, now - answer.entry.bornAt);
}

/** Adds `Retry-After` to a 502 or 504, if the time is known. */
function withRetryAfter(
  problem: Problem,
  resource: Arrival["record"]["resource"],
  { budgets }: RespondOptions,
): Problem {
  const { status, details } = problem;
  if ((status !== 502 && status !== 504) || resource === "none" || details.retryAfterSeconds !== undefined)
    return problem;
  return new Problem(problem.code, {
    ...details,
    retryAfterSeconds: budgets[originOf(resource)].retryAfterSeconds(resource),
  });
}

/** Adds the headers about a request and its app's budget, which every response carries, and returns the head. */
function addCallerHead(
  head: Head,
  { record: { id, app, resource }, preferenceApplied, corsHeaders }: Arrival,
  { budgets }: RespondOptions,
  problem?: Problem,
): Head {
  // The head of a problem already has the id.
  if (problem === undefined) head.push("X-Request-Id", id);
  if (corsHeaders.length > 0) head.push(...corsHeaders);
  if (preferenceApplied !== undefined) head.push("Preference-Applied", preferenceApplied);
  if (resource === "none") return head;
  const shares = budgets[originOf(resource)].shareOf(app);
  const isRefusedFor = problem !== undefined && BUDGET_SPENT.has(problem.code);
  const shown = isRefusedFor ? withNothingLeft(shares, problem.details.retryAfterSeconds ?? 1) : shares;
  head.push(...rateLimitHeaders(shown));
  return head;
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
