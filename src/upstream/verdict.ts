/**
 * Judges an answer or a fault of the upstream: what the caller gets, whether to retry, and whether the gateway must send
 * fewer requests. Pure.
 *
 * | upstream                     | caller gets                          | retry?       |
 * |------------------------------|--------------------------------------|--------------|
 * | 200, complete and valid      | the body                             |              |
 * | 304 to a conditional request | the cached answer                    |              |
 * | 304 with another entity tag  | 502 upstream-invalid-response        | once, without the condition |
 * | 304 without a condition      | 502 upstream-invalid-response        | no           |
 * | 404                          | 404 not-found with its explanation   | no           |
 * | 400                          | 400 upstream-rejected with its explanation | no           |
 * | 401, 403                     | 502 upstream-authentication-failed   | once, if the key has changed |
 * | 401, 403 for a thumbnail     | 502 upstream-invalid-response        | no           |
 * | 500                          | 502 upstream-error                   | once         |
 * | 503, 429                     | 503 upstream-unavailable             | 503 once, unless it has Retry-After |
 * | 412, 431 to a conditional request | 502 upstream-invalid-response   | once, without the condition |
 * | other status, invalid body   | 502 upstream-invalid-response        | no           |
 * | an idle connection was closed | 502 upstream-unreachable            | once         |
 * | no connection                | 502 upstream-unreachable             | no           |
 * | a time limit has passed      | 504 upstream-timeout                 | no           |
 */
import { ANSWER_PROBLEMS, Problem, problemBody, type ProblemCode, PROBLEM_CONTENT_TYPE } from "../errors.ts";
import { httpDateMs, secondsIn } from "../http-fields.ts";
import { type ListPage, readEnvelope } from "../interface/envelope.ts";
import { refusesKey, type Resource } from "../interface/resources.ts";
import { attempt } from "../process/attempt.ts";
import type { AnyQuery } from "../query/query.ts";
import type { SendEnd } from "../ratelimit/call-facts.ts";
import type { UpstreamFaultKind } from "../telemetry/events.ts";
import { type CachingHeaders, cachingHeadersIn, type Validators, validatorsIn } from "./caching-headers.ts";
import { explanationIn } from "./explanation.ts";
import { type RawAnswer, UpstreamFault } from "./send.ts";

/** A valid body, or a 400 or 404 with its problem as the body. */
export interface FetchedAnswer {
  readonly status: 200 | 400 | 404;
  readonly validators: Validators;
  readonly caching: CachingHeaders;
  /** The ids of the records in the body. */
  readonly recordIds: readonly string[];
  /** Absent if the answer is not a page of a list. */
  readonly page?: ListPage | undefined;
  readonly contentType: string;
  readonly body: Buffer;
}

/** The result of an upstream call. 304: the cached answer is still current (RFC 9110, section 15.4.5). */
export type Fetched =
  | FetchedAnswer
  | (Pick<FetchedAnswer, "validators" | "caching"> & { readonly status: 304 });

/** The answer, the problem, or both if the answer is a 400 or 404. */
export type Verdict = (
  | { readonly fetched: Fetched; readonly problem?: Problem }
  | { readonly fetched?: undefined; readonly problem: Problem }
) & {
  readonly mayRetry?: boolean;
  /** Whether the retry has new credentials. */
  readonly hasNewCredentials?: boolean;
  /** Set if the upstream needs a pause. */
  readonly slowDown?: NonNullable<SendEnd["slowDown"]> | undefined;
  /** The upstream's explanation of an error, if it may be shown. */
  readonly explanation?: string | undefined;
};

/** The request that was answered. */
export interface JudgedCall {
  readonly query: AnyQuery;
  /** The validators that were sent as a condition, if any. */
  readonly cached?: Validators | undefined;
  /** The signature of the request. No answer that repeats it is stored or sent. */
  readonly signature: readonly string[];
  /** Hosts, the caller id and keys. An explanation with one of them is not shown. */
  readonly confidential: readonly string[];
  /** A longer `Retry-After` of the upstream is shortened to this, in milliseconds. */
  readonly maxCoolOffMs: number;
  /** An answer whose age is greater is not used. Milliseconds. */
  readonly maxAgeEverMs: number;
  /** The time from the request to the end of the answer, which counts as age. */
  readonly tookMs: number;
  /** Epoch milliseconds. */
  readonly now: number;
}

export const REPEATED_SIGNATURE = "the answer repeats our signature";

function unusable(internal: string, mayRetry = false): Verdict {
  return { problem: new Problem("upstream-invalid-response", { internal }), mayRetry };
}

/** Judges a complete answer. @throws {UpstreamFault} if a 200 is not JSON */
export function judgeAnswer(answer: RawAnswer, asked: JudgedCall): Verdict {
  const verdict = judgeByStatus(answer, asked);
  const isTooOld = (verdict.fetched?.caching.ageMs ?? 0) > asked.maxAgeEverMs;
  return isTooOld ? unusable("the answer is older than cache.maxAgeEver") : verdict;
}

function judgeByStatus(answer: RawAnswer, asked: JudgedCall): Verdict {
  const { status } = answer;
  if (status === 200) return judgeBody(answer, asked);
  if (status === 304) return judgeNotModified(answer, asked);
  const explanation = explanationIn(answer.body, [...asked.confidential, ...asked.signature]);
  if (status !== 400 && status !== 404) return judgeFailure(answer, asked, explanation);
  const problem = new Problem(ANSWER_PROBLEMS[status], { detail: explanation });
  const content = { contentType: PROBLEM_CONTENT_TYPE, body: problemBody(problem), recordIds: [] };
  return { problem, fetched: { status, ...content, ...headOf(answer, asked), validators: NO_VALIDATORS } };
}

/** The problem for each status of a failure, besides 401 and 403. Any other status is no answer of the API. */
const CODES: Readonly<Record<number, ProblemCode>> = {
  429: "upstream-unavailable",
  500: "upstream-error",
  503: "upstream-unavailable",
};

function codeOf(status: number, resource: Resource): ProblemCode {
  if (refusesKey(status, resource)) return "upstream-authentication-failed";
  return CODES[status] ?? "upstream-invalid-response";
}

function judgeFailure(
  { status, headers }: RawAnswer,
  { cached, maxCoolOffMs, now, query }: JudgedCall,
  explanation: string | undefined,
): Verdict {
  const isBusy = status === 429 || status === 503;
  const waitMs = isBusy ? retryAfterMs(headers, now) : undefined;
  // RFC 6585, section 4; RFC 9110, section 15.6.4.
  const wantsPause = status === 429 || waitMs !== undefined;
  // The condition itself failed, or made the headers too large. The retry has none.
  const isAboutCondition = (status === 412 || status === 431) && cached !== undefined;
  const shownMs = waitMs === undefined ? DEFAULT_RETRY_AFTER_MS : Math.min(waitMs, maxCoolOffMs);
  const seconds = Math.max(1, Math.ceil(shownMs / 1000));
  const problem = new Problem(codeOf(status, query.resource), {
    internal: `the upstream answered ${status}${explanation === undefined ? "" : `: ${explanation}`}`,
    ...((isBusy || status === 500) && { retryAfterSeconds: seconds }),
  });
  const cause = status === 429 ? "too-many-requests" : "unavailable";
  return {
    problem,
    explanation,
    mayRetry: status === 500 || (isBusy && !wantsPause) || isAboutCondition,
    slowDown: wantsPause ? { cause, forMs: waitMs } : undefined,
  };
}

/** The caller's `Retry-After`, if the upstream sends none. */
const DEFAULT_RETRY_AFTER_MS = 5_000;

/** For a body that the gateway makes itself. */
const NO_VALIDATORS: Validators = { etag: undefined, lastModified: undefined };

/** What the headers of an answer say about caching it. */
function headOf({ headers }: RawAnswer, { tookMs, now, query }: JudgedCall) {
  // A CDN may keep a thumbnail for weeks, so its `Age` does not count.
  const kept = query.resource === "images" ? { ...headers, age: undefined } : headers;
  return { validators: validatorsIn(headers, now), caching: cachingHeadersIn(kept, tookMs, now) };
}

/** The entity tag of a 304 must be the one in the condition (RFC 9111, section 4.3.4). */
function judgeNotModified(answer: RawAnswer, asked: JudgedCall): Verdict {
  const { cached } = asked;
  const named = answer.headers.etag;
  // For weak comparison (RFC 9110, section 8.8.3.2).
  const opaque = (etag: string): string => etag.replace(/^W\//, "");
  const isCached =
    cached !== undefined && (named === undefined || opaque(named) === opaque(cached.etag ?? named));
  // A `Cache-Control` that the 304 does not repeat stays in force (RFC 9111, section 3.2).
  const headers = { "cache-control": cached?.cacheControl, ...answer.headers };
  return isCached
    ? { fetched: { status: 304, ...headOf({ ...answer, headers }, asked) } }
    : unusable("the upstream answered 304, but not for the cached answer", cached !== undefined);
}

function judgeBody(answer: RawAnswer, asked: JudgedCall): Verdict {
  // A byte order mark is not part of the JSON (RFC 8259, section 8.1).
  const body = answer.body.subarray(answer.body.toString("utf8", 0, 3) === "\uFEFF" ? 3 : 0);
  const { query, signature } = asked;
  const { resource } = query;
  const serviceId = query.kind === "record" ? query.serviceId : undefined;
  if (signature.some((part) => body.includes(part))) return unusable(REPEATED_SIGNATURE);
  const whole = { status: 200, body, ...headOf(answer, asked) } as const;
  if (resource === "images") {
    const isJpeg =
      body.length > 3 && body[0] === 0xff && body[1] === 0xd8 && body.at(-2) === 0xff && body.at(-1) === 0xd9;
    return isJpeg
      ? { fetched: { ...whole, contentType: "image/jpeg", recordIds: [] } }
      : unusable("the body is not a whole JPEG");
  }
  const parsed: unknown = attempt(() => JSON.parse(body.toString("utf8")));
  // For example a login or maintenance page. A circuit counts it as a failure, like other broken answers.
  if (parsed === undefined) throw new UpstreamFault("malformed", "the body is not JSON");
  const envelope = readEnvelope(parsed, resource, serviceId);
  if (typeof envelope === "string") return unusable(`envelope: ${envelope}`);
  return { fetched: { ...whole, contentType: jsonContentType(answer.headers["content-type"]), ...envelope } };
}

/** @returns the upstream's own media type if it is JSON. The body is JSON in any case. */
export function jsonContentType(given: string | undefined): string {
  return given !== undefined && /^application\/(?:[\w.-]+\+)?json\s*(?:;.*)?$/i.test(given)
    ? given
    : "application/json; charset=utf-8";
}

const FAULT_CODES: Record<UpstreamFaultKind, ProblemCode> = {
  "connect-timeout": "upstream-timeout",
  "header-timeout": "upstream-timeout",
  "body-timeout": "upstream-timeout",
  "total-timeout": "upstream-timeout",
  unreachable: "upstream-unreachable",
  "no-descriptor": "too-many-connections",
  reset: "upstream-unreachable",
  "stale-connection": "upstream-unreachable",
  malformed: "upstream-invalid-response",
  "cut-body": "upstream-invalid-response",
  "too-large": "upstream-invalid-response",
  "bad-encoding": "upstream-invalid-response",
  "given-up": "deadline-exceeded",
};

/** Faults where the upstream sent nothing at all. Several in a row open the circuit. */
const SILENT: ReadonlySet<UpstreamFaultKind> = new Set(["unreachable", "connect-timeout", "header-timeout"]);

const NO_DESCRIPTOR = "this process has no file descriptor left (ulimit -n)";

/** Judges a request that got no complete answer. */
export function judgeFault({ kind, message }: UpstreamFault): Verdict & { readonly problem: Problem } {
  const internal = `${kind}: ${message}`;
  const ours = { internal: `${NO_DESCRIPTOR}: ${message}`, retryAfterSeconds: 1, refusedHere: true };
  return {
    problem: new Problem(FAULT_CODES[kind], kind === "no-descriptor" ? ours : { internal }),
    mayRetry: kind === "stale-connection",
    slowDown: SILENT.has(kind) ? { cause: "unreachable", forMs: undefined } : undefined,
  };
}

/**
 * Reads `Retry-After`: seconds or an HTTP date (RFC 9110, section 10.2.3). A date counts from the upstream's `Date`, because its
 * clock may be wrong.
 * @param now epoch milliseconds
 * @returns milliseconds from now, at least 0; `undefined` if the header is absent or malformed
 */
export function retryAfterMs(headers: RawAnswer["headers"], now: number): number | undefined {
  const until = httpDateMs(headers["retry-after"], now);
  const sentAt = httpDateMs(headers.date, now) ?? now;
  const dateMs = until === undefined ? undefined : Math.max(0, until - sentAt);
  return secondsIn(headers["retry-after"]?.trim()) ?? dateMs;
}
