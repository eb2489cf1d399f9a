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
 * | 500                          | 502 upstream-error                   | once         |
 * | 503, 429                     | 503 upstream-unavailable             | 503 once, unless it has Retry-After |
 * | 412, 431 to a conditional request | 502 upstream-invalid-response   | once, without the condition |
 * | other status, invalid body   | 502 upstream-invalid-response        | no           |
 * | an idle connection was closed | 502 upstream-unreachable            | once         |
 * | no connection                | 502 upstream-unreachable             | no           |
 * | a time limit has passed      | 504 upstream-timeout                 | no           |
 */
import { Problem, type ProblemCode } from "../errors.ts";
import { httpDateMs } from "../http-fields.ts";
import type { ListPage, Validators } from "./fetched.ts";
import type { Observer, UpstreamFaultKind } from "../telemetry/events.ts";
import type { SendEnd } from "../ratelimit/throttled.ts";
import { envelopeFault, pageIn, recordsIn } from "../interface/envelope.ts";
import type { Resource } from "../interface/resources.ts";
import { explanationIn } from "./explanation.ts";
import type { RawAnswer, UpstreamFault } from "./fetch.ts";

export type Verdict =
  | {
      readonly kind: "answer";
      readonly body: Buffer;
      readonly contentType: string;
      readonly recordIds: readonly string[];
      readonly page?: ListPage | undefined;
    }
  | { readonly kind: "not-modified" }
  /** The upstream found no such record, or refused the query. */
  | { readonly kind: "negative"; readonly status: 400 | 404; readonly problem: Problem }
  | Failed;

export interface Failed {
  readonly kind: "failed";
  readonly problem: Problem;
  readonly mayRetry: boolean;
}

/** The request that was answered. */
export interface Asked {
  readonly resource: Resource;
  /** The requested record; absent for a list. */
  readonly serviceId?: string | undefined;
  /** The validators that were sent as a condition, if any. */
  readonly cached?: Validators | undefined;
  /** The signature of the request. No answer that repeats it is stored or sent. */
  readonly signature: readonly string[];
  /** Hosts, the caller id and keys. An explanation with one of them is not shown. */
  readonly confidential: readonly string[];
  /** A longer `Retry-After` of the upstream is shortened to this, in milliseconds. */
  readonly maxCoolOffMs: number;
  /** Epoch milliseconds. */
  readonly now: number;
}

export type WholeAnswer = Pick<RawAnswer, "status" | "headers" | "body">;

/** The caller's `Retry-After` in seconds, if the upstream sends none. */
const DEFAULT_RETRY_AFTER_SECONDS = 5;

function failed(code: ProblemCode, internal: string, mayRetry = false): Failed {
  return { kind: "failed", problem: new Problem(code, { internal }), mayRetry };
}

export const REPEATED_SIGNATURE = "the answer repeats our signature";

/** @returns why a call failed, for the log */
export function noteOf(verdict: Verdict): string | undefined {
  return verdict.kind === "failed" ? verdict.problem.message : undefined;
}

/** Logs that an answer was thrown away because it repeats the signature of its request. */
export function reportRepeatedSignature(resource: Resource, observer: Pick<Observer, "error">): void {
  observer.error(
    "An answer of the upstream repeats our signature, so it is neither stored nor sent. Tell the API's owner.",
    { resource },
  );
}

/** Judges a complete answer. */
export function judgeAnswer(answer: WholeAnswer, asked: Asked): Verdict {
  const { status } = answer;
  const explanation = status === 200 || status === 304 ? undefined : explanationOf(answer, asked);
  const answered = `the upstream answered ${status}${explanation === undefined ? "" : `: ${explanation}`}`;
  const detail = explanation === undefined ? {} : { detail: explanation };
  switch (status) {
    case 200:
      return judgeBody(answer, asked);
    case 304:
      return judgeNotModified(answer, asked);
    case 400:
      return { kind: "negative", status, problem: new Problem("upstream-rejected", detail) };
    case 404:
      return { kind: "negative", status, problem: new Problem("not-found", detail) };
    case 401:
    case 403:
      return failed("upstream-authentication-failed", answered);
    case 500:
      return {
        kind: "failed",
        problem: new Problem("upstream-error", {
          retryAfterSeconds: DEFAULT_RETRY_AFTER_SECONDS,
          internal: answered,
        }),
        mayRetry: true,
      };
    case 429:
    case 503:
      return unavailable(answer, asked, answered);
    default: {
      // The condition itself failed, or made the headers too large. The retry has none.
      const isAboutCondition = (status === 412 || status === 431) && asked.cached !== undefined;
      return failed("upstream-invalid-response", answered, isAboutCondition);
    }
  }
}

/** The entity tag of a 304 must be the one in the condition (RFC 9111, section 4.3.4). */
function judgeNotModified({ headers }: WholeAnswer, { cached }: Asked): Verdict {
  const named = headers.etag;
  const isCached =
    cached !== undefined && (named === undefined || opaque(named) === opaque(cached.etag ?? named));
  return isCached
    ? { kind: "not-modified" }
    : failed(
        "upstream-invalid-response",
        "the upstream answered 304, but not for the cached answer",
        cached !== undefined,
      );
}

/** @returns the opaque part of an entity tag, for weak comparison (RFC 9110, section 8.8.3.2) */
function opaque(etag: string): string {
  return etag.replace(/^W\//, "");
}

/** @returns the upstream's explanation of an error, if it may be shown */
export function explanationOf(
  { body }: Pick<WholeAnswer, "body">,
  { confidential, signature }: Pick<Asked, "confidential" | "signature">,
): string | undefined {
  return explanationIn(body, [...confidential, ...signature]);
}

function unavailable(answer: WholeAnswer, { maxCoolOffMs, now }: Asked, internal: string): Verdict {
  const wait = retryAfterMs(answer.headers["retry-after"], now);
  const named = wait === undefined ? undefined : Math.max(1, Math.ceil(Math.min(wait, maxCoolOffMs) / 1000));
  const problem = new Problem("upstream-unavailable", {
    retryAfterSeconds: named ?? DEFAULT_RETRY_AFTER_SECONDS,
    internal,
  });
  return { kind: "failed", problem, mayRetry: answer.status === 503 && wait === undefined };
}

function judgeBody({ body, headers }: WholeAnswer, { resource, serviceId, signature }: Asked): Verdict {
  if (signature.some((part) => body.includes(part)))
    return failed("upstream-invalid-response", REPEATED_SIGNATURE);
  if (resource === "images") {
    const jpeg =
      body.length > 3 && body[0] === 0xff && body[1] === 0xd8 && body.at(-2) === 0xff && body.at(-1) === 0xd9;
    return jpeg
      ? { kind: "answer", body, contentType: "image/jpeg", recordIds: [] }
      : failed("upstream-invalid-response", "the body is not a whole JPEG");
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.toString("utf8"));
  } catch {
    return failed("upstream-invalid-response", "the body is not JSON");
  }
  const fault = envelopeFault(parsed, resource, serviceId);
  if (fault !== undefined) return failed("upstream-invalid-response", `envelope: ${fault}`);
  return {
    kind: "answer",
    body,
    contentType: jsonContentType(headers["content-type"]),
    recordIds: recordsIn(parsed, resource).map(([id]) => id),
    page: serviceId === undefined ? pageIn(parsed, resource) : undefined,
  };
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

/** Judges a request that got no complete answer. */
export function judgeFault(fault: UpstreamFault): Failed {
  if (fault.kind === "no-descriptor") {
    const internal = `this process has no file descriptor left (ulimit -n): ${fault.message}`;
    const problem = new Problem("too-many-connections", {
      internal,
      retryAfterSeconds: 1,
      refusedHere: true,
    });
    return { kind: "failed", problem, mayRetry: false };
  }
  return failed(
    FAULT_CODES[fault.kind],
    `${fault.kind}: ${fault.message}`,
    fault.kind === "stale-connection",
  );
}

type SlowDown = NonNullable<SendEnd["slowDown"]>;

/**
 * Reads whether the upstream asks for fewer requests: with a 429 (RFC 6585, section 4), or with a 503 and `Retry-After` (RFC
 * 9110, section 15.6.4).
 * @param now epoch milliseconds
 */
export function slowDownIn(
  { status, headers }: Pick<RawAnswer, "status" | "headers">,
  now: number,
): SlowDown | undefined {
  const forMs = retryAfterMs(headers["retry-after"], now);
  if (status === 429) return { cause: "too-many-requests", forMs };
  return status === 503 && forMs !== undefined ? { cause: "unavailable", forMs } : undefined;
}

/** Faults where the upstream sent nothing at all. */
const SILENT: ReadonlySet<UpstreamFaultKind> = new Set(["unreachable", "connect-timeout", "header-timeout"]);

/** @returns the slow-down after a fault where the upstream sent nothing. Several in a row open the circuit. */
export function slowDownAfter(fault: UpstreamFaultKind): SlowDown | undefined {
  return SILENT.has(fault) ? { cause: "unreachable", forMs: undefined } : undefined;
}

/**
 * Reads `Retry-After`: seconds or an HTTP date (RFC 9110, section 10.2.3).
 * @param now epoch milliseconds
 * @returns milliseconds from now, at least 0; `undefined` if the header is absent or malformed
 */
export function retryAfterMs(value: string | undefined, now: number): number | undefined {
  const text = value?.trim() ?? "";
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const instant = httpDateMs(text, now);
  return instant === undefined ? undefined : Math.max(0, instant - now);
}
