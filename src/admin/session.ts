/**
 * Logging in with a browser: server-sent events cannot carry a token, so the page exchanges the token for a cookie.
 *
 * The cookie contains its expiry, and is signed with a key that is derived from the token. So sessions need no storage, are
 * valid at every replica with the same token, and survive a restart. A new token ends all sessions.
 *
 * | Attack                              | Protection                                                                |
 * |-------------------------------------|---------------------------------------------------------------------------|
 * | a script reads the cookie           | `HttpOnly`                                                                |
 * | another site sends requests with it | `SameSite=Strict`; foreign pages are refused; changes need a CSRF token   |
 * | the traffic is read on the network  | `Secure`, if the browser uses TLS                                         |
 * | a cookie is forged or changed       | the signature, compared in constant time                                  |
 */
import { createHmac, randomBytes, scryptSync, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";

export interface Sessions {
  /** @returns the value of a new cookie */
  readonly open: () => string;
  /** @returns the session of a request, if its cookie is valid now */
  readonly of: (request: Pick<IncomingMessage, "headers">) => Session | undefined;
}

export interface Session {
  /** Changes must carry this in the header `X-CSRF-Token`. A page of another site cannot read it. */
  readonly csrfToken: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

export const SESSION_COOKIE = "property-gateway-session";
export const SESSION_MS = 12 * 3_600_000;

/** @param now epoch milliseconds */
export function createSessions(token: string, now: () => number): Sessions {
  let key: Buffer | undefined;
  // scrypt is slow on purpose, so a stolen cookie does not make guessing the token cheap. It runs once, at the first use.
  const sign = (text: string): string =>
    createHmac("sha256", (key ??= scryptSync(token, "property-gateway session", 32)))
      .update(text)
      .digest("base64url");

  return {
    open() {
      const session = `${now() + SESSION_MS}.${randomBytes(16).toString("base64url")}`;
      return `${session}.${sign(session)}`;
    },
    of({ headers: { cookie } }) {
      const value = cookieIn(cookie ?? "");
      const [, session = "", expiry = "", signature = ""] = FORM.exec(value) ?? [];
      const expiresAt = Number(expiry);
      if (session === "" || now() >= expiresAt || expiresAt > now() + SESSION_MS) return undefined;
      if (!isSame(signature, sign(session))) return undefined;
      return { expiresAt, csrfToken: sign(`csrf ${session}`) };
    },
  };
}

const FORM = /^((\d{13})\.[\w-]{22})\.([\w-]{43})$/;

/** Compares in constant time, unless the lengths differ. */
export function isSame(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function cookieIn(header: string): string {
  const prefix = `${SESSION_COOKIE}=`;
  const pair = header.split("; ").find((one) => one.startsWith(prefix));
  return pair?.slice(prefix.length) ?? "";
}

/**
 * @param value empty: deletes the cookie
 * @param isSecure whether the browser uses TLS; then it sends the cookie over TLS only
 * @returns the value of `Set-Cookie`
 */
export function setCookie(value: string, isSecure: boolean): string {
  const seconds = value === "" ? 0 : SESSION_MS / 1000;
  const attributes = ["Path=/", "HttpOnly", "SameSite=Strict", `Max-Age=${seconds}`];
  if (isSecure) attributes.push("Secure");
  return [`${SESSION_COOKIE}=${value}`, ...attributes].join("; ");
}

/** Whether the browser uses TLS, to this port or to a proxy in front of it. A proxy is recognised by the headers. */
export function usesTls({ headers, socket }: Pick<IncomingMessage, "headers" | "socket">): boolean {
  return (
    socket instanceof TLSSocket ||
    headers.origin?.startsWith("https://") === true ||
    headers["x-forwarded-proto"]?.toString() === "https"
  );
}
