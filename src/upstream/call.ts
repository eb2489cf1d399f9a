/**
 * One signed request to the upstream, as the retry loop and the pass-through make it: waits for a permit, signs, judges the
 * answer, and reports how it went.
 */
import type { Config } from "../config/config.ts";
import type { Context } from "../context.ts";
import { httpDateMs } from "../http-fields.ts";
import type { Resource } from "../interface/resources.ts";
import { upstreamTarget } from "../query/write-query.ts";
import type { AnyQuery } from "../query/query.ts";
import type { Question } from "../query/request.ts";
import type { SendEnd, SendPermit, Throttled, UpstreamRequest } from "../ratelimit/call-facts.ts";
import { conditionHeaders, type Validators } from "./caching-headers.ts";
import type { Agent } from "./connections.ts";
import { type RawAnswer, UpstreamFault } from "./send.ts";
import { outgoingHeaders, type Sign } from "./sign.ts";
import { type JudgedCall, judgeAnswer, judgeFault, REPEATED_SIGNATURE, type Verdict } from "./verdict.ts";

/** One of the two addresses of the upstream, the JSON interface or the thumbnails (interface, section 1). */
export interface Origin {
  /** The address without a trailing slash. */
  readonly baseUrl: string;
  readonly agent: Agent;
  readonly sign: Sign;
  /** Runs a job when the budget permits it. */
  readonly throttled: Throttled;
}

export interface CallOptions extends Pick<Context, "keys" | "clock" | "random" | "observer"> {
  readonly upstream: Config["upstream"];
  readonly originOf: (resource: Resource) => Origin;
  /** Checks immediately whether there is a new private key. */
  readonly checkKeyFile: () => void;
  readonly limits: () => Pick<JudgedCall, "maxCoolOffMs" | "maxAgeEverMs">;
}

/** What to request, why (`cause`), and who waits for it. */
export interface Wanted extends Pick<UpstreamRequest, "cause" | "hasNewCredentials" | "waiting"> {
  readonly question: Question<AnyQuery>;
  /** The validators of the cached entry when the call is sent, if there is one. The upstream can then answer 304. */
  readonly cached?: (() => Validators | undefined) | undefined;
}

/** Waits for a permit. Then signs the request, and runs the job that sends it. */
export function whenPermitted<T>(
  wanted: Wanted,
  options: CallOptions,
  job: (call: Call, permit: SendPermit) => Promise<T>,
): Promise<T> {
  const { question, cached: _, ...why } = wanted;
  const { request, query, canonicalQuery } = question;
  const origin = options.originOf(query.resource);
  const wait = request.trace?.begin("queue wait");
  const order = { ...why, app: request.app, resource: query.resource, query: canonicalQuery };
  const sent = origin.throttled(order, (ended, permit) => {
    wait?.end();
    return job(startCall(wanted, origin, ended, options), permit);
  });
  return sent.finally(() => wait?.end());
}

export type Call = ReturnType<typeof startCall>;

/** @param report tells the budget and the circuits how the call went. Only the first report counts. */
function startCall(
  { question, cause, cached: validators }: Wanted,
  origin: Origin,
  report: (end: SendEnd) => void,
  options: CallOptions,
) {
  const { upstream, keys, clock, observer, limits } = options;
  const { request, query, canonicalQuery } = question;
  const cached = validators?.();
  const startedAt = clock.monotonic();
  /** The same instant with fractions of a millisecond. */
  const begunAt = clock.precise();
  const about = { resource: query.resource, query: canonicalQuery, cause };
  const span = request.trace?.begin("upstream call", about);
  const { target, signature } = origin.sign(upstreamTarget(query, upstream.recordPath));
  // Thumbnails are not signed.
  const signedWith = signature.length > 0 ? keys.current() : undefined;

  /** Tells the budget and the circuits that the head has arrived, or that none will arrive. */
  function begun(status: SendEnd["status"], verdict?: Verdict, headAt = clock.monotonic()): void {
    const slowDown = verdict?.slowDown;
    const durationMs = clock.monotonic() - startedAt;
    report({ status, durationMs, arrivedAfterMs: headAt - startedAt, ...(slowDown && { slowDown }) });
  }

  /** The same, and tells log, metrics and traces that the call has ended. @param bytes the length of the body */
  function over(status: SendEnd["status"], bytes: number, verdict?: Verdict, headAt?: number): void {
    begun(status, verdict, headAt);
    const note = verdict?.fetched ? undefined : verdict?.problem?.message;
    if (note?.includes(REPEATED_SIGNATURE)) observer.error(TELL_THE_OWNER, { resource: about.resource });
    span?.end({ status, bytes, ...(note !== undefined && { error: String(status) }) });
    const durationMs = clock.precise() - begunAt;
    observer.upstreamCall({ ...about, status, durationMs, bytes, ...(note !== undefined && { note }) });
  }

  /** Judges a whole answer. If the upstream refused the credentials and there are others, the call may be retried. */
  function judge(answer: RawAnswer): Verdict {
    const now = clock.now();
    const hosts = [upstream.url, upstream.imageUrl].map((url) => new URL(url).hostname);
    const confidential = [...hosts, upstream.callerId, ...keys.known];
    const asked = { ...limits(), query, cached, signature, confidential, now };
    const verdict = judgeAnswer(answer, { ...asked, tookMs: clock.monotonic() - startedAt });
    const isTakenNow = mayBeTakenNow(answer, verdict, signedWith, now, options);
    return isTakenNow ? { ...verdict, mayRetry: true, hasNewCredentials: true } : verdict;
  }

  return {
    origin,
    /** The signed path and query. */
    target,
    headers: { ...outgoingHeaders(request.format, upstream), ...conditionHeaders(cached) },
    /** The values that nobody but the upstream may see. */
    signature,
    begun,
    over,
    judge,
    /** The call has ended with a whole answer. */
    answered(answer: RawAnswer): Verdict {
      const verdict = judge(answer);
      over(answer.status, answer.body.length, verdict, answer.headAt);
      return verdict;
    },
    /** The call has ended without a whole answer. Throws errors that are no `UpstreamFault`. @param bytes how many arrived */
    failed(error: unknown, bytes = 0): ReturnType<typeof judgeFault> {
      if (!(error instanceof UpstreamFault)) throw error;
      // Idle connections may lead to the same silent server, new ones to another server.
      if (error.kind === "header-timeout")
        for (const idle of Object.values(origin.agent.freeSockets).flat()) idle?.destroy();
      const verdict = judgeFault(error);
      over(error.kind, bytes, verdict);
      return verdict;
    },
  };
}

const TELL_THE_OWNER =
  "An answer of the upstream repeats our signature, so it is neither stored nor sent. Tell the API's owner.";

/**
 * If the upstream refused the credentials, checks whether there are others. If there are none, logs what operators must
 * check. If the upstream accepted one key after it had refused the other, logs which key it accepts.
 * @param signedWith the key that the request was signed with, if it was signed
 * @param now epoch milliseconds
 * @returns whether there are other credentials, so that a retry may succeed
 */
function mayBeTakenNow(
  { status, headers }: RawAnswer,
  { problem, explanation }: Verdict,
  signedWith: string | undefined,
  now: number,
  { keys, checkKeyFile, observer }: CallOptions,
): boolean {
  if (signedWith === undefined) return false;
  if (problem?.code !== "upstream-authentication-failed") {
    const taken = status < 500 ? keys.accepted(signedWith) : undefined;
    if (taken !== undefined)
      observer.warn(`The API takes the ${taken} private key, and refuses the other one.`, { taken });
    return false;
  }
  checkKeyFile();
  if (keys.refused(signedWith)) return true;
  // Different clocks are a common cause.
  const upstreamNow = httpDateMs(headers.date, now);
  const clockSkewSeconds = upstreamNow === undefined ? "unknown" : Math.round((upstreamNow - now) / 1000);
  observer.error(
    "The upstream refused our credentials. Check UPSTREAM_PRIVATE_KEY or its file, UPSTREAM_CALLER_ID, and this machine's clock (clockSkewSeconds: theirs minus ours).",
    { status, clockSkewSeconds, explanation },
  );
  return false;
}
