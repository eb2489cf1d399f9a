/**
 * Makes an upstream call: waits for a permit, signs, fetches and judges the answer. If the verdict allows a retry, it makes
 * one more attempt with a new permit and a new signature.
 */
import { Problem, problemBody, PROBLEM_CONTENT_TYPE } from "../errors.ts";
import type { Format } from "../interface/media-types.ts";
import type { Resource } from "../interface/resources.ts";
import { pause, type Clock } from "../process/clock.ts";
import type { Random } from "../process/random.ts";
import type {
  Fetched,
  Observer,
  SendEnd,
  Trace,
  UpstreamFaultKind,
  UpstreamRequest,
  Validators,
  Waiting,
} from "../types.ts";
import { cachingHeadersIn } from "./caching-headers.ts";
import { conditionHeaders, createRefusedConditions, validatorsIn } from "./conditional.ts";
import { type Confidential, withSignature } from "./explanation.ts";
import { UpstreamFault } from "./fetch.ts";
import { outgoingHeaders, type Identity, type Origin } from "./origin.ts";
import { areRenewed, type Credentials } from "./sign.ts";
import { type Failed, judgeAnswer, judgeFault, slowDownAfter, slowDownIn, type Verdict } from "./verdict.ts";

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
  /** Texts that are removed from everything callers see. */
  readonly confidential: Confidential;
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
  const refusedConditions = createRefusedConditions();

  return async function attempt(wanted, waiting) {
    const question = refusedConditions.without(wanted);
    const origin = options.originOf(question.resource);
    const total = createTotalTimeout(options);
    const send = (asked: UpstreamQuestion, waiters = waiting): Promise<Outcome> => {
      const wait = asked.trace?.begin("queue wait");
      const sent = origin.throttled({ ...asked, waiting: waiters }, (ended, { sendBy }) => {
        wait?.end();
        total.start();
        asked.departing();
        const answered: Departure["answered"] = (status, isUsable) =>
          refusedConditions.answered(asked, status, isUsable);
        return call(asked, origin, { timedOut: total.signal, answered, ended, sendBy }, options);
      });
      return sent.finally(() => wait?.end());
    };
    try {
      const first = await send(question);
      if (first.kind !== "failed") return fetchedOf(first);
      if (!first.mayRetry) throw first.problem;
      // The random factor, 0.5 to 1.5, spreads the retries of many calls.
      await pause(clock, retryDelayMs * (0.5 + random.fraction()), waiting.abandoned);
      const { hasNewCredentials } = first;
      const again: UpstreamQuestion = { ...question, cause: "retry", cached: undefined, hasNewCredentials };
      const second = await send(again, refusingWith(first.problem, waiting)).catch((error: unknown) => {
        // The retry got no permit, so the caller gets the problem of the first attempt.
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
  readonly answered: (status: number, isUsable: boolean) => void;
  readonly ended: (end: SendEnd) => void;
  readonly sendBy: number | undefined;
}

/** Signs and sends one request, judges the answer, and records the call. */
async function call(
  question: UpstreamQuestion,
  origin: Origin,
  { timedOut, answered, ended, sendBy }: Departure,
  options: AttemptOptions,
): Promise<Outcome> {
  const { clock, observer, maxCoolOffMs } = options;
  const { resource, query, cause, trace } = question;
  const [startedAt, begunAt] = [clock.monotonic(), clock.precise()];
  const span = trace?.begin("upstream call", { resource, query, cause });
  const signedWith = options.credentials.version();
  const url = origin.baseUrl + origin.sign(question.target);
  const record = (
    status: number | UpstreamFaultKind,
    bytes: number,
    outcome: Outcome,
    end: Pick<SendEnd, "slowDown"> & { headAt?: number },
  ): Outcome => {
    const durationMs = clock.monotonic() - startedAt;
    const { headAt = clock.monotonic(), slowDown } = end;
    ended({ status, durationMs, arrivedAfterMs: headAt - startedAt, ...(slowDown && { slowDown }) });
    const note = outcome.kind === "failed" ? outcome.problem.message : undefined;
    span?.end({ status, bytes, ...(outcome.kind === "failed" && { error: String(status) }) });
    const noted = note === undefined ? {} : { note };
    const tookMs = clock.precise() - begunAt;
    observer.upstreamCall({ resource, query, cause, status, durationMs: tookMs, bytes, ...noted });
    return outcome;
  };
  try {
    const answer = await origin.fetch({
      url,
      headers: {
        ...outgoingHeaders(question.format, options.identity),
        ...conditionHeaders(question.cached),
      },
      timedOut,
      sendBy,
    });
    const now = clock.now();
    const { status, headers } = answer;
    const confidential = (): Confidential => withSignature(options.confidential, url);
    const hasNewCredentials = areRenewed({ status, date: headers.date, signedWith }, options, now);
    const judged = judgeAnswer(answer, { ...question, confidential, maxCoolOffMs: maxCoolOffMs(), now });
    const verdict = hasNewCredentials ? withRetry(judged) : judged;
    answered(status, judged.kind !== "failed");
    const slowDown = slowDownIn(answer, now);
    const caching = cachingHeadersIn(answer.headers, answer.headAt - startedAt, now);
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

/** A failure because of old credentials may be retried with the new ones. */
function withRetry(judged: Verdict): Verdict & Pick<UpstreamRequest, "hasNewCredentials"> {
  return judged.kind === "failed" ? { ...judged, mayRetry: true, hasNewCredentials: true } : judged;
}
