/**
 * The innermost part of the journey: attempt [ throttle → sign → fetch ], at most twice.
 *
 * Every attempt waits its turn, is signed afresh after the wait, and goes out. What comes back is
 * judged; a judgement that may be retried is retried once.
 */
import type { IncomingHttpHeaders } from "node:http";

import { Problem, problemBody, PROBLEM_CONTENT_TYPE } from "../errors.ts";
import type { Cause, Fetched, Observer, SendEnd, UpstreamFaultKind, Validators, Waiting } from "../types.ts";
import { httpDateMs } from "../http-date.ts";
import { mediaTypeOf, type Format } from "../interface/media-types.ts";
import type { Resource } from "../interface/resources.ts";
import { pause, type Clock } from "../process/clock.ts";
import type { Random } from "../process/random.ts";
import { areRenewed, type Credentials } from "./credentials-check.ts";
import { type Confidential, withSignature } from "./explanation.ts";
import { UpstreamFault } from "./fetch.ts";
import type { Origin } from "./origin.ts";
import { createRefusedConditions } from "./refused-conditions.ts";
import { slowDownAfter, slowDownIn } from "./slow-down.ts";
import { termsIn } from "./terms.ts";
import { type Failed, judgeAnswer, judgeFault, type Verdict } from "./verdict.ts";

/** What is asked of the upstream. */
export interface UpstreamQuestion {
  readonly resource: Resource;
  /** Canonical text, for the log. */
  readonly text: string;
  /** Path and query, unsigned. */
  readonly target: string;
  /** The one record that is asked for; absent for a list. */
  readonly serviceId?: string | undefined;
  readonly format: Format;
  /** Who started it. */
  readonly app: string;
  /** Why it is asked, the first time. */
  readonly cause: Cause;
  /** What is held: the upstream may say that it has not changed. */
  readonly held: Validators | undefined;
  /** Told whenever a call departs. */
  readonly departing: () => void;
}

export interface AttemptOptions {
  readonly originOf: (resource: Resource) => Origin;
  readonly credentials: Credentials;
  readonly identity: Identity;
  /** Kept out of what callers see. */
  readonly confidential: Confidential;
  readonly totalTimeoutMs: number;
  readonly maxCoolOffMs: () => number;
  readonly retryDelayMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly observer: Observer;
}

/** How the company makes itself known (terms of use, interface section 1). */
export interface Identity {
  readonly service: string;
  readonly userAgent: string;
  readonly referrer: string;
}

/** @returns what came back; rejects with a `Problem` where there is nothing to keep. */
export type Attempt = (question: UpstreamQuestion, waiting: Waiting) => Promise<Fetched>;

export function createAttempt(options: AttemptOptions): Attempt {
  const { clock, random, retryDelayMs } = options;
  const refusedConditions = createRefusedConditions();

  return async function attempt(wanted, waiting) {
    const question = refusedConditions.without(wanted);
    const origin = options.originOf(question.resource);
    const total = createTotalTimeout(options);
    const depart = (asked: UpstreamQuestion, who = waiting): Promise<Outcome> =>
      origin.throttled({ ...asked, waiting: who }, (ended) => {
        total.start();
        asked.departing();
        const answered: Departure["answered"] = (status, isUsable) =>
          refusedConditions.answered(asked, status, isUsable);
        return call(asked, origin, { timedOut: total.signal, answered, ended }, options);
      });
    try {
      const first = await depart(question);
      if (first.kind !== "failed") return fetchedOf(first);
      if (!first.mayRetry) throw first.problem;
      // Half to one and a half of the delay, so that many callers do not come back as one.
      await pause(clock, retryDelayMs * (0.5 + random.fraction()), waiting.abandoned);
      // Where there is no place for another try, how the first one failed is what counts.
      const again: UpstreamQuestion = { ...question, cause: "retry", held: undefined };
      const second = await depart(again, toldInQueue(waiting, first.problem)).catch((error: unknown) => {
        if (error instanceof Problem) return first;
        throw error;
      });
      if (second.kind !== "failed") return fetchedOf(second);
      throw second.problem;
    } finally {
      total.stop();
    }
  };
}

/** Those who wait, where one whose deadline passes in the queue is told how the first try failed: that was sent. */
function toldInQueue(waiting: Waiting, failed: Problem): Waiting {
  return {
    ...waiting,
    inQueue: (refuseLate) =>
      waiting.inQueue((waiter) => (refuseLate(waiter) === undefined ? undefined : failed)),
  };
}

/** A verdict, and what the answer says of itself. */
type Outcome = (Exclude<Verdict, Failed> & Pick<Fetched, "validators" | "caching">) | Failed;

function fetchedOf(outcome: Exclude<Outcome, Failed>): Fetched {
  const { validators, caching } = outcome;
  switch (outcome.kind) {
    case "not-modified":
      return { status: 304, validators, caching };
    case "negative": {
      const { status, problem } = outcome;
      const body = problemBody(problem);
      return {
        status,
        contentType: PROBLEM_CONTENT_TYPE,
        body,
        recordIds: [],
        validators: NO_VALIDATORS,
        caching,
      };
    }
    case "answer": {
      const { body, contentType, recordIds } = outcome;
      return { status: 200, body, contentType, recordIds, validators, caching };
    }
  }
}

/** A problem's body is the gateway's own. */
const NO_VALIDATORS: Validators = { etag: undefined, lastModified: undefined };

/** The limit on a whole call, retries included: it runs from the first departure, not from the queue. */
function createTotalTimeout({ clock, totalTimeoutMs }: AttemptOptions): {
  signal: AbortSignal;
  start(): void;
  stop(): void;
} {
  const controller = new AbortController();
  let cancel: (() => void) | undefined;
  return {
    signal: controller.signal,
    start: () => {
      cancel ??= clock.after(totalTimeoutMs, () => controller.abort());
    },
    stop: () => cancel?.(),
  };
}

interface Departure {
  readonly timedOut: AbortSignal;
  readonly answered: (status: number, isUsable: boolean) => void;
  readonly ended: (end: SendEnd) => void;
}

/** One exchange, signed now, judged and recorded. */
async function call(
  question: UpstreamQuestion,
  origin: Origin,
  { timedOut, answered, ended }: Departure,
  options: AttemptOptions,
): Promise<Outcome> {
  const { clock, observer, maxCoolOffMs } = options;
  const startedAt = clock.steady();
  const signedWith = options.credentials.version();
  const url = origin.baseUrl + origin.sign(question.target);
  const record = (
    status: number | UpstreamFaultKind,
    bytes: number,
    outcome: Outcome,
    end: Pick<SendEnd, "slowDown"> & { headAt?: number },
  ): Outcome => {
    const { resource, text, cause } = question;
    const durationMs = clock.steady() - startedAt;
    const { headAt = clock.steady(), slowDown } = end;
    ended({ status, durationMs, arrivedAfterMs: headAt - startedAt, ...(slowDown && { slowDown }) });
    const note = outcome.kind === "failed" ? outcome.problem.message : undefined;
    observer.upstreamCall({
      resource,
      text,
      cause,
      status,
      durationMs,
      bytes,
      ...(note !== undefined && { note }),
    });
    return outcome;
  };
  try {
    const answer = await origin.fetch({
      url,
      headers: { ...outgoingHeaders(question.format, options.identity), ...conditions(question.held) },
      timedOut,
    });
    const now = clock.now();
    const { status, headers } = answer;
    const confidential = withSignature(options.confidential, url);
    const mayRetry = areRenewed({ status, date: headers.date, signedWith }, options, now);
    const judged = judgeAnswer(answer, { ...question, confidential, maxCoolOffMs: maxCoolOffMs(), now });
    const verdict = judged.kind === "failed" && mayRetry ? { ...judged, mayRetry } : judged;
    answered(status, judged.kind !== "failed");
    const slowDown = slowDownIn(answer, now);
    const caching = termsIn(answer.headers, answer.headAt - startedAt, now);
    const validators = validatorsIn(answer.headers, now);
    const outcome = verdict.kind === "failed" ? verdict : { ...verdict, validators, caching };
    return record(answer.status, answer.body.length, outcome, {
      headAt: answer.headAt,
      ...(slowDown && { slowDown }),
    });
  } catch (error) {
    if (!(error instanceof UpstreamFault)) throw error;
    const slowDown = slowDownAfter(error.kind);
    return record(error.kind, 0, judgeFault(error), slowDown ? { slowDown } : {});
  }
}

/**
 * All headers that go out: who asks, on whose behalf, in which format. `Referrer` is the interface's
 * spelling (section 1), `Referer` the standard's (RFC 9110, section 10.1.3).
 */
export function outgoingHeaders(format: Format, identity: Identity): Record<string, string> {
  return {
    accept: mediaTypeOf(format, identity.service),
    "user-agent": identity.userAgent,
    referer: identity.referrer,
    referrer: identity.referrer,
  };
}

const ENTITY_TAG = /^(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"$/;

/**
 * What of an answer's validators are such (RFC 9110, sections 8.8.2 and 8.8.3). Something else would not be sent
 * back as what it is: `*` names whatever there is, and would confirm anything.
 */
export function validatorsIn(
  { etag, "last-modified": lastModified }: IncomingHttpHeaders,
  now: number,
): Validators {
  return {
    etag: etag !== undefined && ENTITY_TAG.test(etag) ? etag : undefined,
    lastModified: httpDateMs(lastModified, now) === undefined ? undefined : lastModified,
  };
}

/** Asks for the body only where it is another than the one held (RFC 9110, section 13.1). */
function conditions(held: Validators | undefined): Record<string, string> {
  return {
    ...(held?.etag !== undefined && { "if-none-match": held.etag }),
    ...(held?.lastModified !== undefined && { "if-modified-since": held.lastModified }),
  };
}
