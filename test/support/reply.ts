import { expect } from "vitest";

import type { Reply } from "./ask.ts";

/** `Cache-Status` (RFC 9211) of this gateway as its parameters; a parameter without a value is `true`. */
export function cacheStatus(reply: Reply): Record<string, string | true> {
  const [name, ...parameters] = String(reply.headers["cache-status"]).split("; ");
  expect(name).toBe("property-gateway");
  return Object.fromEntries(
    parameters.map((parameter) => {
      const [key = "", value] = parameter.split(/=(.*)/s);
      return [key, value === undefined ? true : value.replaceAll('"', "")];
    }),
  );
}

/** The code of a problem, after checking that it is one a caller can use (RFC 9457). */
export function problemCode(reply: Reply): string {
  expect(reply.headers["content-type"]).toBe("application/problem+json");
  const problem = reply.json();
  expect(problem).toMatchObject({
    type: expect.stringMatching(
      /^(urn:property-gateway:problem:|https:\/\/iana\.org\/assignments\/http-problem-types#)[a-z-]+$/,
    ),
    title: expect.stringMatching(/^[A-Z].{10,}/),
    status: reply.status,
    remedy: expect.stringMatching(/^[A-Z].{10,}/),
  });
  expect(reply.headers["x-request-id"]).toMatch(/^[\w.:/+=@-]+$/);
  return /"type":"[^"]*?([a-z-]+)"/.exec(reply.text)?.[1] ?? "";
}
