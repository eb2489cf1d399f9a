/**
 * Guards of the admin port.
 * - If a token is set, a request needs the token, or the cookie of a session.
 * - Requests that a web page of another site makes a browser send are refused, at every path.
 * - Each path accepts only its own methods.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";

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

/** @returns the handler that refuses what a web page of another site makes a browser send */
export const refuseForeignPages: RequestHandler = (request, _response, next) => {
  if (isFromForeignPage(request)) throw new Problem("foreign-page");
  next();
};

/**
 * Browsers send `Origin` with every request of a page from another site (Fetch standard), and `Sec-Fetch-Site` with every
 * request at all, images and scripts of such a page included. A link to the status page is no such request.
 */
function isFromForeignPage({ headers, method, url }: IncomingMessage): boolean {
  const { origin, host = "", "sec-fetch-site": site, "sec-fetch-mode": mode } = headers;
  if (origin !== undefined && URL.parse(origin)?.host !== URL.parse(`http://${host}`)?.host) return true;
  const isLink = mode === "navigate" && method === "GET" && url === "/";
  return site !== undefined && site !== "same-origin" && site !== "none" && !isLink;
}

/**
 * @param hasToken whether requests need a token. A browser sends no token to a name that it was not typed in for.
 * @returns the handler that refuses requests to a name that a web page may have pointed here (DNS rebinding)
 */
export function createHostGuard(hasToken: boolean): RequestHandler {
  return (request, _response, next) => {
    if (!hasToken && !isOwnName(request.headers.host)) throw new Problem("foreign-page");
    next();
  };
}

/**
 * Nobody can point these to another machine from outside: an address, `localhost`, and a name without a dot, such as that
 * of a container. Only HTTP/1.0 may omit the host, and no browser uses HTTP/1.0.
 */
function isOwnName(host = "localhost"): boolean {
  const name = host.replace(/:\d*$/, "").replace(/^\[(.*)\]$/, "$1");
  return isIP(name) !== 0 || !name.includes(".");
}

const OWN_MACHINE = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/i;

/** @param host an address or a name to listen on */
export function isOwnMachine(host: string): boolean {
  return OWN_MACHINE.test(host);
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
