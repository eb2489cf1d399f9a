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
  readonly registered?: true;
}

const KINDS = {
  // The request is wrong, or the gateway cannot serve it.
  "malformed-request": {
    status: 400,
    title: "The request is malformed",
    remedy: "Correct what `detail` names. Send well-formed HTTP/1.1.",
  },
  "invalid-query": {
    status: 400,
    title: "The query is invalid",
    remedy: "Correct the parameters listed in `errors`.",
  },
  "unknown-path": {
    status: 404,
    title: "Unknown path",
    remedy:
      "Use /listings, /listings/{serviceId}, /sold, /sold/{serviceId}, /areas or /cache/primary_{serviceId}_{width}x{height}.jpg.",
  },
  "method-not-allowed": {
    status: 405,
    title: "Method not allowed",
    remedy: "Use GET or HEAD. This interface is read-only.",
  },
  "not-acceptable": {
    status: 406,
    title: "None of the formats in Accept is available",
    remedy: "Omit Accept, or accept application/json or the version-2 media type (for images: image/jpeg).",
  },
  "request-timeout": {
    status: 408,
    title: "The request took too long to arrive",
    remedy: "Send the whole request without pauses.",
  },
  "uri-too-long": {
    status: 414,
    title: "The URL is too long",
    remedy: "Split the query, for example into fewer area ids per request.",
  },
  "expectation-failed": {
    status: 417,
    title: "The Expect header is not supported",
    remedy: "Omit the Expect header.",
  },
  "headers-too-large": {
    status: 431,
    title: "The request headers are too large",
    remedy: "Send a shorter URL, or fewer or shorter headers.",
  },
  "too-many-connections": {
    status: 503,
    title: "The gateway has too many connections",
    remedy: "Reuse connections instead of opening new ones. Try again after the seconds in Retry-After.",
  },
  // The upstream refused the query, or found no record.
  "upstream-rejected": {
    status: 400,
    title: "The property service refused the query",
    remedy: "Correct the query as `detail` says. The same query will get the same answer.",
  },
  "not-found": {
    status: 404,
    title: "The property service has no such record",
    remedy: "The record may have been sold or withdrawn. Look under /sold, or search again.",
  },
  // The upstream or the network failed.
  "upstream-authentication-failed": {
    status: 502,
    title: "The property service rejected the gateway's credentials",
    remedy: "Your request is correct. The gateway has logged the failure for its operators.",
  },
  "upstream-error": {
    status: 502,
    title: "The property service failed",
    remedy: "Your request is correct. Try again later.",
  },
  "upstream-unreachable": {
    status: 502,
    title: "The property service cannot be reached",
    remedy: "Your request is correct. Try again later.",
  },
  "upstream-invalid-response": {
    status: 502,
    title: "The property service sent an unusable answer",
    remedy:
      "Your request is correct. Try again later. If the problem persists, tell the gateway's operators.",
  },
  "upstream-unavailable": {
    status: 503,
    title: "The property service is temporarily unavailable",
    remedy: "Try again after the seconds in Retry-After.",
  },
  "upstream-timeout": {
    status: 504,
    title: "The property service did not answer in time",
    remedy: "Your request is correct. Try again later.",
  },
  // Only on the admin port.
  "invalid-admin-request": {
    status: 400,
    title: "The admin request is invalid",
    remedy: "Correct what `detail` names. docs/admin.md describes every endpoint.",
  },
  "admin-token-required": {
    status: 401,
    title: "The admin port requires a token",
    remedy:
      "Send the token (ADMIN_TOKEN) as `Authorization: Bearer …`, or as the password of Basic authentication. The gateway's operators have it.",
  },
  "foreign-page": {
    status: 403,
    title: "The admin port refuses requests from web pages of other sites",
    remedy:
      "Send the request from outside a browser, to the address that the port listens on. Set ADMIN_TOKEN to use other host names.",
  },
  "store-unavailable": {
    status: 503,
    title: "The shared store cannot be reached",
    remedy:
      "The purge may have been applied in part. Send it again when the store is back (gateway_store_breaker_state is 0).",
  },
  "invalid-settings": {
    status: 422,
    title: "The settings are invalid",
    remedy: "Nothing changed. Correct what `problems` lists, and reload.",
  },
  "restart-needed": {
    status: 409,
    title: "Some settings cannot change while the process runs",
    remedy: "Nothing changed. Revert what `problems` lists, or restart the replicas one after the other.",
  },
  // The gateway's own limits.
  "quota-exceeded": {
    status: 429,
    title: "This app has spent its share of the calls to the property service",
    remedy:
      "Try again after the seconds in Retry-After. Answers that are cached are still served. Other apps are not affected.",
    registered: true,
  },
  "temporary-reduced-capacity": {
    status: 503,
    title: "The agreed number of calls to the property service is spent for now",
    remedy: "Try again after the seconds in Retry-After. Answers that are cached are still served.",
    registered: true,
  },
  "budget-unavailable": {
    status: 503,
    title: "The gateway cannot reach the store of the shared budget",
    remedy: "Try again after the seconds in Retry-After. Answers that are cached are still served.",
  },
  "shutting-down": {
    status: 503,
    title: "This gateway process is stopping",
    remedy: "Try again immediately, on a new connection. Another process will answer.",
  },
  "deadline-exceeded": {
    status: 504,
    title: "No answer before this request's deadline",
    remedy: "Try again. The answer may be cached by then.",
  },
  "not-in-cache": {
    status: 504,
    title: "No cached answer meets the request's Cache-Control",
    remedy: "Omit only-if-cached, so that the gateway may fetch the answer, or relax the other directives.",
  },
  "internal-error": {
    status: 500,
    title: "Internal error in the gateway",
    remedy: "Report the X-Request-Id of this response to the gateway's operators.",
  },
} as const satisfies Record<string, ProblemKind>;

export type ProblemCode = keyof typeof KINDS;
export const PROBLEM_CODES: readonly ProblemCode[] = Object.keys(KINDS).filter(
  (code): code is ProblemCode => code in KINDS,
);

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
  const kind: ProblemKind = KINDS[problem.code];
  const { detail, remedy = kind.remedy, errors, problems } = problem.details;
  const document = {
    type: `${kind.registered ? REGISTERED : TYPE_PREFIX}${problem.code}`,
    title: kind.title,
    status: kind.status,
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
