/**
 * Asks the upstream: one call, and one more if the verdict allows a retry (verdict.ts says after which answers). The retry has a
 * new permit and a new signature.
 */
import { Problem } from "../errors.ts";
import { pause } from "../process/clock.ts";
import type { Question } from "../query/request.ts";
import type { SendPermit, Waiting } from "../ratelimit/call-facts.ts";
import { type Call, type CallOptions, type Wanted, whenPermitted } from "./call.ts";
import { fetchAnswer, UpstreamFault } from "./send.ts";
import type { Fetched, Verdict } from "./verdict.ts";

/** Resolves with the upstream's answer. Rejects with a `Problem` if there is no usable answer. */
export type AskUpstream = (asking: Asking) => Promise<Fetched>;

interface Asking extends Wanted {
  readonly question: Question;
  /** Called immediately before a request is sent. */
  readonly departing: () => void;
}

export function createAsk(options: CallOptions): AskUpstream {
  const { clock, random, upstream } = options;

  return async function ask({ departing, ...wanted }) {
    const { question, waiting } = wanted;
    // The time limit of both calls. It starts when the first one has its permit.
    const total = new AbortController();
    let stopTotal: (() => void) | undefined;
    const send = (one: Wanted): Promise<Verdict> =>
      whenPermitted(one, options, (call, permit) => {
        stopTotal ??= clock.after(upstream.totalTimeoutMs, () =>
          total.abort(new UpstreamFault("total-timeout")),
        );
        departing();
        return sendCall(call, permit, total.signal, options);
      });
    try {
      const first = await send(wanted);
      if (first.fetched) return first.fetched;
      if (first.mayRetry !== true) throw first.problem;
      // The random factor, 0.5 to 1.5, spreads the retries of many calls.
      await pause(clock, upstream.retryDelayMs * (0.5 + random.fraction()), waiting.abandoned);
      if (total.signal.aborted) throw first.problem;
      const { problem, hasNewCredentials } = first;
      // A waiter whose deadline passes in the queue for the retry gets the problem of the first call.
      const again: Waiting = {
        ...waiting,
        abandoned: AbortSignal.any([waiting.abandoned, total.signal]),
        inQueue: (refuseLate) => waiting.inQueue((waiter) => refuseLate(waiter) && problem),
      };
      const retry = { question, cause: "retry", hasNewCredentials, waiting: again } as const;
      const second = await send(retry).catch((error: unknown) => {
        // All waiters get that problem if the retry gets no permit within the time limit.
        if (error instanceof Problem) return first;
        throw error;
      });
      if (second.fetched) return second.fetched;
      throw second.problem;
    } finally {
      stopTotal?.();
    }
  };
}

async function sendCall(
  call: Call,
  { sendBy }: SendPermit,
  until: AbortSignal,
  { upstream, clock }: CallOptions,
): Promise<Verdict> {
  const { baseUrl, agent } = call.origin;
  const timing = { until, sendBy, limits: upstream, clock };
  try {
    return call.answered(await fetchAnswer(baseUrl + call.target, call.headers, agent, timing));
  } catch (error) {
    return call.failed(error);
  }
}
