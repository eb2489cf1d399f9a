/** What all answers of the admin port have in common, and what `/budget` shows. */
import { describe, expect, it } from "vitest";

import manifest from "../../package.json" with { type: "json" };
import { ask, post } from "../support/ask.ts";
import { startGateway } from "../support/gateway.ts";

const BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8";

describe("an answer of the admin port", () => {
  it.each([
    ["/version?pretty", {}, 200, true],
    ["/version?pretty=true", {}, 200, true],
    ["/version", { accept: BROWSER }, 200, true],
    ["/version?pretty=false", { accept: BROWSER }, 200, false],
    ["/version", { accept: "*/*" }, 200, false],
    ["/nothing?pretty", {}, 404, true],
    ["/quote?pretty", {}, 400, true],
    ["/budget?unheard=of", { accept: BROWSER }, 400, true],
    ["/nothing", {}, 404, false],
  ])("at %s with %o has status %i, and is readable: %s", async (path, headers, status, isReadable) => {
    const gateway = await startGateway();
    const reply = await ask(gateway.adminUrl + path, { headers });
    const type = status === 200 ? "application/json; charset=utf-8" : "application/problem+json";
    expect([reply.status, reply.headers["content-type"]]).toEqual([status, type]);
    expect(reply.headers.vary).toMatch(/accept/i);
    expect(reply.text.includes("\n")).toBe(isReadable);
    if (status === 200) expect(reply.json()).toEqual({ version: manifest.version, node: process.version });
  });

  it("is 400 at every path for an unknown parameter", async () => {
    const gateway = await startGateway();
    const unknown = await ask(`${gateway.adminUrl}/nothing`);
    const { remedy }: { remedy: string } = Object(unknown.json());
    const [reads = ""] = remedy.split(" or POST");
    const paths = [...reads.matchAll(/\/[a-z/]*/g)].map(([path]) => path);
    expect(paths).toEqual(
      expect.arrayContaining(["/", "/livez", "/metrics", "/status", "/quote", "/version"]),
    );
    for (const path of [...paths, "/page/status.js", "/budget/", "/Budget"]) {
      for (const parameter of ["unheard=of", "pretty=perhaps", "pretty&pretty"]) {
        const reply = await ask(`${gateway.adminUrl}${path}?${parameter}`);
        expect([path, parameter, reply.status]).toEqual([path, parameter, 400]);
        expect(reply.text).toContain("invalid-admin-request");
      }
    }
  });

  it.each([
    ["/quote?url=%2Fareas&format=v3", undefined, "The parameter format must be json or v2."],
    ["/quote", undefined, "Give the parameter url."],
    ["/quote?url=", undefined, "The parameter url must not be empty."],
    [
      "/quote?url=/areas&q=Nacka",
      undefined,
      'Unknown parameter "q". Known: url, format, app, pretty. Percent-',
    ],
    ["/status?span=1y", undefined, "The parameter span must be 15m, 1h or 24h."],
    ["/budget?pretty=perhaps", undefined, "The parameter pretty must be true, false or empty."],
    ["/cache/purge", { url: "/areas", format: "v3" }, "The member format must be json or v2."],
    ["/cache/purge", { url: 7 }, "The member url must be a string."],
  ])("says what is wrong with %s and the body %o: %s", async (path, body, detail) => {
    const { adminUrl } = await startGateway();
    const reply = await (body === undefined
      ? ask(adminUrl + path)
      : post(adminUrl + path, JSON.stringify(body)));
    expect([reply.status, Object(reply.json()).detail]).toEqual([400, expect.stringContaining(detail)]);
  });
});

it("/budget shows for each app what is left in each window, and when more is free", async () => {
  const gateway = await startGateway({
    env: { BUDGET: "10/1m" },
    settings: "apps: [{ id: web, perDay: 100 }, { id: idle }]",
  });
  await gateway.get("/areas?q=a", { headers: { "x-app-id": "web" } });
  await gateway.get("/areas?q=b", { headers: { "x-app-id": "stranger" } });
  const { api } = Object((await ask(`${gateway.adminUrl}/budget`)).json());
  const window = { name: "1m", windowSeconds: 60, resetSeconds: expect.any(Number) };
  const today = { name: "per-day", limit: 100, remaining: 99 };
  expect(api.apps).toMatchObject([
    { app: "web", isListed: true, shares: [{ ...window, remaining: expect.any(Number) }, today] },
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
