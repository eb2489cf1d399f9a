/**
 * Makes an upstream call: waits for a permit, signs, fetches and judges the answer. If the verdict allows a retry, it makes
 * one more attempt with a new permit and a new signature.
 */
import { Problem, problemBody, PROBLEM_CONTENT_TYPE } from "../errors.ts";
import type { Format } from "../interface/media-types.ts";
import type { Resource } from "../interface/resources.ts";
import { pause, type Clock } from "../process/clock.ts";
import type { Random } from "../process/random.ts";
import type { Fetched, Validators } from "./fetched.ts";
import type { Observer, Trace } from "../telemetry/events.ts";
import type { SendEnd, UpstreamRequest, Waiting } from "../ratelimit/throttled.ts";
import { cachingHeadersIn } from "./caching-headers.ts";
import { conditionHeaders, validatorsIn } from "./conditional.ts";
import { UpstreamFault } from "./fetch.ts";
import type { Origin } from "./origin.ts";
import { outgoingHeaders, type Identity } from "./outgoing-headers.ts";
import { recordCall } from "./record.ts";
import { type Credentials, mayBeTakenNow } from "./sign.ts";
import {
  type Asked,
  explanationOf,
  type Failed,
  judgeAnswer,
  judgeFault,
  noteOf,
  REPEATED_SIGNATURE,
  reportRepeatedSignature,
  slowDownAfter,
  slowDownIn,
  type Verdict,
  type WholeAnswer,
} from "./verdict.ts";

/** What to request from the upstream. `cause` is that of the first attempt. */
export interface UpstreamQuestion extends Omit<UpstreamRequest, "waiting"> {
  /** Path and query, unsigned. */
  readonly target: string;
  /** The requested record; absent for a list. */
  readonly serviceId?: string | undefined;
  readonly format: Format;
  /** The validators of the cached entry, if there is one. The upstream can then answer 304. */
  readonly cached: Validators | undefined;
  /** Absent if requests are not traced. */
  readonly trace?: Trace | undefined;
  /** Called immediately before a request is sent. */
  readonly departing: () => void;
}

export interface AttemptOptions {
  readonly originOf: (resource: Resource) => Origin;
  readonly credentials: Credentials;
  readonly identity: Identity;
  /** @returns hosts, the caller id and keys. An explanation with one of them is not shown. */
  readonly confidential: () => readonly string[];
  readonly totalTimeoutMs: number;
  readonly maxCoolOffMs: () => number;
  readonly retryDelayMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly observer: Observer;
}

/** Resolves with the upstream's answer. Rejects with a `Problem` if there is no usable answer. */
export type Attempt = (question: UpstreamQuestion, waiting: Waiting) => Promise<Fetched>;

export function createAttempt(options: AttemptOptions): Attempt {
  const { clock, random, retryDelayMs } = options;

  return async function attempt(question, waiting) {
    const origin = options.originOf(question.resource);
    const total = createTotalTimeout(options);
    const send = (asked: UpstreamQuestion, waiters = waiting): Promise<Outcome> => {
      const wait = asked.trace?.begin("queue wait");
      const sent = origin.throttled({ ...asked, waiting: waiters }, (ended, { sendBy }) => {
        wait?.end();
        total.start();
        asked.departing();
        return call(asked, origin, { timedOut: total.signal, ended, sendBy }, options);
      });
      return sent.finally(() => wait?.end());
    };
    try {
      const first = await send(question);
      if (first.kind !== "failed") return fetchedOf(first);
      if (!first.mayRetry) throw first.problem;
      // The random factor, 0.5 to 1.5, spreads the retries of many calls.
      await pause(clock, retryDelayMs * (0.5 + random.fraction()), waiting.abandoned);
      if (total.signal.aborted) throw first.problem;
      const { hasNewCredentials } = first;
      const again: UpstreamQuestion = { ...question, cause: "retry", cached: undefined, hasNewCredentials };
      const inTime = { ...waiting, abandoned: AbortSignal.any([waiting.abandoned, total.signal]) };
      const second = await send(again, refusingWith(first.problem, inTime)).catch((error: unknown) => {
        // The retry got no permit within `upstream.totalTimeout`, so the caller gets the problem of the first attempt.
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

/** @returns the same waiters. If a deadline passes in the queue for the retry, the waiter gets `failed`. */
function refusingWith(failed: Problem, waiting: Waiting): Waiting {
  return {
    ...waiting,
    inQueue: (refuseLate) =>
      waiting.inQueue((waiter) => (refuseLate(waiter) === undefined ? undefined : failed)),
  };
}

/** A verdict with the validators and the caching headers of the answer, or a failure. */
type Outcome =
  | (Exclude<Verdict, Failed> & Pick<Fetched, "validators" | "caching">)
  | (Failed & Pick<UpstreamRequest, "hasNewCredentials">);

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
      const { body, contentType, recordIds, page } = outcome;
      return { status: 200, body, contentType, recordIds, page, validators, caching };
    }
  }
}

/** For a body that the gateway makes itself. */
const NO_VALIDATORS: Validators = { etag: undefined, lastModified: undefined };

/** The time limit of a whole call with its retry. It starts when the first request has its permit. */
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
  readonly ended: (end: SendEnd) => void;
  readonly sendBy: number | undefined;
}

/** Signs and sends one request, judges the answer, and records the call. */
async function call(
  question: UpstreamQuestion,
  origin: Origin,
  { timedOut, ended, sendBy }: Departure,
  options: AttemptOptions,
): Promise<Outcome> {
  const { clock, confidential } = options;
  const startedAt = clock.monotonic();
  const record = recordCall(question, ended, options);
  const signedWith = options.credentials.currentNumber();
  const { target, signature } = origin.sign(question.target);
  try {
    const answer = await origin.fetch({
      url: origin.baseUrl + target,
      headers: {
        ...outgoingHeaders(question.format, options.identity),
        ...conditionHeaders(question.cached),
      },
      timedOut,
      sendBy,
    });
    const now = clock.now();
    const { status, headers, headAt, body } = answer;
    const asked = {
      ...question,
      signature,
      confidential: confidential(),
      maxCoolOffMs: options.maxCoolOffMs(),
      now,
    };
    const verdict = judge(answer, asked, signedWith, options);
    record.begun(status, slowDownIn(answer, now), headAt);
    record.ended(status, body.length, noteOf(verdict));
    if (verdict.kind === "failed") return verdict;
    const caching = cachingHeadersIn(headers, headAt - startedAt, now);
    return { ...verdict, validators: validatorsIn(headers, now), caching };
  } catch (error) {
    if (!(error instanceof UpstreamFault)) throw error;
    const verdict = judgeFault(error);
    record.begun(error.kind, slowDownAfter(error.kind));
    record.ended(error.kind, 0, noteOf(verdict));
    return verdict;
  }
}

/** Judges a whole answer, and reacts to a refusal of the credentials: if there are new ones, the call may be retried. */
export function judge(
  answer: WholeAnswer,
  asked: Asked,
  signedWith: number,
  options: Pick<AttemptOptions, "credentials" | "observer">,
): Verdict & Pick<UpstreamRequest, "hasNewCredentials"> {
  const verdict = judgeAnswer(answer, asked);
  if (noteOf(verdict) === REPEATED_SIGNATURE) reportRepeatedSignature(asked.resource, options.observer);
  const { status, headers } = answer;
  const refusal = {
    status,
    date: headers.date,
    // Thumbnails are not signed.
    signedWith: asked.signature.length > 0 ? signedWith : undefined,
    explanation: () => explanationOf(answer, asked),
  };
  const isTakenNow = mayBeTakenNow(refusal, options, asked.now);
  return isTakenNow && verdict.kind === "failed"
    ? { ...verdict, mayRetry: true, hasNewCredentials: true }
    : verdict;
}
