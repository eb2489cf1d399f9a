/**
 * Makes an upstream call: waits for a permit, signs, fetches and judges the answer. If the verdict allows a retry, it makes
 * one more attempt with a new permit and a new signature.
 */
import { Problem } from "../errors.ts";
import type { Resource } from "../interface/resources.ts";
import { pause } from "../process/clock.ts";
import type { Random } from "../process/random.ts";
import type { Question } from "../query/question.ts";
import type { Waiting } from "../ratelimit/throttled.ts";
import type { Cause } from "../telemetry/events.ts";
import { type Asked, type Call, type CallOptions, type Origin, whenPermitted } from "./call.ts";
import { fetchAnswer, UpstreamFault } from "./fetch.ts";
import type { Fetched, Validators } from "./fetched.ts";
import { judgeFault, type Verdict } from "./verdict.ts";

export interface AttemptOptions extends CallOptions {
  readonly originOf: (resource: Resource) => Origin;
  readonly random: Pick<Random, "fraction">;
}

/** Resolves with the upstream's answer. Rejects with a `Problem` if there is no usable answer. */
export type AskUpstream = (
  question: Question,
  waiting: Waiting,
  conditions: {
    /** Why the first attempt is made. */
    readonly cause: Cause;
    /** The validators of the cached entry, if there is one. The upstream can then answer 304. */
    readonly cached: Validators | undefined;
    /** Called immediately before a request is sent. */
    readonly departing: () => void;
  },
) => Promise<Fetched>;

export function createAttempt(options: AttemptOptions): AskUpstream {
  const { originOf, clock, random, upstream } = options;

  return async function attempt(question, waiting, { cause, cached, departing }) {
    const origin = originOf(question.query.resource);
    // The time limit of both attempts. It starts when the first request has its permit.
    const total = new AbortController();
    let stopTotal: (() => void) | undefined;
    const send = (asked: Asked): Promise<Verdict> =>
      whenPermitted(asked, origin, options, (call, { sendBy }) => {
        stopTotal ??= clock.after(upstream.totalTimeoutMs, () => total.abort());
        departing();
        return sendCall(call, origin, { timedOut: total.signal, sendBy }, options);
      });
    try {
      const first = await send({ question, cause, cached, waiting });
      if (first.fetched) return first.fetched;
      if (first.mayRetry !== true) throw first.problem;
      // The random factor, 0.5 to 1.5, spreads the retries of many calls.
      await pause(clock, upstream.retryDelayMs * (0.5 + random.fraction()), waiting.abandoned);
      if (total.signal.aborted) throw first.problem;
      const { problem, hasNewCredentials } = first;
      const abandoned = AbortSignal.any([waiting.abandoned, total.signal]);
      const inTime = refusingWith(problem, { ...waiting, abandoned });
      const second = await send({ question, cause: "retry", hasNewCredentials, waiting: inTime }).catch(
        (error: unknown) => {
          // The retry got no permit within the time limit, so the caller gets the problem of the first attempt.
          if (error instanceof Problem) return first;
          throw error;
        },
      );
      if (second.fetched) return second.fetched;
      throw second.problem;
    } finally {
      stopTotal?.();
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

async function sendCall(
  call: Call,
  { baseUrl, agent }: Origin,
  limits: { readonly timedOut: AbortSignal; readonly sendBy: number | undefined },
  { upstream, clock }: CallOptions,
): Promise<Verdict> {
  try {
    const request = { url: baseUrl + call.target, headers: call.headers, ...limits };
    const answer = await fetchAnswer(request, agent, { ...upstream, clock });
    const verdict = call.judge(answer);
    call.begun(answer.status, verdict, answer.headAt);
    call.over(answer.status, answer.body.length, verdict);
    return verdict;
  } catch (error) {
    if (!(error instanceof UpstreamFault)) throw error;
    const verdict = judgeFault(error);
    call.begun(error.kind, verdict);
    call.over(error.kind, 0, verdict);
    return verdict;
  }
}
