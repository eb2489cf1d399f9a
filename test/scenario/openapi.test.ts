/** The OpenAPI documents of both ports, held against answers of a running gateway. */
import { validate } from "@readme/openapi-parser";
import { describe, expect, it } from "vitest";

import { PROBLEM_CODES } from "../../src/errors.ts";
import { PARAMETERS } from "../../src/interface/parameters.ts";
import { ask } from "../support/ask.ts";
import { LISTING_ID, startGateway, type TestGateway } from "../support/gateway.ts";
import { problemCode } from "../support/reply.ts";
import { createExpectDocumented, type OpenApiDocument } from "../support/openapi.ts";
import { post } from "../support/post.ts";

async function documentAt(url: string): Promise<OpenApiDocument> {
  const reply = await ask(`${url}/openapi.json`);
  expect([reply.status, reply.headers["content-type"]]).toEqual([
    200,
    expect.stringMatching("application/json"),
  ]);
  const document: OpenApiDocument = JSON.parse(reply.text);
  return document;
}

const THUMBNAIL = "/cache/primary_{serviceId}_{width}x{height}.jpg";

describe("the callers' document", () => {
  it("is a valid one that costs no upstream call, and is asked for with GET and HEAD only", async () => {
    const gateway = await startGateway();
    const document = await documentAt(gateway.url);
    expect(document.openapi).toMatch(/^3\.1\./);
    expect(await validate(JSON.parse(JSON.stringify(document)))).toMatchObject({ valid: true });
    const head = await gateway.get("/openapi.json", { method: "HEAD" });
    expect([head.status, head.text]).toEqual([200, ""]);
    const etag = String(head.headers.etag);
    expect((await gateway.get("/openapi.json", { headers: { "if-none-match": etag } })).status).toBe(304);
    const written = await gateway.get("/openapi.json", { method: "POST" });
    expect([written.status, written.headers.allow]).toEqual([405, "GET, HEAD"]);
    expect(gateway.sandbox.requests()).toEqual([]);
  });

  it("has every parameter, and its examples are answered", async () => {
    const gateway = await startGateway();
    const document = await documentAt(gateway.url);
    for (const [resource, parameters] of Object.entries(PARAMETERS)) {
      const item: { parameters: { name?: string; example?: unknown }[] } = JSON.parse(
        JSON.stringify(document.paths[`/${resource}`]),
      );
      const documented = item.parameters.filter(({ name }) => name !== undefined);
      expect(documented.map(({ name }) => name)).toEqual(parameters.map(({ name }) => name));
      const search = documented.map(({ name, example }) => `${name}=${encodeURIComponent(String(example))}`);
      const reply = await gateway.get(`/${resource}?${search.join("&")}`);
      expect([resource, reply.status, reply.text]).toEqual([resource, 200, expect.any(String)]);
    }
  });

  it.each([
    ["/listings", "/listings?areaId=76&limit=3", {}, 200],
    ["/listings", "/listings?limit=3", { accept: "application/vnd.propertyservice-v2+json" }, 200],
    [
      "/listings",
      "/listings?limit=40",
      { "accept-encoding": "br", prefer: "wait=2", "x-app-id": "web" },
      200,
    ],
    ["/sold", "/sold?limit=3", { "cache-control": "no-store" }, 200],
    ["/areas", "/areas?q=Nacka", { "if-none-match": "*" }, 304],
    ["/listings/{serviceId}", `/listings/${LISTING_ID}`, {}, 200],
    ["/listings/{serviceId}", "/listings/1", {}, 404],
    ["/sold/{serviceId}", "/sold/1004110", {}, 200],
    ["/sold/{serviceId}", "/sold/x", {}, 400],
    [THUMBNAIL, `/cache/primary_${LISTING_ID}_140x94.jpg`, {}, 200],
    ["/openapi.json", "/openapi.json", {}, 200],
    ["/listings", "/listings?limit=501&objectType=vila", {}, 400],
    ["/listings", "/listings", { accept: "text/html" }, 406],
    ["/listings", `/listings?q=${"x".repeat(9_000)}`, {}, 414],
    ["/listings", "/listings", { expect: "100-continue" }, 417],
    ["/listings", "/listings", { a: "a".repeat(20_000) }, 431],
    ["/areas", "/areas?q=never", { "cache-control": "only-if-cached" }, 504],
    [undefined, "/nothing", {}, 404],
  ] as const)("describes the answer at %s to %s with %o: %i", async (path, target, headers, status) => {
    const gateway = await startGateway({ settings: "apps: [{ id: web }]" });
    const expectDocumented = createExpectDocumented(await documentAt(gateway.url));
    const reply = await gateway.get(target, { headers });
    expect(reply.status).toBe(status);
    expectDocumented(reply, path);
    if (path === undefined) return;
    const head = await gateway.get(target, { headers, method: "HEAD" });
    expectDocumented(head, path, "head");
  });

  it.each([
    [{ status: 500 }, {}, 502],
    [{ status: 403 }, {}, 502],
    [{ wrongJson: true }, {}, 502],
    [{ status: 503, retryAfter: "30" }, {}, 503],
    [{ hang: "headers" }, { "x-request-deadline-ms": "50" }, 504],
  ] as const)(
    "describes the answer while the API has the fault %o with %o: %i",
    async (fault, headers, status) => {
      const gateway = await startGateway();
      const expectDocumented = createExpectDocumented(await documentAt(gateway.url));
      gateway.sandbox.faults.add(fault);
      const reply = await gateway.get("/areas", { headers });
      expect(reply.status).toBe(status);
      expectDocumented(reply, "/areas");
    },
  );

  it("describes the refusal of an app whose share is spent", async () => {
    const gateway = await startGateway({ settings: "apps: [{ id: web, perDay: 1 }]" });
    const expectDocumented = createExpectDocumented(await documentAt(gateway.url));
    const headers = { "x-app-id": "web" };
    expect((await gateway.get("/areas?q=one", { headers })).status).toBe(200);
    const refused = await gateway.get("/areas?q=two", { headers });
    expect(refused.status).toBe(429);
    expectDocumented(refused, "/areas");
  });
});

describe("the operators' document", () => {
  const TOKEN = "token-of-this-test-only-0123456789abcdef";
  const withToken = { authorization: `Bearer ${TOKEN}` };

  it("needs the token, is valid, and both documents together have every problem", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const url = `${gateway.adminUrl}/openapi.json`;
    expect((await ask(url)).status).toBe(401);
    const reply = await ask(url, { headers: withToken });
    expect(await validate(JSON.parse(reply.text))).toMatchObject({ valid: true });
    const both = reply.text + (await gateway.get("/openapi.json")).text;
    for (const code of PROBLEM_CODES) expect(both).toContain(`"${code}":{"value":{"type":`);
  });

  it.each([
    ["/livez", "/livez", 200],
    ["/readyz", "/readyz", 200],
    ["/metrics", "/metrics", 200],
    ["/budget", "/budget", 200],
    ["/usage", "/usage?from=-1h&by=resource", 200],
    ["/usage", "/usage?format=csv", 200],
    ["/usage", "/usage?by=month", 400],
    ["/quote", "/quote?url=%2Fareas%3Fq%3DNacka", 200],
    ["/quote", "/quote?url=%2Fsold%3Flimit%3D2", 200],
    ["/quote", "/quote?url=%2Fareas%3Flimit%3D900", 400],
    ["/cache/entry", "/cache/entry?url=%2Fareas%3Fq%3DNacka", 200],
    ["/cache/entry", "/cache/entry?url=%2Fsold", 200],
    ["/cache/entry", "/cache/entry", 400],
    ["/cache/warm", "/cache/warm", 200],
    ["/cache/history", "/cache/history?url=%2Fareas%3Fq%3DNacka", 200],
    ["/cache/history", "/cache/history", 400],
    ["/status", "/status", 200],
    ["/session", "/session", 200],
    ["/openapi.json", "/openapi.json", 200],
    ["/budget/replicas", "/budget/replicas", 200],
    ["/callers", "/callers?from=-1h", 200],
    ["/log", "/log", 200],
    ["/version", "/version?pretty", 200],
    ["/version", "/version?unheard=of", 400],
    [undefined, "/nothing", 404],
  ] as const)("describes the answer at %s to %s: %i", async (path, target, status) => {
    const gateway = await startGateway();
    const expectDocumented = createExpectDocumented(await documentAt(gateway.adminUrl));
    await gateway.get("/areas?q=Nacka");
    const reply = await ask(gateway.adminUrl + target);
    expect(reply.status).toBe(status);
    expectDocumented(reply, path);
  });

  it("describes what purges and reloads answer, and the refusal without the token", async () => {
    const open = await startGateway();
    const expectDocumented = createExpectDocumented(await documentAt(open.adminUrl));
    const answers = [
      ["/cache/purge", 200, await purge(open, { resource: "sold" })],
      ["/cache/purge", 400, await purge(open, { resource: "sold", all: true })],
      ["/log", 200, await post(`${open.adminUrl}/log`, '{"level":"warn"}')],
      ["/log", 400, await post(`${open.adminUrl}/log`, '{"level":"loud"}')],
      ["/config/reload", 200, await post(`${open.adminUrl}/config/reload`, "")],
      ["/login", 400, await post(`${open.adminUrl}/login`, JSON.stringify({ token: TOKEN }))],
      ["/logout", 200, await post(`${open.adminUrl}/logout`, "")],
    ] as const;
    for (const [path, status, reply] of answers) {
      expect([path, reply.status]).toEqual([path, status]);
      expectDocumented(reply, path, "post");
    }
    const guarded = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const refused = await ask(`${guarded.adminUrl}/budget`);
    expect(refused.status).toBe(401);
    expectDocumented(refused, "/budget");
    const login = await post(`${guarded.adminUrl}/login`, JSON.stringify({ token: TOKEN }));
    expect(login.status).toBe(200);
    expectDocumented(login, "/login", "post");
  });
});

function purge({ adminUrl }: TestGateway, body: object): ReturnType<typeof post> {
  return post(`${adminUrl}/cache/purge`, JSON.stringify(body));
}

describe("the page to try it", () => {
  it("and all it loads come from the admin port without a token, under a policy that allows nothing else", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: "token-of-this-test-only-0123456789abcdef" } });
    const page = await ask(`${gateway.adminUrl}/docs`);
    expect([page.status, page.headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"]);
    const policy = String(page.headers["content-security-policy"]);
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
    expect(policy).not.toContain("unsafe");
    const assets = [...page.text.matchAll(/(?:src|href)="(docs\/[^"]+)"/g)].map(([, path]) => path);
    expect(assets).toHaveLength(4);
    for (const path of assets) {
      const asset = await ask(`${gateway.adminUrl}/${path}`);
      expect([path, asset.status]).toEqual([path, 200]);
    }
    expect(page.text).not.toMatch(/<script>|style="|https?:/);
    expect((await ask(`${gateway.adminUrl}/docs/callers.json`)).status).toBe(401);
  });

  it("sends callers' requests through the admin port, which needs the token and does not pass it on", async () => {
    const token = "token-of-this-test-only-0123456789abcdef";
    const gateway = await startGateway({ env: { ADMIN_TOKEN: token } });
    const tried = `${gateway.adminUrl}/docs/try/listings?areaId=76&limit=5`;
    expect((await ask(tried)).status).toBe(401);
    expect(gateway.sandbox.requests()).toEqual([]);
    const reply = await ask(tried, { headers: { authorization: `Bearer ${token}` } });
    const asked = await gateway.get("/listings?areaId=76&limit=5");
    expect([reply.status, reply.text]).toEqual([200, asked.text]);
    expect(String(asked.headers["cache-status"])).toContain("hit");
    expect(reply.headers["content-security-policy"]).toBe("sandbox; default-src 'none'");
    expect(gateway.sandbox.requests()).toHaveLength(1);
    expect(JSON.stringify(gateway.sandbox.requests())).not.toContain(token);
    const refused = await ask(`${gateway.adminUrl}/docs/try/listings?limit=many`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect([refused.status, problemCode(refused)]).toEqual([400, "invalid-query"]);
  });
});
