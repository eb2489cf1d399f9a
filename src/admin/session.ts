/**
 * Logging in with a browser: server-sent events cannot carry a token, so the page exchanges the token for a cookie.
 *
 * The cookie says until when it is valid, and is signed with a key made of the token. So a session needs no memory, works
 * at every replica with the same token, and survives a restart. A new token ends all sessions.
 *
 * | Attack                              | Protection                                                                |
 * |-------------------------------------|---------------------------------------------------------------------------|
 * | a script reads the cookie           | `HttpOnly`                                                                |
 * | another site sends requests with it | `SameSite=Strict`; foreign pages are refused; changes need a CSRF token   |
 * | someone listens                     | `Secure`, where the browser speaks TLS                                    |
 * | a cookie is made up or changed      | the signature, compared in constant time                                  |
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
  // Slow on purpose: a stolen cookie must not make guessing the token cheap. So it is done when it is first needed.
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

/** Compares texts of the same length in constant time. */
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
 * @param isSecure whether the browser speaks TLS, so that it keeps the cookie for TLS alone
 * @returns the value of `Set-Cookie`
 */
export function setCookie(value: string, isSecure: boolean): string {
  const seconds = value === "" ? 0 : SESSION_MS / 1000;
  const attributes = ["Path=/", "HttpOnly", "SameSite=Strict", `Max-Age=${seconds}`];
  if (isSecure) attributes.push("Secure");
  return [`${SESSION_COOKIE}=${value}`, ...attributes].join("; ");
}

/** Whether the browser speaks TLS, to this port or to a proxy in front. The browser itself says so in `Origin`. */
export function speaksTls({ headers, socket }: Pick<IncomingMessage, "headers" | "socket">): boolean {
  return (
    socket instanceof TLSSocket ||
    headers.origin?.startsWith("https://") === true ||
    headers["x-forwarded-proto"]?.toString() === "https"
  );
}
