import { entityTagOf } from "../http-fields.ts";
import { type Problem, problemBody, PROBLEM_CONTENT_TYPE } from "../errors.ts";

/** This cache's name in `Cache-Status` (RFC 9211, section 2). */
export const CACHE_NAME = "property-gateway";

/**
 * The response for a problem, on both ports. It also answers requests that Node could not parse.
 * @param requestId the value of `X-Request-Id`
 * @param forwarded whether the gateway asked the upstream (RFC 9211, section 2.2)
 * @param indent of the JSON; 0: everything in one line
 */
export function problemResponse(
  problem: Problem,
  requestId: string,
  forwarded: boolean,
  indent = 0,
): { readonly status: number; readonly headers: Readonly<Record<string, string>>; readonly body: Buffer } {
  const body = problemBody(problem, indent);
  const { headers = {}, retryAfterSeconds } = problem.details;
  return {
    status: problem.status,
    headers: {
      ...headers,
      ...(retryAfterSeconds !== undefined && { "Retry-After": String(retryAfterSeconds) }),
      "X-Request-Id": requestId,
      "Cache-Status": `${CACHE_NAME}${forwarded ? "; fwd=miss" : ""}; detail=${problem.code}`,
      "Cache-Control": "no-store",
      Age: "0",
      ETag: `"${entityTagOf(body)}"`,
      "Content-Type": PROBLEM_CONTENT_TYPE,
      "Content-Length": String(body.length),
    },
    body,
  };
}
