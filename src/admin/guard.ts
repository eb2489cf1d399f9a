/**
 * Guards of the admin port.
 * - If a token is set, a request needs the token, or the cookie of a session.
 * - Requests that a web page of another site makes a browser send are refused.
 * - Each path accepts only its own methods.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

import type { RequestHandler } from "express";

import { Problem } from "../errors.ts";
import { atMostEvery, type Clock } from "../process/clock.ts";
import type { Observer } from "../types.ts";
import { isSame, type Sessions } from "./session.ts";

export interface AdminGuardOptions {
  /** `undefined`: everybody who can connect may use the port. */
  readonly token: string | undefined;
  readonly now: Clock["now"];
  readonly warn: Observer["warn"];
  /** The sessions of browsers; none without a token. */
  readonly sessions: Sessions | undefined;
}

export interface AdminGuard {
  /** Refuses requests that have neither the token nor a session. */
  readonly handler: RequestHandler;
  /** @throws {Problem} `admin-token-required` if the token is wrong */
  readonly checkToken: (given: string) => void;
}

const WARN_EVERY_MS = 60_000;
/** RFC 6750, section 2.1. The name of the scheme ignores case (RFC 9110, section 11.1). */
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i;
const CHALLENGE = 'Bearer realm="property-gateway"';

export function createTokenGuard({ token, now, warn, sessions }: AdminGuardOptions): AdminGuard {
  if (token === undefined) {
    return { handler: (_request, _response, next) => next(), checkToken: () => undefined };
  }
  const expected = digest(token);
  const warnOfWrongToken = atMostEvery(WARN_EVERY_MS, now, (times) =>
    warn("The admin port refused requests with a wrong token.", { times }),
  );
  // All digests have the same length. The duration of the comparison reveals nothing about the token.
  const isRight = (given: string): boolean => timingSafeEqual(digest(given), expected);
  const refuseWrong = (): never => {
    warnOfWrongToken();
    throw tokenRequired(`${CHALLENGE}, error="invalid_token"`);
  };
  return {
    handler(request, _response, next) {
      const { authorization } = request.headers;
      if (authorization !== undefined) {
        const given = BEARER.exec(authorization)?.[1];
        return given !== undefined && isRight(given) ? next() : refuseWrong();
      }
      const session = sessions?.of(request);
      if (session === undefined) throw tokenRequired(CHALLENGE);
      checkCsrf(request, session.csrfToken);
      next();
    },
    checkToken(given) {
      if (!isRight(given)) refuseWrong();
    },
  };
}

function tokenRequired(challenge: string): Problem {
  return new Problem("admin-token-required", { headers: { "WWW-Authenticate": challenge } });
}

/** @throws {Problem} `foreign-page` if a request that changes something does not carry the CSRF token of its session */
function checkCsrf({ method, headers }: IncomingMessage, expected: string): void {
  if (method === "GET" || method === "HEAD" || isSame(String(headers["x-csrf-token"] ?? ""), expected))
    return;
  throw new Problem("foreign-page", {
    detail: "With a session cookie, a change needs the header X-CSRF-Token with the value from GET /session.",
    remedy: "Load the page again, or send the token as `Authorization: Bearer …`.",
  });
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/**
 * @param ownMachineOnly whether the port is open to this machine only and has no token. Then a request for another host
 *   comes from a web page whose name was pointed to this machine (DNS rebinding).
 * @returns the handler that refuses the requests of foreign web pages
 */
export function createPageGuard(ownMachineOnly: boolean): RequestHandler {
  return (request, _response, next) => {
    if (isFromForeignPage(request) || (ownMachineOnly && !isOwnMachine(request.headers.host))) {
      throw new Problem("foreign-page");
    }
    next();
  };
}

/** Browsers send `Origin` with every request of a page from another site (Fetch standard). */
function isFromForeignPage({ headers: { origin, host = "" } }: IncomingMessage): boolean {
  return origin !== undefined && URL.parse(origin)?.host !== URL.parse(`http://${host}`)?.host;
}

const OWN_MACHINE = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d*)?$/i;

/** @param host a name or address with an optional port. Only HTTP/1.0 may omit it, and no browser uses HTTP/1.0. */
export function isOwnMachine(host: string | undefined): boolean {
  return (
    host === undefined || OWN_MACHINE.test(host.includes("::") && !host.startsWith("[") ? `[${host}]` : host)
  );
}

/** Refuses all methods but GET and HEAD: the last handler of a path that shows something. */
export const readOnly: RequestHandler = () =>
  refuseMethod("GET, HEAD", "Use GET or HEAD. This path is read-only.");

/** Refuses all methods but POST: the last handler of a path that changes something. */
export const postOnly: RequestHandler = () =>
  refuseMethod("POST", "Use POST. This path changes something and has nothing to read.");

/** Refuses all methods but GET, HEAD and POST: the last handler of a path that shows and changes something. */
export const getAndPost: RequestHandler = () =>
  refuseMethod("GET, HEAD, POST", "Use GET to read, POST to change something.");

/** A 405 names the allowed methods (RFC 9110, section 15.5.6). */
function refuseMethod(allow: string, remedy: string): never {
  throw new Problem("method-not-allowed", {
    detail: `This path takes ${allow.replace(/,(?=[^,]*$)/, " and")} only.`,
    remedy,
    headers: { Allow: allow },
  });
}
