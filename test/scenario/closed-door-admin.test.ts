/** Access to the admin port. */

import { describe, expect, it } from "vitest";

import { ask, exchangeRaw, post } from "../support/ask.ts";
import { command } from "../support/command.ts";
import { fileWith } from "../support/files.ts";
import { gatewayEnv, startGateway } from "../support/gateway.ts";
import { run } from "../support/process.ts";
import { problemCode } from "../support/reply.ts";

const TOKEN = "t0ken-that.nobody_may~ever/see+==";
const GUARDED = [
  "/",
  "/page/status.js",
  "/budget",
  "/usage",
  "/quote?url=%2Fareas",
  "/cache/entry?url=%2Fareas",
  "/cache/history?url=%2Fareas",
  "/status",
  "/x",
];
const basic = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
const bearer = (token: string): { authorization: string } => ({ authorization: `Bearer ${token}` });

describe("the admin port with a token", () => {
  it("requires it at every path but health and metrics, the page included", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    for (const path of GUARDED) {
      const refused = await ask(gateway.adminUrl + path);
      expect([path, refused.status, problemCode(refused)]).toEqual([path, 401, "admin-token-required"]);
      expect(refused.headers["www-authenticate"]).toBe(
        'Basic realm="property-gateway", charset="UTF-8", Bearer realm="property-gateway"',
      );
      const letIn = await ask(gateway.adminUrl + path, { headers: bearer(TOKEN) });
      expect([path, letIn.status]).toEqual([path, path === "/x" ? 404 : 200]);
    }
    expect((await ask(`${gateway.adminUrl}/x`, { method: "POST" })).status).toBe(401);
    expect((await ask(`${gateway.adminUrl}/cache/purge`)).status).toBe(401);
  });

  it("purges nothing without it", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    await gateway.get("/areas?q=Nacka");
    expect((await post(`${gateway.adminUrl}/cache/purge`, '{"all":true,"hard":true}')).status).toBe(401);
    expect((await gateway.get("/areas?q=Nacka")).headers["cache-status"]).toContain("; hit");
  });

  it("answers health and metrics without it, and nothing below them", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    for (const path of ["/livez", "/readyz", "/metrics"]) {
      expect([path, (await ask(gateway.adminUrl + path)).status]).toEqual([path, 200]);
      expect((await ask(`${gateway.adminUrl}${path}/x`)).status).toBe(401);
    }
  });

  it.each([
    ["another", `Bearer x${TOKEN}`],
    ["the beginning of it", `Bearer ${TOKEN.slice(0, -1)}`],
    ["more than it", `Bearer ${TOKEN}=`],
    ["nothing", "Bearer "],
    ["it in another case", `Bearer ${TOKEN.toUpperCase()}`],
    ["it without the scheme", TOKEN],
    ["another password", basic("admin", `x${TOKEN}`)],
    ["it as a user name", basic(TOKEN, "")],
    ["a password without a user name", `Basic ${Buffer.from("x").toString("base64")}`],
    ["broken Basic credentials", "Basic %%%"],
    ["it twice", `Bearer ${TOKEN}, Bearer ${TOKEN}`],
  ])("refuses %s, and logs that once", async (_name, authorization) => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    for (let round = 0; round < 3; round++) {
      const reply = await ask(`${gateway.adminUrl}/budget`, { headers: { authorization } });
      expect([reply.status, problemCode(reply)]).toEqual([401, "admin-token-required"]);
      expect(reply.headers["www-authenticate"]).toContain('error="invalid_token"');
    }
    expect(gateway.log.filter((line) => line.includes("wrong token"))).toHaveLength(1);
    expect(gateway.log.join("")).not.toContain(TOKEN.slice(0, -1));
  });

  it.each([
    "/LIVEZ/../budget",
    "//budget",
    "/budget/",
    "/BUDGET",
    "/livez/budget",
    "/%62udget",
    "http://x/budget",
  ])("is not bypassed by %s", async (path) => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const raw = await exchangeRaw(
      Number(new URL(gateway.adminUrl).port),
      `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
    );
    expect(raw).toMatch(/^HTTP\/1.1 401 /);
  });

  it("accepts it as the password of any user, the scheme in any case, and HEAD", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const forms = [`bearer ${TOKEN}`, basic("", TOKEN), basic("me", TOKEN).replace("Basic", "BASIC")];
    for (const authorization of forms) {
      for (const method of ["GET", "HEAD"]) {
        const reply = await ask(`${gateway.adminUrl}/budget`, { method, headers: { authorization } });
        expect([authorization, reply.status]).toEqual([authorization, 200]);
      }
    }
  });

  it("does not require it on the callers' port", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    expect((await gateway.get("/areas?q=Nacka")).status).toBe(200);
  });
});

describe("the admin token", () => {
  it("is in no command's output, no answer and no log line", async () => {
    const env = { ...gatewayEnv(), LOG_LEVEL: "trace" };
    const file = fileWith(`${TOKEN}\n`);
    const checked = await command(["config-check"], { ...env, ADMIN_TOKEN: TOKEN });
    expect(checked).toEqual({ code: 0, output: expect.stringContaining("ADMIN_TOKEN = [secret]") });
    const refused = await command(["config-check"], {
      ...env,
      ADMIN_TOKEN: TOKEN,
      ADMIN_TOKEN_FILE: file,
      UPSTREAM_SERVICE: TOKEN,
    });
    expect(refused.code).toBe(1);
    const gateway = run(["gateway"], { ...env, ADMIN_TOKEN_FILE: file });
    const [, callers = "", admin = ""] = await gateway.says(
      /"callers":"(http:[^"]+)","admin":"(http:[^"]+)"/,
    );
    const replies = [
      await ask(`${admin}/budget`, { headers: bearer(TOKEN) }),
      await ask(`${admin}/x`, { headers: bearer(TOKEN) }),
      await ask(`${callers}/areas?q=${encodeURIComponent(TOKEN)}&key=${TOKEN}`, { headers: bearer(TOKEN) }),
    ];
    expect(replies.map(({ status }) => status)).toEqual([200, 404, 502]);
    gateway.child.kill("SIGTERM");
    expect(await gateway.ended).toBe(0);
    for (const shown of [checked.output, refused.output, gateway.output()]) {
      for (const spelling of [TOKEN, encodeURIComponent(TOKEN)]) expect(shown).not.toContain(spelling);
    }
    expect(replies[0]?.text).not.toContain(TOKEN);
  });
});

describe("a request that a foreign web page makes a browser send", () => {
  const PATHS = ["/", "/page/status.js", "/status", "/budget", "/budget/replicas", "/metrics", "/livez"]
    .map((path) => ["GET", path] as const)
    .concat([["GET", "/usage"]], [["GET", "/quote?url=%2Fareas"]]);
  const CHANGES = ["/cache/purge", "/config/reload", "/circuits/try", "/backup"].map(
    (path) => ["POST", path] as const,
  );

  it.each([
    ["with the origin of another site", { origin: "https://evil.example" }],
    ["without a site", { origin: "null" }],
    ["with the origin of another port", { origin: "http://localhost:1" }],
    ["by an image or a script", { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors" }],
    ["by a page of a sibling's name", { "sec-fetch-site": "same-site", "sec-fetch-mode": "cors" }],
    ["by a name that was made to lead here", { host: "evil.example" }],
    ["by that name, from a page of its own", { host: "evil.example:1", origin: "http://evil.example:1" }],
    ["by a name that looks like this machine's", { host: "localhost.evil.example" }],
  ])("is refused everywhere, and does nothing: %s", async (_name, headers) => {
    const gateway = await startGateway();
    await gateway.get("/areas?q=Nacka");
    for (const [method, path] of [...PATHS, ...CHANGES]) {
      if (path === "/livez" && "host" in headers) continue;
      const reply = await ask(gateway.adminUrl + path, { method, headers });
      expect([path, reply.status, problemCode(reply)]).toEqual([path, 403, "foreign-page"]);
      expect(reply.headers["access-control-allow-origin"]).toBeUndefined();
    }
    expect((await gateway.get("/areas?q=Nacka")).headers["cache-status"]).toContain("; hit");
    expect(gateway.sandbox.requests().length).toBe(1);
  });

  it("is refused with the token, too", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const headers = { ...bearer(TOKEN), "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" };
    expect(problemCode(await ask(`${gateway.adminUrl}/usage`, { headers }))).toBe("foreign-page");
  });

  it.each([
    ["/budget", { host: "localhost:9090" }],
    ["/budget", { host: "127.0.0.53" }],
    ["/budget", { host: "[::1]:9090" }],
    ["/budget", { host: "gateway:9090" }],
    ["/budget", { host: "10.1.2.3:9090" }],
    ["/budget", { host: "localhost:9090", origin: "http://localhost:9090", "sec-fetch-site": "same-origin" }],
    ["/budget", { "sec-fetch-site": "none", "sec-fetch-mode": "navigate" }],
    ["/", { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" }],
    ["/livez", { host: "balancer.example" }],
  ])("and one of this machine or network is answered: %s with %o", async (path, headers) => {
    const gateway = await startGateway();
    expect((await ask(gateway.adminUrl + path, { headers })).status).toBe(200);
  });

  it("may use any host name with the token", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const headers = { host: "gateway.example:9090", ...bearer(TOKEN) };
    expect((await ask(`${gateway.adminUrl}/budget`, { headers })).status).toBe(200);
  });
});

it("a malformed request to the admin port is refused as on the callers' port", async () => {
  const gateway = await startGateway();
  const port = Number(new URL(gateway.adminUrl).port);
  for (const [bytes, status, code] of [
    ["GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "malformed-request"],
    ["nonsense\r\n\r\n", 400, "malformed-request"],
    [`GET /livez HTTP/1.1\r\nHost: x\r\nA: ${"a".repeat(20_000)}\r\n\r\n`, 431, "headers-too-large"],
    [`GET /${"a".repeat(30_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 414, "uri-too-long"],
  ] as const) {
    const raw = await exchangeRaw(port, bytes, { end: true });
    expect(raw).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(raw).toContain(`urn:property-gateway:problem:${code}`);
  }
  expect((await ask(`${gateway.adminUrl}/livez`)).status).toBe(200);
});

describe("on the admin port", () => {
  const READ = [
    "/metrics",
    "/livez",
    "/readyz",
    "/status",
    "/budget",
    "/budget/replicas",
    "/usage",
    "/quote",
  ].concat(["/cache/entry", "/cache/history", "/cache/warm", "/version"]);
  const DONE = ["/cache/purge", "/config/reload", "/circuits/try", "/backup"];

  it("a wrong method is refused with Allow, and does nothing", async () => {
    const gateway = await startGateway();
    await gateway.get("/areas?q=Nacka");
    const wrong = [
      ...READ.flatMap((path) =>
        ["POST", "DELETE", "OPTIONS"].map((method) => [method, path, "GET, HEAD"] as const),
      ),
      ...DONE.flatMap((path) =>
        ["GET", "HEAD", "PUT", "OPTIONS"].map((method) => [method, path, "POST"] as const),
      ),
    ];
    for (const [method, path, allow] of wrong) {
      const reply = await ask(gateway.adminUrl + path, { method });
      expect([method, path, reply.status, reply.headers.allow]).toEqual([method, path, 405, allow]);
      if (method !== "HEAD") expect(problemCode(reply)).toBe("method-not-allowed");
    }
    expect((await gateway.get("/areas?q=Nacka")).headers["cache-status"]).toContain("; hit");
    expect(gateway.log.join("")).not.toContain("Reload done");
  });

  it.each([
    "/listings",
    "/cache",
    "/cache/purge/all",
    "/docs",
    "/openapi.json",
    "/log",
    "/callers",
    "/session",
  ])("the unknown path %s gets a list of paths", async (path) => {
    const gateway = await startGateway();
    const reply = await ask(gateway.adminUrl + path);
    expect([reply.status, problemCode(reply)]).toEqual([404, "unknown-path"]);
    const { detail, remedy } = Object(reply.json());
    expect(detail).toMatch(/^This is the admin port/);
    for (const there of [...READ, ...DONE]) expect(remedy).toContain(there);
    expect(remedy).not.toContain("/listings");
  });
});
