/**
 * Every error that a caller or an operator can get: status, title, and the advice what to do (`remedy`). docs/problems.md
 * explains them further.
 *
 * The texts are public. They never contain the upstream's address, a key, a signature or a stack.
 */

/** Status and title by code, and `admin` for problems that occur on the admin port only. */
export const KINDS = {
  // The request is wrong, or the gateway cannot serve it.
  "malformed-request": [400, "The request is malformed"],
  "invalid-query": [400, "The query is invalid"],
  "unknown-path": [404, "Unknown path"],
  "method-not-allowed": [405, "Method not allowed"],
  "not-acceptable": [406, "None of the formats in Accept is available"],
  "request-timeout": [408, "The request took too long to arrive"],
  "uri-too-long": [414, "The URL is too long"],
  "expectation-failed": [417, "The Expect header is not supported"],
  "headers-too-large": [431, "The request headers are too large"],
  "too-many-connections": [503, "The gateway has too many connections"],
  // The upstream refused the query, or found no record.
  "upstream-rejected": [400, "The property service refused the query"],
  "not-found": [404, "The property service has no such record"],
  // The upstream or the network failed.
  "upstream-authentication-failed": [502, "The property service rejected the gateway's credentials"],
  "upstream-error": [502, "The property service failed"],
  "upstream-unreachable": [502, "The property service cannot be reached"],
  "upstream-invalid-response": [502, "The property service sent an unusable answer"],
  "upstream-unavailable": [503, "The property service is temporarily unavailable"],
  "upstream-timeout": [504, "The property service did not answer in time"],
  // Only on the admin port.
  "invalid-admin-request": [400, "The admin request is invalid", "admin"],
  "admin-token-required": [401, "The admin port requires a token", "admin"],
  "foreign-page": [403, "The admin port refuses requests from web pages of other sites", "admin"],
  "store-unavailable": [503, "The shared store cannot be reached", "admin"],
  "invalid-settings": [422, "The settings are invalid", "admin"],
  "restart-needed": [409, "Some settings cannot change while the process runs", "admin"],
  // The gateway's own limits.
  "quota-exceeded": [429, "This app has spent its share of the calls to the property service"],
  "temporary-reduced-capacity": [503, "No further call to the property service is permitted for now"],
  "budget-unavailable": [503, "The gateway cannot reach the store of the shared budget"],
  "shutting-down": [503, "This gateway process is stopping"],
  "deadline-exceeded": [504, "No answer before this request's deadline"],
  "not-in-cache": [504, "No cached answer meets the request's Cache-Control"],
  "internal-error": [500, "Internal error in the gateway"],
} as const satisfies Record<string, readonly [status: number, title: string, port?: "admin"]>;

export type ProblemCode = keyof typeof KINDS;
export const PROBLEM_CODES = Object.keys(KINDS).filter((code): code is ProblemCode => code in KINDS);

/** What the caller can do. */
export const REMEDIES: Readonly<Record<ProblemCode, string>> = {
  "malformed-request": "Correct what `detail` names. Send well-formed HTTP/1.1.",
  "invalid-query": "Correct the parameters listed in `errors`.",
  "unknown-path":
    "Use /listings, /listings/{serviceId}, /sold, /sold/{serviceId}, /areas or /cache/primary_{serviceId}_{width}x{height}.jpg.",
  "method-not-allowed": "Use GET or HEAD. This interface is read-only.",
  "not-acceptable":
    "Omit Accept, or accept application/json or the version-2 media type (for images: image/jpeg).",
  "request-timeout": "Send the whole request without pauses.",
  "uri-too-long": "Split the query, for example into fewer area ids per request.",
  "expectation-failed": "Omit the Expect header.",
  "headers-too-large": "Send a shorter URL, or fewer or shorter headers.",
  "too-many-connections":
    "Reuse connections instead of opening new ones. Try again after the seconds in Retry-After.",
  "upstream-rejected": "Correct the query as `detail` says. The same query will get the same answer.",
  "not-found": "The record may have been sold or withdrawn. Look under /sold, or search again.",
  "upstream-authentication-failed":
    "Your request is correct. The gateway has logged the failure for its operators.",
  "upstream-error": "Your request is correct. Try again later.",
  "upstream-unreachable": "Your request is correct. Try again later.",
  "upstream-invalid-response":
    "Your request is correct. Try again later. If the problem persists, tell the gateway's operators.",
  "upstream-unavailable": "Try again after the seconds in Retry-After.",
  "upstream-timeout": "Your request is correct. Try again later.",
  "invalid-admin-request": "Correct what `detail` names. docs/admin.md describes every endpoint.",
  "admin-token-required":
    "Send the token (ADMIN_TOKEN) as `Authorization: Bearer …`, or as the password of Basic authentication. The gateway's operators have it.",
  "foreign-page":
    "Send the request from outside a browser, to the address that the port listens on. Set ADMIN_TOKEN to use other host names.",
  "store-unavailable":
    "Send the request again when the store is back (gateway_store_breaker_state is 0). A purge may have been applied in part.",
  "invalid-settings": "Nothing changed. Correct what `problems` lists, and reload.",
  "restart-needed":
    "Nothing changed. Revert what `problems` lists, or restart the replicas one after the other.",
  "quota-exceeded":
    "Try again after the seconds in Retry-After. Answers that are cached are still served. Other apps are not affected.",
  "temporary-reduced-capacity":
    "Try again after the seconds in Retry-After. Answers that are cached are still served.",
  "budget-unavailable":
    "Try again after the seconds in Retry-After. Answers that are cached are still served.",
  "shutting-down": "Try again immediately, on a new connection. Another process will answer.",
  "deadline-exceeded": "Try again. The answer may be cached by then.",
  "not-in-cache":
    "Omit only-if-cached, so that the gateway may fetch the answer, or relax the other directives.",
  "internal-error": "Report the X-Request-Id of this response to the gateway's operators.",
};

/** Types that are registered by the IETF HTTPAPI working group (draft-ietf-httpapi-ratelimit-headers). */
const REGISTERED: ReadonlySet<ProblemCode> = new Set(["quota-exceeded", "temporary-reduced-capacity"]);

/** @returns the URI of the type */
export function problemType(code: ProblemCode): string {
  return REGISTERED.has(code)
    ? `https://iana.org/assignments/http-problem-types#${code}`
    : `urn:property-gateway:problem:${code}`;
}
