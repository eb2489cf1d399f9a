/**
 * The errors that a caller or an operator can get. problem-texts.ts has their texts.
 *
 * A `Problem` is sent as `application/problem+json` (RFC 9457). Its `internal` text is only for the log.
 */
import { KINDS, type ProblemCode, problemType, REMEDIES } from "./problem-texts.ts";

export { PROBLEM_CODES, type ProblemCode } from "./problem-texts.ts";

/** The codes which mean that the budget, or the app's share of it, is spent. The gateway made no call. */
export const BUDGET_SPENT: ReadonlySet<ProblemCode> = new Set([
  "quota-exceeded",
  "temporary-reduced-capacity",
]);

/** What one occurrence adds to the texts of its code. */
export interface ProblemDetails {
  /** Public: a sentence about this occurrence. */
  readonly detail?: string | undefined;
  /** Public: replaces the remedy of the code. */
  readonly remedy?: string;
  /** Public: the mistake in each parameter. The body lists the first 20 and counts the rest. */
  readonly errors?: readonly { parameter: string; value: string; expected: string; hint?: string }[];
  /** Public, on the admin port: one line per mistake. */
  readonly problems?: readonly string[];
  /** Public: seconds, sent as `Retry-After`. */
  readonly retryAfterSeconds?: number | undefined;
  /** Public: further response headers, e.g. `Allow`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The gateway itself refused the upstream call. Not shown; the cache policy uses it. */
  readonly refusedHere?: boolean | undefined;
  /** The app whose share is spent, if the problem concerns only this app. Not shown. */
  readonly ofApp?: string;
  /** The request waited in the queue until its deadline. Not shown. */
  readonly late?: boolean;
  /** Only for the log. */
  readonly internal?: string;
}

/** An error that the caller gets. */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly details: ProblemDetails;

  constructor(code: ProblemCode, details: ProblemDetails = {}) {
    super(details.internal ?? details.detail ?? KINDS[code][1]);
    this.name = "Problem";
    this.code = code;
    this.details = details;
  }

  get status(): number {
    return KINDS[this.code][0];
  }
}

/** The problems for the statuses of the upstream that are answers. They are stored like answers. */
export const ANSWER_PROBLEMS = { 400: "upstream-rejected", 404: "not-found" } as const;

/** Whether the gateway refused to call the upstream. That cost no budget. */
export function wasRefusedHere({ code, details }: Problem): boolean {
  return BUDGET_SPENT.has(code) || details.refusedHere === true;
}

/** `Content-Type` of every `problemBody` (RFC 9457, section 3). */
export const PROBLEM_CONTENT_TYPE = "application/problem+json";

/**
 * @param indent spaces for each level; 0: everything in one line
 * @returns the RFC 9457 document: `type`, `title`, `status` and `detail`, with the extensions `remedy`, `errors`,
 *   `moreErrors` and `problems`
 */
export function problemBody(problem: Problem, indent = 0): Buffer {
  const { code, status, details } = problem;
  const { detail, remedy = REMEDIES[code], errors, problems } = details;
  const isTooMany = errors !== undefined && errors.length > MOST_ERRORS;
  const document = {
    type: problemType(code),
    title: KINDS[code][1],
    status,
    detail,
    remedy,
    errors: errors?.slice(0, MOST_ERRORS).map(shortened),
    moreErrors: isTooMany ? errors.length - MOST_ERRORS : undefined,
    problems,
  };
  return Buffer.from(JSON.stringify(document, undefined, indent) + (indent > 0 ? "\n" : ""));
}

/** Limits the list, so that a response is not much larger than the request that it refuses. */
export const MOST_ERRORS = 20;
const LONGEST_ECHO = 100;

function shortened<T extends { parameter: string; value: string }>(error: T): T {
  return { ...error, parameter: cut(error.parameter), value: cut(error.value) };
}

function cut(text: string): string {
  // The cut may leave half of a surrogate pair.
  return text.length > LONGEST_ECHO ? `${text.slice(0, LONGEST_ECHO - 1).replace(/\p{Cs}$/u, "")}…` : text;
}

/** A store outside memory (Redis, a SQLite file) cannot be reached or fails. Callers never get this error. */
export class StoreUnavailable extends Error {
  override readonly name = "StoreUnavailable";
}

/** Redis is reachable, but refused a command, for example because it is out of memory. Other commands still work. */
export class RedisRefusal extends StoreUnavailable {}
