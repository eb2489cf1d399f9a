/**
 * Everything that can go wrong for a caller: stable codes, public text, and the internal text apart.
 *
 * A `Problem` is what a caller gets as `application/problem+json` (RFC 9457). `internal` is for the log
 * only; nothing in `publicBody` may name the upstream, a key, a signature or a stack. Every code has a
 * section in docs/problems.md.
 */

/** Where the type URIs of our own problems live; the code follows. */
const TYPE_PREFIX = "urn:property-gateway:problem:";

/** Problem types registered by the IETF HTTPAPI working group (draft-ietf-httpapi-ratelimit-headers). */
const REGISTERED = "https://iana.org/assignments/http-problem-types#";

interface ProblemKind {
  readonly status: number;
  readonly title: string;
  /** What the caller can do next. */
  readonly remedy: string;
  /** Where the type is somebody else's standard one. */
  readonly registered?: true;
}

const KINDS = {
  // Answered here, at no cost to the upstream.
  "malformed-request": {
    status: 400,
    title: "The request is malformed",
    remedy:
      "Correct what the detail names; send well-formed HTTP/1.1, with every byte outside ASCII in the URL percent-encoded.",
  },
  "invalid-query": {
    status: 400,
    title: "The query has a mistake",
    remedy: "Correct the parameters listed in `errors` and ask again.",
  },
  "unknown-path": {
    status: 404,
    title: "There is nothing at this path",
    remedy:
      "Use /listings, /listings/{serviceId}, /sold, /sold/{serviceId}, /areas or /cache/primary_{serviceId}_{width}x{height}.jpg.",
  },
  "method-not-allowed": {
    status: 405,
    title: "This method is not allowed",
    remedy: "Use GET or HEAD: everything here is read-only.",
  },
  "not-acceptable": {
    status: 406,
    title: "None of the formats in Accept can be served",
    remedy: "Leave Accept out, or accept application/json or the version-2 media type (images: image/jpeg).",
  },
  "request-timeout": {
    status: 408,
    title: "The request took too long to arrive",
    remedy: "Send the whole request at once.",
  },
  "uri-too-long": {
    status: 414,
    title: "The URL is too long",
    remedy: "Split the question, for example into fewer area ids per request.",
  },
  "expectation-failed": {
    status: 417,
    title: "Expectations are not supported",
    remedy: "Leave the Expect header out.",
  },
  "headers-too-large": {
    status: 431,
    title: "The request headers are too large",
    remedy: "Send fewer or shorter headers.",
  },
  "too-many-connections": {
    status: 503,
    title: "The gateway has too many connections",
    remedy:
      "Use connections again instead of making new ones, and try again after the seconds in Retry-After.",
  },
  // The upstream's own answers.
  "upstream-rejected": {
    status: 400,
    title: "The property service refused the query",
    remedy: "Correct the query as the explanation says; asking again unchanged gives the same answer.",
  },
  "not-found": {
    status: 404,
    title: "The property service knows no such record",
    remedy: "The record may have been sold or withdrawn: look under /sold, or search again.",
  },
  // The upstream, or the way to it, failed.
  "upstream-authentication-failed": {
    status: 502,
    title: "The property service did not accept the gateway's credentials",
    remedy: "Nothing is wrong with your request. The gateway's operators have been told in the log.",
  },
  "upstream-error": {
    status: 502,
    title: "The property service failed",
    remedy: "Nothing is wrong with your request. Try again in a while.",
  },
  "upstream-unreachable": {
    status: 502,
    title: "The property service cannot be reached",
    remedy: "Nothing is wrong with your request. Try again in a while.",
  },
  "upstream-invalid-response": {
    status: 502,
    title: "The property service gave an unusable answer",
    remedy: "Nothing is wrong with your request. Try again; if it persists, tell the gateway's operators.",
  },
  "upstream-unavailable": {
    status: 503,
    title: "The property service is temporarily unavailable",
    remedy: "Try again after the seconds in Retry-After.",
  },
  "upstream-timeout": {
    status: 504,
    title: "The property service did not answer in time",
    remedy: "Nothing is wrong with your request. Try again in a while.",
  },
  // On the admin port.
  "invalid-admin-request": {
    status: 400,
    title: "The admin request has a mistake",
    remedy: "Correct what the detail names; docs/operations.md has the forms.",
  },
  "admin-token-required": {
    status: 401,
    title: "The admin port asks for its token",
    remedy: "Send the token as `Authorization: Bearer …`; whoever runs the gateway has it (ADMIN_TOKEN).",
  },
  "foreign-page": {
    status: 403,
    title: "The admin port takes no requests of other sites' pages",
    remedy:
      "Ask from outside a browser, by the address the port listens on; to use other names, set a token.",
  },
  "store-unavailable": {
    status: 503,
    title: "The shared store cannot be reached",
    remedy: "Nothing was changed. Try again when the store is back; gateway_store_breaker_state tells.",
  },
  "invalid-settings": {
    status: 422,
    title: "The settings cannot be used",
    remedy: "Nothing was changed. Correct what `problems` lists, and have them read again.",
  },
  "restart-needed": {
    status: 409,
    title: "Some of these settings cannot change while the process runs",
    remedy:
      "Nothing was changed. Take back what `problems` lists, or restart the replicas one after the other.",
  },
  // The gateway's own limits.
  "quota-exceeded": {
    status: 429,
    title: "This app's share of the requests to the property service is used up for now",
    remedy:
      "Ask again after the seconds in Retry-After; until then answers already known are still served. The shares of other apps are not touched.",
    registered: true,
  },
  "temporary-reduced-capacity": {
    status: 503,
    title: "The agreed volume of requests to the property service is used up for now",
    remedy: "Try again after the seconds in Retry-After; answers already known are still served.",
    registered: true,
  },
  "shutting-down": {
    status: 503,
    title: "This process of the gateway is being stopped",
    remedy: "Ask again at once, on a new connection: another process answers, or this one's successor.",
  },
  "deadline-exceeded": {
    status: 504,
    title: "No answer within this request's deadline",
    remedy: "Try again: the answer may be here by then.",
  },
  "not-in-cache": {
    status: 504,
    title: "There is no kept answer that meets the request's Cache-Control",
    remedy: "Leave only-if-cached out, or ask for less: a request that may be fetched is answered.",
  },
  "internal-error": {
    status: 500,
    title: "The gateway made a mistake",
    remedy: "Tell the gateway's operators the X-Request-Id of this response.",
  },
} as const satisfies Record<string, ProblemKind>;

export type ProblemCode = keyof typeof KINDS;
export const PROBLEM_CODES: readonly ProblemCode[] = Object.keys(KINDS).filter(
  (code): code is ProblemCode => code in KINDS,
);

/** What one request adds to its kind of problem. */
export interface ProblemDetails {
  /** Public: a sentence on this very case. */
  readonly detail?: string;
  /** Public: what to do in this very case, where that is not what its kind says. */
  readonly remedy?: string;
  /** Public: what is wrong with each parameter. The body lists the first 20, and counts the rest. */
  readonly errors?: readonly { parameter: string; value: string; expected: string; hint?: string }[];
  /** Public, on the admin port: a line for each of several. */
  readonly problems?: readonly string[];
  /** Public: seconds, sent as `Retry-After`. */
  readonly retryAfterSeconds?: number;
  /** Public: further response headers, e.g. `Allow`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Refused by the gateway itself: the upstream was not asked. Not shown; it decides what else may be given. */
  readonly refusedHere?: boolean;
  /** Whose share is used up, where it is one app's alone. Not shown. */
  readonly ofApp?: string;
  /** Refused after it had waited in vain, not at once. Not shown. */
  readonly late?: boolean;
  /** Refused as work that nobody waits for. Not shown. */
  readonly ofBackground?: boolean;
  /** For the log alone. */
  readonly internal?: string;
}

/** A failure that a caller is told of. */
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

/** Sent with every body made by `problemBody` (RFC 9457, section 3). */
export const PROBLEM_CONTENT_TYPE = "application/problem+json";

/** @returns the RFC 9457 document: `type`, `title`, `status`, `detail`, and `remedy`, `errors`, `moreErrors`, `problems` beside them. */
export function problemBody(problem: Problem): Buffer {
  const kind: ProblemKind = KINDS[problem.code];
  const { detail, remedy = kind.remedy, errors, problems } = problem.details;
  return Buffer.from(
    JSON.stringify({
      type: `${kind.registered ? REGISTERED : TYPE_PREFIX}${problem.code}`,
      title: kind.title,
      status: kind.status,
      ...(detail !== undefined && { detail }),
      remedy,
      ...(errors !== undefined && { errors: errors.slice(0, MOST_ERRORS).map(shortened) }),
      ...(errors !== undefined && errors.length > MOST_ERRORS && { moreErrors: errors.length - MOST_ERRORS }),
      ...(problems !== undefined && { problems }),
    }),
  );
}

/** A response must not be much larger than the request that it refuses. */
export const MOST_ERRORS = 20;
const LONGEST_ECHO = 100;

function shortened<T extends { parameter: string; value: string }>(error: T): T {
  return { ...error, parameter: cut(error.parameter), value: cut(error.value) };
}

function cut(text: string): string {
  // Half a surrogate pair is no character.
  return text.length > LONGEST_ECHO ? `${text.slice(0, LONGEST_ECHO - 1).replace(/\p{Cs}$/u, "")}…` : text;
}
