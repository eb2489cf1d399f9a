/**
 * Every error that a caller or an operator can get: stable codes and public texts.
 *
 * A `Problem` is sent as `application/problem+json` (RFC 9457). Its `internal` text is only for the log. The public texts
 * never contain the upstream's address, a key, a signature or a stack. docs/problems.md lists every code.
 */

/** The prefix of our own type URIs. The code follows. */
const TYPE_PREFIX = "urn:property-gateway:problem:";

/** Problem types registered by the IETF HTTPAPI working group (draft-ietf-httpapi-ratelimit-headers). */
const REGISTERED = "https://iana.org/assignments/http-problem-types#";

interface ProblemKind {
  readonly status: number;
  readonly title: string;
  /** What the caller can do. */
  readonly remedy: string;
  /** The type is registered with IANA. */
  readonly isRegistered: boolean;
}

function kind(status: number, title: string, remedy: string, isRegistered = false): ProblemKind {
  return { status, title, remedy, isRegistered };
}

const KINDS = {
  // The request is wrong, or the gateway cannot serve it.
  "malformed-request": kind(
    400,
    "The request is malformed",
    "Correct what `detail` names. Send well-formed HTTP/1.1.",
  ),
  "invalid-query": kind(400, "The query is invalid", "Correct the parameters listed in `errors`."),
  "unknown-path": kind(
    404,
    "Unknown path",
    "Use /listings, /listings/{serviceId}, /sold, /sold/{serviceId}, /areas or /cache/primary_{serviceId}_{width}x{height}.jpg.",
  ),
  "method-not-allowed": kind(405, "Method not allowed", "Use GET or HEAD. This interface is read-only."),
  "not-acceptable": kind(
    406,
    "None of the formats in Accept is available",
    "Omit Accept, or accept application/json or the version-2 media type (for images: image/jpeg).",
  ),
  "request-timeout": kind(
    408,
    "The request took too long to arrive",
    "Send the whole request without pauses.",
  ),
  "uri-too-long": kind(
    414,
    "The URL is too long",
    "Split the query, for example into fewer area ids per request.",
  ),
  "expectation-failed": kind(417, "The Expect header is not supported", "Omit the Expect header."),
  "headers-too-large": kind(
    431,
    "The request headers are too large",
    "Send a shorter URL, or fewer or shorter headers.",
  ),
  "too-many-connections": kind(
    503,
    "The gateway has too many connections",
    "Reuse connections instead of opening new ones. Try again after the seconds in Retry-After.",
  ),
  // The upstream refused the query, or found no record.
  "upstream-rejected": kind(
    400,
    "The property service refused the query",
    "Correct the query as `detail` says. The same query will get the same answer.",
  ),
  "not-found": kind(
    404,
    "The property service has no such record",
    "The record may have been sold or withdrawn. Look under /sold, or search again.",
  ),
  // The upstream or the network failed.
  "upstream-authentication-failed": kind(
    502,
    "The property service rejected the gateway's credentials",
    "Your request is correct. The gateway has logged the failure for its operators.",
  ),
  "upstream-error": kind(502, "The property service failed", "Your request is correct. Try again later."),
  "upstream-unreachable": kind(
    502,
    "The property service cannot be reached",
    "Your request is correct. Try again later.",
  ),
  "upstream-invalid-response": kind(
    502,
    "The property service sent an unusable answer",
    "Your request is correct. Try again later. If the problem persists, tell the gateway's operators.",
  ),
  "upstream-unavailable": kind(
    503,
    "The property service is temporarily unavailable",
    "Try again after the seconds in Retry-After.",
  ),
  "upstream-timeout": kind(
    504,
    "The property service did not answer in time",
    "Your request is correct. Try again later.",
  ),
  // Only on the admin port.
  "invalid-admin-request": kind(
    400,
    "The admin request is invalid",
    "Correct what `detail` names. docs/admin.md describes every endpoint.",
  ),
  "admin-token-required": kind(
    401,
    "The admin port requires a token",
    "Send the token (ADMIN_TOKEN) as `Authorization: Bearer …`, or as the password of Basic authentication. The gateway's operators have it.",
  ),
  "foreign-page": kind(
    403,
    "The admin port refuses requests from web pages of other sites",
    "Send the request from outside a browser, to the address that the port listens on. Set ADMIN_TOKEN to use other host names.",
  ),
  "store-unavailable": kind(
    503,
    "The shared store cannot be reached",
    "The purge may have been applied in part. Send it again when the store is back (gateway_store_breaker_state is 0).",
  ),
  "invalid-settings": kind(
    422,
    "The settings are invalid",
    "Nothing changed. Correct what `problems` lists, and reload.",
  ),
  "restart-needed": kind(
    409,
    "Some settings cannot change while the process runs",
    "Nothing changed. Revert what `problems` lists, or restart the replicas one after the other.",
  ),
  // The gateway's own limits.
  "quota-exceeded": kind(
    429,
    "This app has spent its share of the calls to the property service",
    "Try again after the seconds in Retry-After. Answers that are cached are still served. Other apps are not affected.",
    true,
  ),
  "temporary-reduced-capacity": kind(
    503,
    "The agreed number of calls to the property service is spent for now",
    "Try again after the seconds in Retry-After. Answers that are cached are still served.",
    true,
  ),
  "budget-unavailable": kind(
    503,
    "The gateway cannot reach the store of the shared budget",
    "Try again after the seconds in Retry-After. Answers that are cached are still served.",
  ),
  "shutting-down": kind(
    503,
    "This gateway process is stopping",
    "Try again immediately, on a new connection. Another process will answer.",
  ),
  "deadline-exceeded": kind(
    504,
    "No answer before this request's deadline",
    "Try again. The answer may be cached by then.",
  ),
  "not-in-cache": kind(
    504,
    "No cached answer meets the request's Cache-Control",
    "Omit only-if-cached, so that the gateway may fetch the answer, or relax the other directives.",
  ),
  "internal-error": kind(
    500,
    "Internal error in the gateway",
    "Report the X-Request-Id of this response to the gateway's operators.",
  ),
};

export type ProblemCode = keyof typeof KINDS;
export const PROBLEM_CODES = Object.keys(KINDS).filter((code): code is ProblemCode => code in KINDS);

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
  /** The refused call was background work. Not shown. */
  readonly ofBackground?: boolean;
  /** Only for the log. */
  readonly internal?: string;
}

/** An error that the caller gets. */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly details: ProblemDetails;

  constructor(code: ProblemCode, details: ProblemDetails = {}) {
    super(details.internal ?? details.detail ?? KINDS[code].title);
    this.name = "Problem";
    this.code = code;
    this.details = details;
  }

  get status(): number {
    return KINDS[this.code].status;
  }
}

/** `Content-Type` of every `problemBody` (RFC 9457, section 3). */
export const PROBLEM_CONTENT_TYPE = "application/problem+json";

/**
 * @param indent spaces for each level; 0: everything in one line
 * @returns the RFC 9457 document: `type`, `title`, `status` and `detail`, with the extensions `remedy`, `errors`,
 *   `moreErrors` and `problems`
 */
export function problemBody(problem: Problem, indent = 0): Buffer {
  const { status, title, isRegistered, ...kind } = KINDS[problem.code];
  const { detail, remedy = kind.remedy, errors, problems } = problem.details;
  const document = {
    type: `${isRegistered ? REGISTERED : TYPE_PREFIX}${problem.code}`,
    title,
    status,
    ...(detail !== undefined && { detail }),
    remedy,
    ...(errors !== undefined && { errors: errors.slice(0, MOST_ERRORS).map(shortened) }),
    ...(errors !== undefined && errors.length > MOST_ERRORS && { moreErrors: errors.length - MOST_ERRORS }),
    ...(problems !== undefined && { problems }),
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
