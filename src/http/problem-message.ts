import { hash } from "node:crypto";

import { type Problem, problemBody, PROBLEM_CONTENT_TYPE } from "../errors.ts";

/** This cache's name in `Cache-Status` (RFC 9211, section 2). */
export const CACHE_NAME = "property-gateway";

/** A problem as a response, whoever writes it: the journey, or the parser's refusals below it. */
export interface ProblemMessage {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/**
 * @param requestId goes into `X-Request-Id`
 * @param forwarded whether the upstream was asked, or would have been (RFC 9211, section 2.2)
 */
export function problemMessage(problem: Problem, requestId: string, forwarded: boolean): ProblemMessage {
  const body = problemBody(problem);
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
      ETag: `"${hash("sha256", body, "base64url").slice(0, 22)}"`,
      "Content-Type": PROBLEM_CONTENT_TYPE,
      "Content-Length": String(body.length),
    },
    body,
  };
}
