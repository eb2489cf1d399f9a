/**
 * Who may use the admin port: whoever has the token, where there is one; and in any case no web page of somebody
 * else's, which a browser on this machine or in this network may be made to send requests for.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

import type { RequestHandler } from "express";

import { Problem } from "../errors.ts";
import { seldom } from "../http/seldom.ts";

export interface AdminGuardOptions {
  /** `undefined`: everybody may who can connect. */
  readonly token: string | undefined;
  readonly now: () => number;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
}

const WARN_EVERY_MS = 60_000;
/** RFC 6750, section 2.1; the scheme's name in any case (RFC 9110, section 11.1). */
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i;
const CHALLENGE = 'Bearer realm="property-gateway"';

/** @returns what lets nobody past without the token */
export function createTokenGuard({ token, now, warn }: AdminGuardOptions): RequestHandler {
  if (token === undefined) return (_request, _response, next) => next();
  const expected = digest(token);
  const tellOfWrong = seldom(WARN_EVERY_MS, now, (times) =>
    warn("The admin port was asked with a wrong token.", { times }),
  );
  return ({ headers: { authorization } }, _response, next) => {
    const given = BEARER.exec(authorization ?? "")?.[1];
    // Digests are of one length, and tell nothing of how far the texts agree.
    if (given !== undefined && timingSafeEqual(digest(given), expected)) return next();
    if (authorization !== undefined) tellOfWrong();
    const challenge = authorization === undefined ? CHALLENGE : `${CHALLENGE}, error="invalid_token"`;
    throw new Problem("admin-token-required", { headers: { "WWW-Authenticate": challenge } });
  };
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/**
 * @param ownMachineOnly whether the port is open to this machine only, with no token: then a request for any other
 *   host is one of a web page whose name was made to lead here (DNS rebinding)
 * @returns what refuses the requests of foreign web pages
 */
export function createPageGuard(ownMachineOnly: boolean): RequestHandler {
  return (request, _response, next) => {
    if (isOfForeignPage(request) || (ownMachineOnly && !isOwnMachine(request.headers.host))) {
      throw new Problem("foreign-page");
    }
    next();
  };
}

/** A browser says in `Origin` whose page it asks for, whenever it is another's (Fetch standard). */
function isOfForeignPage({ headers: { origin, host = "" } }: IncomingMessage): boolean {
  return origin !== undefined && URL.parse(origin)?.host !== URL.parse(`http://${host}`)?.host;
}

const OWN_MACHINE = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d*)?$/i;

/** @param host a name or address, with or without a port; HTTP/1.0 may leave it out, which no browser speaks */
export function isOwnMachine(host: string | undefined): boolean {
  return (
    host === undefined || OWN_MACHINE.test(host.includes("::") && !host.startsWith("[") ? `[${host}]` : host)
  );
}
