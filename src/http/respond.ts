/**
 * respond and refuse: the last stages. They turn an answer, a stream or an error into a response: headers, content coding,
 * 304, `Cache-Status`.
 */
import type { Answer } from "../cache/cache.ts";
import type { Encode } from "../cache/encoder.ts";
import type { Entry } from "../cache/entry.ts";
import type { Context } from "../context.ts";
import { ANSWER_PROBLEMS, BUDGET_SPENT, Problem, wasRefusedHere } from "../errors.ts";
import { httpDateMs } from "../http-fields.ts";
import type { ContentCoding } from "../content-codings.ts";
import { originOf, type OriginName } from "../interface/resources.ts";
import type { GatewayRequest, Question } from "../query/request.ts";
import type { Budgets } from "../ratelimit/budgets.ts";
import type { Outcome } from "../telemetry/events.ts";
import type { StreamSink } from "../upstream/pass-through.ts";
import type { Arrival } from "./arrive.ts";
import { problemResponse } from "./problem-response.ts";
import {
  type Head,
  headOfAnswer,
  headOfStream,
  noneMatchNames,
  rateLimitHeaders,
  type Sending,
} from "./response-headers.ts";
import type { AnyQuestion } from "./admit.ts";

export interface RespondOptions extends Pick<Context, "clock" | "observer"> {
  readonly encode: Encode;
  readonly isCompressible: (entry: Entry) => boolean;
  readonly budgets: Readonly<Record<OriginName, Pick<Budgets["api"], "shareOf" | "retryAfterSeconds">>>;
}

export class Respond {
  readonly #options: RespondOptions;

  constructor(options: RespondOptions) {
    this.#options = options;
  }

  /** Sends an answer from the cache stage. */
  async answer(arrival: Arrival, question: Question, answer: Answer): Promise<void> {
    const now = this.#options.clock.now();
    if (this.answerAtOnce(arrival, question, answer, now)) return;
    const { entry, keptAs = question.key } = answer;
    const isWanted = (): boolean => !arrival.gone().aborted;
    const wanted = this.#codingOf(question, entry);
    const { body, coding } = await this.#options.encode(keptAs, entry, wanted, isWanted);
    this.#send(arrival, question, answer, { now, coding, isUnchanged: false }, body);
  }

  /**
   * Sends an answer synchronously, if its body already exists in the caller's coding.
   * @returns whether the answer was sent
   */
  answerAtOnce(
    arrival: Arrival,
    question: Question,
    answer: Answer,
    now = arrival.record.receivedAt,
  ): boolean {
    const { entry } = answer;
    const coding = this.#codingOf(question, entry);
    const unchanged = isUnchanged(question.request, entry, now);
    const body = unchanged ? NOTHING : entry.bodies[coding];
    if (body === undefined) return false;
    this.#send(arrival, question, answer, { now, coding, isUnchanged: unchanged }, body);
    return true;
  }

  /** @returns the destination of an answer that is not cached */
  stream(arrival: Arrival, question: AnyQuestion): StreamSink {
    const { response, record } = arrival;
    return {
      response,
      start: (headers) => {
        record.outcome = "bypass";
        response.writeHead(200, this.#withCallerHead(headOfStream(question, headers), arrival));
      },
      // Node itself omits the body of a response to HEAD.
      passed: (bytes) => void (record.bytes += record.method === "HEAD" ? 0 : bytes),
      cut: (problem) => {
        // If the response is already destroyed, its caller has hung up.
        if (!response.destroyed) arrival.cutFor = problem;
        response.destroy();
      },
    };
  }

  /** Ends a failed request. It sends a problem, and logs an unexpected error. */
  readonly refuse = (arrival: Arrival, error: unknown): void => {
    const { record, response } = arrival;
    // It is too late for a problem: the caller has hung up, or the head of the response is already sent.
    if (arrival.gone().aborted || response.headersSent) return void response.destroy();
    if (error instanceof Problem) return this.#sendProblem(arrival, error);
    this.#options.observer.error("A request ended in an unexpected error. This is a bug in the gateway.", {
      requestId: record.id,
      query: record.query,
      err: error,
    });
    this.#sendProblem(arrival, new Problem("internal-error"));
  };

  #codingOf({ request }: Question, entry: Entry): ContentCoding {
    return this.#options.isCompressible(entry) ? request.coding : "identity";
  }

  /** @param body empty for a 304 */
  #send(arrival: Arrival, question: Question, answer: Answer, sending: Sending, body: Buffer): void {
    const { record, response } = arrival;
    noteAnswer(record, answer);
    const head = this.#withCallerHead(headOfAnswer(question, answer, sending, body), arrival);
    // Node itself omits the body of a response to HEAD. `Content-Length` stays.
    record.bytes = question.request.method === "HEAD" ? 0 : body.length;
    response.writeHead(sending.isUnchanged ? 304 : answer.entry.status, head).end(body);
  }

  #sendProblem(arrival: Arrival, problem: Problem): void {
    const { record, response } = arrival;
    record.problem = problem.code;
    record.outcome = outcomeOf(problem);
    const complete = this.#withRetryAfter(problem, record.resource);
    const { status, headers, body } = problemResponse(complete, record.id, record.outcome !== "refused");
    record.bytes = record.method === "HEAD" ? 0 : body.length;
    const head = this.#withCallerHead(Object.entries(headers).flat(), arrival, problem);
    response.writeHead(status, head).end(body);
  }

  /** Adds `Retry-After` to a 502 or 504, if the time is known. */
  #withRetryAfter(problem: Problem, resource: Arrival["record"]["resource"]): Problem {
    const { status, details } = problem;
    if ((status !== 502 && status !== 504) || resource === "none" || details.retryAfterSeconds !== undefined)
      return problem;
    const retryAfterSeconds = this.#options.budgets[originOf(resource)].retryAfterSeconds(resource);
    return new Problem(problem.code, { ...details, retryAfterSeconds });
  }

  /** Adds the headers about a request and its app's budget, which every response carries. */
  #withCallerHead(head: Head, arrival: Arrival, problem?: Problem): Head {
    const { record, preferenceApplied, corsHeaders } = arrival;
    // The head of a problem already has the id.
    if (problem === undefined) head.push("X-Request-Id", record.id);
    if (corsHeaders.length > 0) head.push(...corsHeaders);
    if (preferenceApplied !== undefined) head.push("Preference-Applied", preferenceApplied);
    if (record.resource === "none") return head;
    const shares = this.#options.budgets[originOf(record.resource)].shareOf(record.app);
    const isRefusedFor = problem !== undefined && BUDGET_SPENT.has(problem.code);
    // Nothing remains before `Retry-After`.
    const spent = isRefusedFor && { remaining: 0, resetSeconds: problem.details.retryAfterSeconds ?? 1 };
    head.push(...rateLimitHeaders(spent ? shares.map((share) => ({ ...share, ...spent })) : shares));
    return head;
  }
}

const NOTHING = Buffer.alloc(0);

/** Notes for logs and metrics how a request was answered. */
function noteAnswer(record: Arrival["record"], answer: Answer): void {
  record.outcome = answer.outcome;
  record.tier = answer.tier;
  record.saved = answer.saved;
  if (answer.entry.status !== 200) record.problem = ANSWER_PROBLEMS[answer.entry.status];
  if (answer.outcome !== "hit") {
    record.forwarded = answer.forwarded;
    record.detail = answer.note ?? (answer.stored === true ? undefined : answer.stored);
  }
}

/** Whether the caller already has the answer. Dates count only without entity tags (RFC 9110, section 13.2.2). */
function isUnchanged({ ifNoneMatch, ifModifiedSince }: GatewayRequest, entry: Entry, now: number): boolean {
  if (entry.status !== 200) return false;
  if (ifNoneMatch !== undefined) return noneMatchNames(ifNoneMatch, entry.etag);
  if (ifModifiedSince === undefined) return false;
  const since = httpDateMs(ifModifiedSince, now);
  const modifiedAt = httpDateMs(entry.validators.lastModified, now);
  return since !== undefined && modifiedAt !== undefined && since >= modifiedAt;
}

/** @returns the outcome of a request that ended with this problem, for logs and metrics */
function outcomeOf(problem: Problem): Outcome {
  if (problem.code === "upstream-rejected" || problem.code === "not-found") return "miss";
  const isRefused = wasRefusedHere(problem) || problem.code === "not-in-cache" || problem.status < 500;
  return isRefused ? "refused" : "failed";
}
