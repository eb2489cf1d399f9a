/** The OpenAPI document of the callers' port and the pages made from it, held against answers of a running gateway. */
import { validate } from "@readme/openapi-parser";
import { describe, expect, it } from "vitest";

import { PARAMETERS } from "../../src/interface/parameters.ts";
import { ask } from "../support/ask.ts";
import { startGateway } from "../support/gateway.ts";
import { type Anything, temporaryDirectory } from "../support/files.ts";
import { createExpectDocumented } from "../support/openapi.ts";
import { runProgram } from "../support/process.ts";

async function documentAt(url: string): Promise<Anything> {
  const reply = await ask(`${url}/openapi.json`);
  expect(reply.status).toBe(200);
  expect(reply.headers["content-type"]).toMatch("application/json");
  return reply.json();
}

describe("the callers' document", () => {
  it("is valid, says what the API's terms ask of every app, needs no upstream call, and allows only GET and HEAD", async () => {
    const gateway = await startGateway();
    const document = await documentAt(gateway.url);
    expect(document.openapi).toMatch(/^3\.1\./);
    const terms = /show the service's logo[^.]*no pictures but\s+the thumbnails/;
    expect(document.info.description).toMatch(terms);
    expect(await validate(document)).toMatchObject({ valid: true });
    const { headers } = document.components;
    const always = Object.keys(headers).filter((name) => headers[name]?.required === true);
    expect(always).toEqual(["X-Request-Id", "Cache-Status", "Age"]);
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
      const all: Anything[] = document.paths[`/${resource}`].parameters;
      const documented = all.filter(({ name }) => name !== undefined);
      expect(documented.map(({ name }) => name)).toEqual(parameters.map(({ name }) => name));
      const search = documented.map(({ name, example }) => `${name}=${encodeURIComponent(String(example))}`);
      const reply = await gateway.get(`/${resource}?${search.join("&")}`);
      expect([resource, reply.status, reply.text]).toEqual([resource, 200, expect.any(String)]);
    }
  });

  it("describes answers and refusals that responses.txt does not have", async () => {
    const gateway = await startGateway({ settings: "apps: [{ id: web, perDay: 1 }]" });
    const expectDocumented = createExpectDocumented(await documentAt(gateway.url));
    const eager = { "accept-encoding": "br", prefer: "wait=2", "x-app-id": "web" };
    for (const [path, target, headers, status, fault] of [
      ["/listings", "/listings?limit=40", eager, 200, {}],
      ["/openapi.json", "/openapi.json", {}, 200, {}],
      ["/listings", "/listings", { a: "a".repeat(20_000) }, 431, {}],
      ["/areas", "/areas?q=c", { "x-request-deadline-ms": "300" }, 504, { hang: "headers" }],
      ["/areas", "/areas?q=d", {}, 502, { wrongJson: true }],
      ["/areas", "/areas?q=g", eager, 429, {}],
      ["/areas", "/areas?q=h", {}, 503, { status: 429 }],
      ["/areas", "/areas?q=i", { "cache-control": "only-if-cached" }, 504, {}],
    ] as const) {
      gateway.sandbox.faults.clear();
      if (Object.keys(fault).length > 0) gateway.sandbox.faults.add(fault);
      const reply = await gateway.get(target, { headers });
      expect([target, reply.status]).toEqual([target, status]);
      expectDocumented(reply, path);
    }
  });
});

describe("the pages for app developers", () => {
  const BROWSER = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };

  it("`/` has links, in JSON and for a browser, and each leads somewhere", async () => {
    const gateway = await startGateway();
    const home = await gateway.get("/");
    expect([home.status, home.headers["content-type"]]).toEqual([200, "application/json"]);
    const { links }: { links: Record<string, string> } = JSON.parse(home.text);
    const paths = Object.values(links);
    expect(paths).toEqual(expect.arrayContaining(["/docs", "/openapi.json", "/listings/{serviceId}"]));
    for (const path of paths.filter((each) => !each.includes("{")))
      expect([path, (await gateway.get(path)).status]).toEqual([path, 200]);

    const page = await gateway.get("/", { headers: BROWSER });
    expect(page.headers).toMatchObject({ "content-type": "text/html; charset=utf-8", vary: "Accept" });
    const docs = (await gateway.get("/docs", { headers: BROWSER })).text;
    for (const [, target = ""] of page.text.matchAll(/href="([^"]+)"/g)) {
      const [path, id] = target.split("#");
      expect(["/docs", "/openapi.json"]).toContain(path);
      if (id !== undefined) expect(docs).toContain(`id="${id}"`);
    }
    expect((await gateway.get("/", { headers: { accept: "image/png" } })).status).toBe(406);
    expect(await gateway.metric('gateway_upstream_calls_saved_total{cause="hit"}')).toBe(0);
    expect((await gateway.get("/", { method: "POST" })).status).toBe(405);
  });

  it("the examples of `/docs` work as they stand, in curl, JavaScript and Python", async () => {
    const gateway = await startGateway({ settings: "apps: [{ id: my-app }]" });
    const { text, headers } = await gateway.get("/docs");
    expect(headers["content-security-policy"]).toMatch(/^default-src 'none'; style-src 'sha256-/);
    const examplesIn = (language: string): string[] =>
      [...text.matchAll(new RegExp(`<h3>${language}</h3><pre>([^]*?)</pre>`, "g"))].map(([, example = ""]) =>
        textOf(example).replaceAll("http://127.0.0.1:8080", gateway.url),
      );
    const scripts = {
      curl: ["sh", "-ec", examplesIn("curl").join(" -f\n")],
      JavaScript: [
        process.execPath,
        "--input-type=module",
        "-e",
        examplesIn("JavaScript")
          .map((each) => `{${each}}`)
          .join("\n"),
      ],
      Python: ["python3", "-c", examplesIn("Python").join("\n")],
    };
    for (const [language, args] of Object.entries(scripts)) {
      expect(examplesIn(language)).toHaveLength(7);
      const example = runProgram("env", [`--chdir=${temporaryDirectory()}`, ...args]);
      expect([language, await example.ended, example.output()]).toEqual([language, 0, expect.any(String)]);
    }
    expect(
      await gateway.metric(
        'gateway_requests_total{app="my-app",resource="images",outcome="miss",status="200"}',
      ),
    ).toBe(1);
  });

  it("server.docs: false switches them off", async () => {
    const gateway = await startGateway({ settings: "server: { docs: false }" });
    const statuses = ["/", "/docs", "/openapi.json"].map(async (path) => (await gateway.get(path)).status);
    expect(await Promise.all(statuses)).toEqual([404, 404, 200]);
  });
});

/** @returns the text of HTML */
function textOf(html: string): string {
  const text = html
    .replaceAll(/<[^>]*>/g, "")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">");
  return text.replaceAll("&quot;", '"').replaceAll("&#39;", "'").replaceAll("&amp;", "&");
}
