/** Who may use the admin port. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { ask, exchangeRaw } from "../support/ask.ts";
import { command } from "../support/command.ts";
import { gatewayEnv, startGateway } from "../support/gateway.ts";
import { post } from "../support/post.ts";
import { run } from "../support/process.ts";
import { problemCode } from "../support/reply.ts";

const TOKEN = "t0ken-that.nobody_may~ever/see+==";
const GUARDED = [
  "/metrics",
  "/budget",
  "/usage",
  "/quote?url=%2Fareas",
  "/cache/entry?url=%2Fareas",
  "/cache/history?url=%2Fareas",
  "/status",
  "/x",
];
const bearer = (token: string): { authorization: string } => ({ authorization: `Bearer ${token}` });

describe("with a token, the admin port", () => {
  it.each(GUARDED)("asks for it at %s", async (path) => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const refused = await ask(gateway.adminUrl + path);
    expect([refused.status, problemCode(refused)]).toEqual([401, "admin-token-required"]);
    expect(refused.headers["www-authenticate"]).toBe('Bearer realm="property-gateway"');
    const letIn = await ask(gateway.adminUrl + path, { headers: bearer(TOKEN) });
    expect(letIn.status).toBe(path.startsWith("/x") ? 404 : 200);
  });

  it("asks for it before a purge, and purges nothing without it", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    await gateway.get("/areas?q=Nacka");
    expect((await post(`${gateway.adminUrl}/cache/purge`, '{"all":true,"hard":true}')).status).toBe(401);
    expect((await gateway.get("/areas?q=Nacka")).headers["cache-status"]).toContain("; hit");
  });

  it("says that it lives and is ready to everybody", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    for (const path of ["/livez", "/readyz"]) expect((await ask(gateway.adminUrl + path)).status).toBe(200);
  });

  it.each([
    ["another", `Bearer x${TOKEN}`],
    ["the beginning of it", `Bearer ${TOKEN.slice(0, -1)}`],
    ["more than it", `Bearer ${TOKEN}=`],
    ["nothing", "Bearer "],
    ["it in another case", `Bearer ${TOKEN.toUpperCase()}`],
    ["it without the scheme", TOKEN],
    ["it as a password", `Basic ${Buffer.from(`admin:${TOKEN}`).toString("base64")}`],
    ["it twice", `Bearer ${TOKEN}, Bearer ${TOKEN}`],
  ])("does not take %s for it, and says so in the log once", async (_name, authorization) => {
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
  ])("is not got around by %s", async (path) => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const raw = await exchangeRaw(
      Number(new URL(gateway.adminUrl).port),
      `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
    );
    expect(raw).toMatch(/^HTTP\/1.1 401 /);
  });

  it("takes the scheme in any case, and HEAD", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const headers = { authorization: `bearer ${TOKEN}` };
    expect((await ask(`${gateway.adminUrl}/budget`, { headers })).status).toBe(200);
    expect((await ask(`${gateway.adminUrl}/budget`, { headers, method: "HEAD" })).status).toBe(200);
    expect((await ask(`${gateway.adminUrl}/budget`, { method: "HEAD" })).status).toBe(401);
  });

  it("leaves metrics open where the settings say so, and nothing else", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN, ADMIN_OPEN_METRICS: "true" } });
    for (const [path, status] of [
      ["/metrics", 200],
      ["/budget", 401],
      ["/metrics/x", 401],
    ] as const) {
      expect([path, (await ask(gateway.adminUrl + path)).status]).toEqual([path, status]);
    }
  });

  it("asks nothing of callers", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    expect((await gateway.get("/areas?q=Nacka")).status).toBe(200);
  });
});

describe("the token", () => {
  it("is shown by no command, in no answer and in no line of the log", async () => {
    const env = { ...gatewayEnv(), LOG_LEVEL: "trace" };
    const folder = mkdtempSync(join(tmpdir(), "property-gateway-test-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "token");
    writeFileSync(file, `${TOKEN}\n`);

    const checked = await command(["config-check"], { ...env, ADMIN_TOKEN: TOKEN });
    expect(checked).toEqual({ code: 0, output: expect.stringContaining("admin.token = [secret]") });
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
      await ask(`${callers}/areas?x=${encodeURIComponent(TOKEN)}&y=${TOKEN}`, { headers: bearer(TOKEN) }),
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

describe("a browser that is made to ask the admin port", () => {
  it.each([
    ["by a page of another site", { origin: "https://evil.example" }],
    ["by a page without a site", { origin: "null" }],
    ["by a page of another port", { origin: "http://localhost:1" }],
    [
      "by a page whose name was made to lead here",
      { host: "evil.example:9090", origin: "http://evil.example:9090" },
    ],
    ["by a name that was made to lead here", { host: "evil.example" }],
    ["by a name that looks like this machine's", { host: "localhost.evil.example" }],
  ])("%s gets nothing, and purges nothing", async (_name, headers) => {
    const gateway = await startGateway();
    await gateway.get("/areas?q=Nacka");
    for (const [method, path] of [
      ["GET", "/budget"],
      ["GET", "/metrics"],
      ["POST", "/cache/purge"],
    ] as const) {
      const reply = await ask(gateway.adminUrl + path, { method, headers });
      expect([path, reply.status, problemCode(reply)]).toEqual([path, 403, "foreign-page"]);
      expect(reply.headers["access-control-allow-origin"]).toBeUndefined();
    }
    expect((await gateway.get("/areas?q=Nacka")).headers["cache-status"]).toContain("; hit");
  });

  it.each([
    ["from this machine", { host: "localhost:9090" }],
    ["by an address of this machine", { host: "127.0.0.53" }],
    ["by the other address of this machine", { host: "[::1]:9090" }],
    ["by a page of its own", { host: "localhost:9090", origin: "http://localhost:9090" }],
  ])("%s is answered", async (_name, headers) => {
    const gateway = await startGateway();
    expect((await ask(`${gateway.adminUrl}/budget`, { headers })).status).toBe(200);
  });

  it("may use any name where the port is open to others, or a token guards it", async () => {
    const headers = { host: "gateway.example:9090" };
    const open = await startGateway({ env: { ADMIN_HOST: "0.0.0.0" } });
    expect((await ask(open.adminUrl.replace("localhost", "127.0.0.1") + "/budget", { headers })).status).toBe(
      200,
    );
    const guarded = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const reply = await ask(`${guarded.adminUrl}/budget`, { headers: { ...headers, ...bearer(TOKEN) } });
    expect(reply.status).toBe(200);
  });
});

describe("what is no proper request to the admin port", () => {
  it.each([
    ["two Hosts", "GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "malformed-request"],
    ["no Host", "GET /livez HTTP/1.1\r\n\r\n", 400, "malformed-request"],
    ["nonsense", "nonsense\r\n\r\n", 400, "malformed-request"],
    [
      "length and chunks",
      "POST /cache/purge HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      400,
      "malformed-request",
    ],
    [
      "large headers",
      `GET /livez HTTP/1.1\r\nHost: x\r\nA: ${"a".repeat(20_000)}\r\n\r\n`,
      431,
      "headers-too-large",
    ],
    ["a long URL", `GET /${"a".repeat(30_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 414, "uri-too-long"],
    ["an expectation", "GET /livez HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n", 417, "expectation-failed"],
  ])("%s is refused like on the callers' port", async (_name, bytes, status, code) => {
    const gateway = await startGateway();
    const raw = await exchangeRaw(Number(new URL(gateway.adminUrl).port), bytes, { end: true });
    expect(raw).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(raw).toContain(`urn:property-gateway:problem:${code}`);
    expect((await ask(`${gateway.adminUrl}/livez`)).status).toBe(200);
  });
});

describe("on the admin port", () => {
  const READ = [
    "/metrics",
    "/livez",
    "/readyz",
    "/budget",
    "/usage",
    "/quote",
    "/cache/entry",
    "/cache/warm",
    "/cache/history",
    "/status",
    "/session",
  ];
  const DONE = ["/cache/purge", "/config/reload", "/login", "/logout"];
  const BOTH = ["/log", "/budget/replicas"];

  it.each([
    ...READ.flatMap((path) =>
      ["POST", "DELETE", "OPTIONS"].map((method) => [method, path, "GET, HEAD", /^Use GET or HEAD/] as const),
    ),
    ...DONE.flatMap((path) =>
      ["GET", "HEAD", "PUT", "OPTIONS"].map((method) => [method, path, "POST", /^Use POST/] as const),
    ),
    ...BOTH.map((path) => ["DELETE", path, "GET, HEAD, POST", /^Use GET to read, POST/] as const),
  ])("%s %s is refused, naming %s, and does nothing", async (method, path, allow, remedy) => {
    const gateway = await startGateway();
    await gateway.get("/areas?q=Nacka");
    const reply = await ask(gateway.adminUrl + path, { method });
    expect([reply.status, reply.headers.allow]).toEqual([405, allow]);
    if (method !== "HEAD") {
      expect(problemCode(reply)).toBe("method-not-allowed");
      expect(reply.json()).toMatchObject({
        detail: `This path takes ${allow.replace(/,(?=[^,]*$)/, " and")} only.`,
        remedy: expect.stringMatching(remedy),
      });
    }
    expect((await gateway.get("/areas?q=Nacka")).headers["cache-status"]).toContain("; hit");
    expect(gateway.log.join("")).not.toContain("Reload done");
  });

  it("a method tells those without the token nothing", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    expect((await ask(`${gateway.adminUrl}/cache/purge`)).status).toBe(401);
    expect((await ask(`${gateway.adminUrl}/nowhere`, { method: "POST" })).status).toBe(401);
  });

  it.each(["/listings", "/cache", "/cache/purge/all"])("%s is answered with what there is", async (path) => {
    const gateway = await startGateway();
    const reply = await ask(gateway.adminUrl + path);
    expect([reply.status, problemCode(reply)]).toEqual([404, "unknown-path"]);
    const { detail, remedy } = Object(reply.json());
    expect(detail).toMatch(/^This is the admin port/);
    for (const there of [...READ, ...DONE, ...BOTH]) expect(remedy).toContain(there);
    expect(remedy).not.toContain("/listings");
  });
});
