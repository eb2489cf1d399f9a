import { describe, expect, it } from "vitest";

import manifest from "../../package.json" with { type: "json" };
import { ADMIN_PARAMETERS } from "../../src/admin/openapi.ts";
import { PAGE_PARAMETERS } from "../../src/admin/pages.ts";
import { ask } from "../support/ask.ts";
import { startGateway } from "../support/gateway.ts";
import { post } from "../support/post.ts";

const BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8";

describe("an answer of the admin port", () => {
  it.each([
    ["/version?pretty", {}, true],
    ["/version?pretty=true", {}, true],
    ["/version", { accept: BROWSER }, true],
    ["/version?pretty=false", { accept: BROWSER }, false],
    ["/version", { accept: "*/*" }, false],
    ["/version", {}, false],
  ])("at %s with %o is readable: %s", async (path, headers, isReadable) => {
    const gateway = await startGateway();
    const reply = await ask(gateway.adminUrl + path, { headers });
    expect(reply.headers["content-type"]).toMatch(/^application\/json/);
    expect(reply.headers.vary).toMatch(/accept/i);
    expect(reply.text.includes("\n")).toBe(isReadable);
    expect(reply.json()).toEqual({ version: manifest.version, node: process.version });
  });

  it.each([
    ["/nothing?pretty", {}, 404],
    ["/quote?pretty", {}, 400],
    ["/budget?unheard=of", { accept: BROWSER }, 400],
  ])("that is a problem is indented too: %s with %o", async (path, headers, status) => {
    const gateway = await startGateway();
    const reply = await ask(gateway.adminUrl + path, { headers });
    expect([reply.status, reply.headers["content-type"]]).toEqual([status, "application/problem+json"]);
    expect(reply.text).toMatch(/^{\n  "type": .*\n}\n$/s);
    expect((await ask(`${gateway.adminUrl}/nothing`)).text).not.toContain("\n");
  });

  it("is 400 at every path for an unknown parameter", async () => {
    const gateway = await startGateway();
    const paths = [...ADMIN_PARAMETERS.keys(), ...PAGE_PARAMETERS.keys(), "/budget/", "/Budget"];
    expect(paths).toEqual(expect.arrayContaining(["/", "/docs", "/docs/callers.json", "/livez", "/budget"]));
    for (const path of paths) {
      for (const parameter of ["unheard=of", "pretty=perhaps", "pretty&pretty"]) {
        const reply = await ask(`${gateway.adminUrl}${path}?${parameter}`);
        expect([path, parameter, reply.status]).toEqual([path, parameter, 400]);
        expect(reply.text).toContain("invalid-admin-request");
      }
    }
  });
});

it.each([
  ["/quote?url=%2Fareas&format=v3", undefined, "format must be json or v2"],
  ["/docs?of=everybody", undefined, "of must be admin or callers"],
  ["/budget?pretty=perhaps", undefined, "pretty must be true, false or empty"],
  ["/cache/purge", { url: "/areas", format: "v3" }, '\\"format\\" must be json or v2'],
  ["/budget/replicas", { dead: "1", alive: "2" }, 'Unknown member \\"alive\\". Known: dead'],
])("%s with the body %o is refused: %s", async (path, body, detail) => {
  const { adminUrl } = await startGateway();
  const url = adminUrl + path;
  const reply = await (body === undefined ? ask(url) : post(url, JSON.stringify(body)));
  expect([reply.status, reply.text]).toEqual([400, expect.stringContaining(detail)]);
});

describe("/budget", () => {
  it("shows for each app what is left in each window, and when more is free", async () => {
    const gateway = await startGateway({
      env: { BUDGET: "10/1m" },
      settings: "apps: [{ id: web, perDay: 100 }, { id: idle }]",
    });
    await gateway.get("/areas?q=a", { headers: { "x-app-id": "web" } });
    await gateway.get("/areas?q=b", { headers: { "x-app-id": "stranger" } });
    const { api } = Object((await ask(`${gateway.adminUrl}/budget`)).json());
    const window = { name: "1m", windowSeconds: 60, resetSeconds: expect.any(Number) };
    expect(api.apps).toMatchObject([
      {
        app: "web",
        isListed: true,
        shares: [
          { ...window, remaining: expect.any(Number) },
          { name: "per-day", limit: 100, remaining: 99 },
        ],
      },
      { app: "idle", isListed: true, shares: [window] },
      { app: "stranger", isListed: false, shares: [window] },
    ]);
    for (const { shares } of api.apps) {
      for (const { limit, remaining, resetSeconds } of shares) {
        expect([limit, remaining].every(Number.isInteger)).toBe(true);
        expect(resetSeconds).toBeGreaterThan(0);
      }
    }
  });
});
