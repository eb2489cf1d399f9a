/**
 * Guards of the admin port.
 * - If a token is set, a request needs it: as a Bearer token, or as the password of Basic authentication, which browsers
 *   ask for. The user name does not matter.
 * - Requests that a web page of another site makes a browser send are refused, at every path.
 */
import { isIP } from "node:net";

import type { RequestHandler } from "express";

import { Problem } from "../errors.ts";
import { bearerToken, digestOf, isToken } from "../http/token.ts";
import { atMostEvery, type Clock } from "../process/clock.ts";
import type { Observer } from "../telemetry/events.ts";

/** RFC 7617. */
const BASIC = /^Basic +([A-Za-z0-9+/]+=*)$/i;
const CHALLENGES = 'Basic realm="property-gateway", charset="UTF-8", Bearer realm="property-gateway"';

/** Refuses requests without the present token. */
export function guardByToken(token: () => string, now: Clock["now"], warn: Observer["warn"]): RequestHandler {
  const warnOfWrongToken = atMostEvery(now, (times) =>
    warn("The admin port refused requests with a wrong token.", { times }),
  );
  return ({ headers: { authorization } }, _response, next) => {
    if (isToken(tokenIn(authorization), digestOf(token()))) return next();
    if (authorization !== undefined) warnOfWrongToken();
    const error = authorization === undefined ? "" : ', error="invalid_token"';
    throw new Problem("admin-token-required", { headers: { "WWW-Authenticate": CHALLENGES + error } });
  };
}

function tokenIn(authorization = ""): string | undefined {
  const credentials = BASIC.exec(authorization)?.[1];
  if (credentials === undefined) return bearerToken(authorization);
  const userAndPassword = Buffer.from(credentials, "base64").toString();
  return userAndPassword.slice(userAndPassword.indexOf(":") + 1);
}

/**
 * Refuses what a web page of another site makes a browser send. Browsers send `Origin` with every request of such a page (Fetch
 * standard), and `Sec-Fetch-Site` with every request at all, images and scripts of the page included. A link to the status
 * page is no such request.
 */
export const refuseForeignPages: RequestHandler = ({ headers, method, url }, _response, next) => {
  const { origin, host = "", "sec-fetch-site": site, "sec-fetch-mode": mode } = headers;
  const isOwnOrigin = origin === undefined || URL.parse(origin)?.host === URL.parse(`http://${host}`)?.host;
  const isLink = mode === "navigate" && method === "GET" && url === "/";
  const isOwnSite = site === undefined || site === "same-origin" || site === "none" || isLink;
  if (!isOwnOrigin || !isOwnSite) throw new Problem("foreign-page");
  next();
};

/**
 * Refuses requests to a name that a web page may have pointed here (DNS rebinding). Nobody can do that from outside with an
 * address, `localhost`, and a name without a dot, such as that of a container. Only HTTP/1.0 may omit the host, and no browser
 * uses HTTP/1.0. Where requests need a token, a browser sends none to a name that it was not typed in for.
 */
export const refuseForeignHosts: RequestHandler = ({ headers: { host = "localhost" } }, _response, next) => {
  const name = host.replace(/:\d*$/, "").replace(/^\[(.*)\]$/, "$1");
  if (isIP(name) === 0 && name.includes(".")) throw new Problem("foreign-page");
  next();
};
