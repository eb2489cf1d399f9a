/** The status page and its data on the admin port, and logging in. */
import http from "node:http";

import { beforeAll, describe, expect, it } from "vitest";

import { SESSION_COOKIE, SESSION_MS } from "../../src/admin/session.ts";
import type { Status } from "../../src/admin/status/status.ts";
import { systemClock } from "../../src/process/clock.ts";
import { ask } from "../support/ask.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { startRedis, type RedisServer } from "../support/redis.ts";
import { problemCode } from "../support/reply.ts";

const TOKEN = "token-of-this-test-only-0123456789abcdef";

async function statusOf({ adminUrl }: TestGateway): Promise<Status> {
  const status: Status = JSON.parse((await ask(`${adminUrl}/status`)).text);
  return status;
}

describe("the status page", () => {
  it("and its files need no token, are served by this port under a strict policy, and are cached by browsers", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const page = await ask(`${gateway.adminUrl}/`);
    expect([page.status, page.headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"]);
    const policy = String(page.headers["content-security-policy"]);
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
    expect(policy).not.toContain("unsafe");
    expect(page.text).not.toMatch(/<script>|style="|https?:/);
    const files = [...page.text.matchAll(/(?:src|href)="(page\/[^"]+)"/g)].map(([, path = ""]) => path);
    expect(files).toEqual(["page/uplot.css", "page/status.css", "page/status.js"]);
    for (const path of ["", ...files, "page/uplot.js"]) {
      const { status, headers } = await ask(`${gateway.adminUrl}/${path}`);
      const again = await ask(`${gateway.adminUrl}/${path}`, { headers: { "if-none-match": headers.etag } });
      expect([path, status, again.status]).toEqual([path, 200, 304]);
    }
    expect((await ask(`${gateway.adminUrl}/page/../guard.ts`)).status).toBe(401);
  });
});

describe("GET /status", () => {
  it("shows requests, apps, budget and circuits with their start", async () => {
    const before = Date.now();
    const gateway = await startGateway({ settings: "apps: [{ id: web }]", env: { BUDGET: "10/1h" } });
    const headers = { "x-app-id": "web" };
    for (let at = 0; at < 3; at++) await gateway.get("/areas?q=Nacka", { headers });
    gateway.sandbox.faults.add({ status: 503, retryAfter: "60" });
    await gateway.get("/sold/1");
    const status = await statusOf(gateway);
    expect(status).toMatchObject({
      scope: "alone",
      mode: "enforce",
      processes: [{ startedAt: expect.any(Number) }],
      outcomes: { hit: 2, miss: 1, failed: 1 },
      saved: { hit: 2 },
      asked: [{ key: "areas?q=Nacka", count: 3 }, {}],
      budget: { api: { windows: [{ name: "1h", limit: 10, remaining: 8, comesBack: [{ calls: 1 }] }] } },
      upstream: { areas: { calls: 1, failed: 0 }, sold: { failed: 1, lastFailure: "status 503" } },
    });
    expect(status.apps.find(({ app }) => app === "web")).toMatchObject({
      isListed: true,
      requests: 3,
      spent: { "1h": 1 },
      shares: [{ name: "1h" }],
    });
    const [circuit] = status.budget.api.circuits;
    expect(circuit).toMatchObject({ scope: "sold", state: "open", cause: "unavailable" });
    expect(circuit?.since).toBeGreaterThanOrEqual(before - 1_000);
    expect(circuit?.since).toBeLessThanOrEqual(Date.now() + 1_000);
    expect(status.problems.map(({ what }) => what)).toEqual(
      expect.arrayContaining(["upstream-unavailable", "sold: status 503"]),
    );
  });

  it("sends an event every second", async () => {
    const gateway = await startGateway();
    const events = await follow(`${gateway.adminUrl}/status/events`);
    expect(events.headers["content-type"]).toBe("text/event-stream; charset=utf-8");
    await events.next((status) => status.asked.length === 0);
    await gateway.get("/areas?q=Nacka");
    await events.next((status) => status.asked.length === 1);
    events.close();
  });
});

describe("a status page with a session", () => {
  it("gets no events after the session has ended", async () => {
    let later = 0;
    const clock = { ...systemClock, now: () => Date.now() + later };
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN }, clock });
    const login = await send(`${gateway.adminUrl}/login`, { token: TOKEN });
    const [cookie = ""] = login.headers["set-cookie"]?.[0]?.split(";") ?? [];
    const events = await follow(`${gateway.adminUrl}/status/events`, { cookie });
    await events.next(() => true);
    later = SESSION_MS;
    await expect(events.next((status) => status.at > Date.now() + SESSION_MS / 2)).rejects.toThrow(
      "The events have ended.",
    );
    expect((await ask(`${gateway.adminUrl}/status/events`, { headers: { cookie } })).status).toBe(401);
  });
});

describe("GET /cache/history", () => {
  it("shows for any spelling of a URL why requests were no hits", async () => {
    const gateway = await startGateway();
    for (let at = 0; at < 2; at++) await gateway.get("/areas?q=Nacka&limit=3");
    await gateway.get("/areas?q=Nacka&limit=3", { headers: { "cache-control": "no-store" } });
    const url = encodeURIComponent(`${gateway.url}/areas/?limit=3.0&q=Nacka`);
    const reply = await ask(`${gateway.adminUrl}/cache/history?url=${url}`);
    expect(reply.json()).toMatchObject({
      query: "areas?q=Nacka&limit=3",
      asked: 3,
      requests: [
        { outcome: "bypass", why: expect.stringContaining("no-store") },
        { outcome: "miss", why: "Nothing usable was cached." },
      ],
    });
    expect((await ask(`${gateway.adminUrl}/cache/history`)).status).toBe(400);
  });
});

describe("with Redis, GET /status", () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis();
    return redis.close;
  });

  it("shows all processes, and says that it shows one process while Redis is down", async () => {
    const shared = { REDIS_URL: `redis://127.0.0.1:${redis.port}`, REPLICAS: "2" };
    const first = await startGateway({ env: shared });
    const upstream = { UPSTREAM_URL: first.sandboxUrl, UPSTREAM_IMAGE_URL: first.sandboxUrl };
    const second = await startGateway({ env: { ...shared, ...upstream } });
    for (const gateway of [first, second])
      await expect.poll(async () => (await ask(`${gateway.adminUrl}/readyz`)).status).toBe(200);
    await first.get("/areas?q=Nacka", { headers: { "x-app-id": "first" } });
    await second.get("/areas?q=Nacka", { headers: { "x-app-id": "second" } });
    for (const gateway of [first, second]) {
      await expect
        .poll(async () => await statusOf(gateway))
        .toMatchObject({ scope: "all", processes: [{}, {}], asked: [{ key: "areas?q=Nacka", count: 2 }] });
    }
    // The second answer came from Redis, or from the memory of the second process.
    const ages = { answers: 1 };
    const known = { scope: "all", processes: 2, ages, apps: [{ app: "first" }, { app: "second" }] };
    for (const { adminUrl } of [first, second])
      expect((await ask(`${adminUrl}/callers`)).json()).toMatchObject(known);
    await redis.kill();
    await expect
      .poll(async () => await statusOf(first))
      .toMatchObject({
        scope: "cut-off",
        processes: [{}],
        asked: [{ count: 1 }],
        outages: [{ what: expect.stringContaining("Redis") }],
      });
    expect((await ask(`${first.adminUrl}/callers`)).json()).toMatchObject({
      scope: "cut-off",
      processes: 1,
      apps: [{ app: "first" }],
    });
  });
});

describe("logging in", () => {
  it("gives a session for the token; changes need the CSRF token", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const at = (path: string): string => gateway.adminUrl + path;
    expect((await ask(at("/session"))).json()).toMatchObject({ loginNeeded: true, csrfToken: null });
    const wrong = await send(at("/login"), { token: `${TOKEN}x` });
    expect([wrong.status, problemCode(wrong)]).toEqual([401, "admin-token-required"]);
    expect(wrong.headers["set-cookie"]).toBeUndefined();

    const login = await send(at("/login"), { token: TOKEN });
    const [cookie = ""] = login.headers["set-cookie"]?.[0]?.split(";") ?? [];
    expect(cookie).toMatch(new RegExp(`^${SESSION_COOKIE}=`));
    expect((await ask(at("/budget"), { headers: { cookie } })).status).toBe(200);
    const { csrfToken } = Object(login.json());
    const without = await send(at("/cache/purge"), { all: true }, { cookie });
    expect([without.status, problemCode(without)]).toEqual([403, "foreign-page"]);
    const withToken = await send(at("/cache/purge"), { all: true }, { cookie, "x-csrf-token": csrfToken });
    expect(withToken.status).toBe(200);
    // A wrong token is refused even with a valid cookie.
    const both = { cookie, authorization: "Bearer wrong" };
    expect((await ask(at("/budget"), { headers: both })).status).toBe(401);
    const logout = await send(at("/logout"), {}, { cookie });
    expect(logout.headers["set-cookie"]?.[0]).toMatch(/Max-Age=0/);
    expect(gateway.log.join("")).not.toContain(cookie.slice(-43));
  });

  it("marks the cookie as secure for browsers on TLS", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const { host } = new URL(gateway.adminUrl);
    const login = await send(`${gateway.adminUrl}/login`, { token: TOKEN }, { origin: `https://${host}` });
    expect(login.headers["set-cookie"]?.[0]).toMatch(/; Secure$/);
  });
});

function send(url: string, body: object, headers: http.OutgoingHttpHeaders = {}): ReturnType<typeof ask> {
  return ask(url, { method: "POST", headers, body: JSON.stringify(body) });
}

interface Events {
  readonly headers: http.IncomingHttpHeaders;
  /** Resolves with the first status that is as wanted. */
  readonly next: (isWanted: (status: Status) => boolean) => Promise<Status>;
  readonly close: () => void;
}

async function follow(url: string, headers: http.OutgoingHttpHeaders = {}): Promise<Events> {
  const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>();
  const request = http.get(url, { agent: false, headers }, resolve);
  request.on("error", reject);
  const response = await promise;
  const chunks = response.setEncoding("utf8")[Symbol.asyncIterator]();
  let text = "";
  return {
    headers: response.headers,
    async next(isWanted) {
      for (;;) {
        const end = text.indexOf("\n\n");
        if (end >= 0) {
          const [, data = ""] = /^data: (.*)$/m.exec(text.slice(0, end)) ?? [];
          text = text.slice(end + 2);
          const status: Status = JSON.parse(data);
          if (isWanted(status)) return status;
        } else {
          const chunk = await chunks.next();
          if (chunk.done === true) throw new Error("The events have ended.");
          text += String(chunk.value);
        }
      }
    },
    close: () => request.destroy(),
  };
}
