/** Logging in with a browser. */
import { describe, expect, it } from "vitest";

import { createSessions, SESSION_COOKIE, SESSION_MS, setCookie } from "../../../src/admin/session.ts";

const TOKEN = "token-of-this-test-only-0123456789abcdef";
const request = (value: string) => ({ headers: { cookie: `other=1; ${SESSION_COOKIE}=${value}` } });

describe("a session", () => {
  it("is valid until it ends, at every process with the same token", () => {
    let now = Date.UTC(2026, 0, 15);
    const sessions = createSessions(TOKEN, () => now);
    const value = sessions.open();
    const session = sessions.of(request(value));
    expect(session).toEqual({ csrfToken: expect.any(String), expiresAt: now + SESSION_MS });
    expect(createSessions(TOKEN, () => now).of(request(value))).toEqual(session);
    expect(createSessions(`${TOKEN}x`, () => now).of(request(value))).toBeUndefined();
    now += SESSION_MS;
    expect(sessions.of(request(value))).toBeUndefined();
  });

  it("has its own value and CSRF token", () => {
    const sessions = createSessions(TOKEN, () => Date.UTC(2026, 0, 15));
    const values = [sessions.open(), sessions.open()];
    const tokens = values.map((value) => sessions.of(request(value))?.csrfToken);
    expect(new Set([...values, ...tokens]).size).toBe(4);
  });

  it.each([
    ["no cookie", () => ""],
    ["a changed end", (value: string) => value.replace(/^\d/, "9")],
    ["a changed signature", (value: string) => `${value.slice(0, -2)}AA`],
    ["a shorter signature", (value: string) => value.slice(0, -1)],
    ["another signature's text", (value: string) => `${value}.${value}`],
  ])("is refused with %s", (_name, change) => {
    const sessions = createSessions(TOKEN, () => Date.UTC(2026, 0, 15));
    expect(sessions.of(request(change(sessions.open())))).toBeUndefined();
  });

  it("is in a cookie that scripts and other sites cannot use, and that expires with it", () => {
    expect(setCookie("value", true)).toBe(
      `${SESSION_COOKIE}=value; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200; Secure`,
    );
    expect(setCookie("", false)).toBe(`${SESSION_COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0`);
  });
});
