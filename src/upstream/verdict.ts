/**
 * What an answer, or a fault, of the upstream means for the caller. Pure.
 *
 * | upstream                     | caller gets                          | asked again? |
 * |------------------------------|--------------------------------------|--------------|
 * | 200, whole and of the shape  | the body                             |              |
 * | 304, where that was asked    | what is held                         |              |
 * | 304 otherwise                | 502 upstream-invalid-response        | once, unconditionally |
 * | 404                          | 404 not-found with its explanation   | no           |
 * | 400                          | 400 upstream-rejected, likewise      | no           |
 * | 401, 403                     | 502 upstream-authentication-failed   | once, where the key has changed |
 * | 500                          | 502 upstream-error                   | once         |
 * | 503, 429                     | 503 upstream-unavailable             | 503 once, unless it names a wait |
 * | 412, 431, where 304 was asked | 502 upstream-invalid-response       | no; the next time unconditionally |
 * | anything else, wrong body    | 502 upstream-invalid-response        | no           |
 * | closed a kept connection     | 502 upstream-unreachable             | once         |
 * | no connection                | 502 upstream-unreachable             | no           |
 * | too slow                     | 504 upstream-timeout                 | no           |
 */
import { Problem, type ProblemCode } from "../errors.ts";
import type { UpstreamFaultKind, Validators } from "../types.ts";
import { envelopeFault, recordIdsIn } from "../interface/envelope.ts";
import type { Resource } from "../interface/resources.ts";
import { type Confidential, explanationIn } from "./explanation.ts";
import type { RawAnswer, UpstreamFault } from "./fetch.ts";
import { retryAfterMs } from "./retry-after.ts";

export type Verdict =
  | {
      readonly kind: "answer";
      readonly body: Buffer;
      readonly contentType: string;
      readonly recordIds: readonly string[];
    }
  | { readonly kind: "not-modified" }
  /** That is the answer: there is no such thing, or no such question. */
  | { readonly kind: "negative"; readonly status: 400 | 404; readonly problem: Problem }
  | Failed;

export interface Failed {
  readonly kind: "failed";
  readonly problem: Problem;
  readonly mayRetry: boolean;
}

export interface Asked {
  readonly resource: Resource;
  /** The one record that was asked for; absent for a list. */
  readonly serviceId?: string | undefined;
  /** What is held, where it was asked whether that has changed. */
  readonly held?: Validators | undefined;
  /** Kept out of what callers see. */
  readonly confidential: Confidential;
  /** For how long the upstream is left alone at the most, whatever it says; callers are told no more. Milliseconds. */
  readonly maxCoolOffMs: number;
  /** Epoch milliseconds. */
  readonly now: number;
}

type WholeAnswer = Pick<RawAnswer, "status" | "headers" | "body">;

/** Seconds a caller is told to wait where the upstream names none. */
const DEFAULT_RETRY_AFTER_SECONDS = 5;

function failed(code: ProblemCode, internal: string, mayRetry = false): Failed {
  return { kind: "failed", problem: new Problem(code, { internal }), mayRetry };
}

/** Judges a whole answer. */
export function judgeAnswer(answer: WholeAnswer, asked: Asked): Verdict {
  const { status } = answer;
  switch (status) {
    case 200:
      return judgeBody(answer, asked);
    case 304:
      return judgeNotModified(answer, asked);
    case 400:
      return { kind: "negative", status, problem: withExplanation("upstream-rejected", answer, asked) };
    case 404:
      return { kind: "negative", status, problem: withExplanation("not-found", answer, asked) };
    case 401:
    case 403:
      return failed("upstream-authentication-failed", `the upstream answered ${status}`);
    case 500:
      return {
        kind: "failed",
        problem: new Problem("upstream-error", {
          retryAfterSeconds: DEFAULT_RETRY_AFTER_SECONDS,
          internal: "the upstream answered 500",
        }),
        mayRetry: true,
      };
    case 429:
    case 503:
      return unavailable(answer, asked);
    default:
      return failed("upstream-invalid-response", `the upstream answered ${status}`);
  }
}

/** The validator that comes with it must be the one that was sent (RFC 9111, section 4.3.4). */
function judgeNotModified({ headers }: WholeAnswer, { held }: Asked): Verdict {
  const named = headers.etag;
  const isHeld = held !== undefined && (named === undefined || opaque(named) === opaque(held.etag ?? named));
  return isHeld
    ? { kind: "not-modified" }
    : failed(
        "upstream-invalid-response",
        "the upstream answered 304 to what is not held",
        held !== undefined,
      );
}

/** Weak and strong are one here (RFC 9110, section 8.8.3.2). */
function opaque(etag: string): string {
  return etag.replace(/^W\//, "");
}

function withExplanation(code: ProblemCode, answer: WholeAnswer, asked: Asked): Problem {
  const explanation = explanationIn(answer.body, asked.confidential);
  return new Problem(code, explanation === undefined ? {} : { detail: explanation });
}

function unavailable(answer: WholeAnswer, { maxCoolOffMs, now }: Asked): Verdict {
  const wait = retryAfterMs(answer.headers["retry-after"], now);
  const named = wait === undefined ? undefined : Math.max(1, Math.ceil(Math.min(wait, maxCoolOffMs) / 1000));
  const problem = new Problem("upstream-unavailable", {
    retryAfterSeconds: named ?? DEFAULT_RETRY_AFTER_SECONDS,
    internal: `the upstream answered ${answer.status}`,
  });
  return { kind: "failed", problem, mayRetry: answer.status === 503 && wait === undefined };
}

function judgeBody({ body, headers }: WholeAnswer, { resource, serviceId }: Asked): Verdict {
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
    recordIds: recordIdsIn(parsed, resource),
  };
}

/** The upstream's own media type where it is a JSON one; the body has been seen to be JSON either way. */
function jsonContentType(given: string | undefined): string {
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
  reset: "upstream-unreachable",
  "stale-connection": "upstream-unreachable",
  malformed: "upstream-invalid-response",
  "cut-body": "upstream-invalid-response",
  "too-large": "upstream-invalid-response",
  "bad-encoding": "upstream-invalid-response",
};

/** Judges an exchange that gave no answer. */
export function judgeFault(fault: UpstreamFault): Failed {
  return failed(
    FAULT_CODES[fault.kind],
    `${fault.kind}: ${fault.message}`,
    fault.kind === "stale-connection",
  );
}
