import { describe, expect, it } from "vitest";

import { startGateway, type TestGateway } from "../support/gateway.ts";

const ORIGIN = "https://www.example.com";
const PATH = "/listings?areaId=76&limit=5";
const LISTED = `server: { corsOrigins: ["${ORIGIN}"] }`;

/** The values of a header, of all its lines. */
function valuesOf(header: string | string[] | undefined): string[] {
  return String(header ?? "").split(/, */);
}

describe("a web page of another origin", () => {
  it("may read the answer, the problem and the headers if its origin is listed", async () => {
    const gateway = await startGateway({ settings: LISTED });
    for (const path of [PATH, PATH, "/listings?limit=501", "/nowhere", "/openapi.json"]) {
      const { headers } = await gateway.get(path, { headers: { origin: ORIGIN } });
      expect([path, headers["access-control-allow-origin"]]).toEqual([path, ORIGIN]);
      expect(headers["access-control-expose-headers"]).toContain("RateLimit");
      expect(headers).not.toHaveProperty("access-control-allow-credentials");
      expect(valuesOf(headers.vary)).toContain("Origin");
    }
    const bypass = { origin: ORIGIN, "cache-control": "no-store" };
    expect((await gateway.get(PATH, { headers: bypass })).headers["access-control-allow-origin"]).toBe(
      ORIGIN,
    );
  });

  it.each(["https://evil.example.com", "http://www.example.com", "null", undefined])(
    "may not if its origin is %s, and Vary names Origin",
    async (origin) => {
      const gateway = await startGateway({ settings: LISTED });
      const { status, headers } = await gateway.get(PATH, { headers: { ...(origin && { origin }) } });
      expect(status).toBe(200);
      expect(headers).not.toHaveProperty("access-control-allow-origin");
      expect(valuesOf(headers.vary)).toEqual(expect.arrayContaining(["Accept", "Accept-Encoding", "Origin"]));
    },
  );

  it("gets its preflight answered without an upstream call", async () => {
    const gateway = await startGateway({ settings: LISTED });
    const ask = {
      method: "OPTIONS",
      headers: {
        origin: ORIGIN,
        "access-control-request-method": "GET",
        "access-control-request-headers": "x-app-id",
      },
    };
    const { status, headers } = await gateway.get(PATH, ask);
    expect([status, headers["access-control-allow-origin"]]).toEqual([204, ORIGIN]);
    expect(headers["access-control-allow-methods"]).toBe("GET, HEAD");
    expect(headers["access-control-allow-headers"]).toContain("x-app-id");
    expect(headers["access-control-max-age"]).toBe("7200");
    expect(gateway.sandbox.requests()).toEqual([]);
  });

  it.each([
    ["of an origin that is not listed", LISTED, { origin: "https://evil.example.com" }],
    ["where no origin is listed", "", { origin: ORIGIN }],
  ])("gets its preflight refused: %s", async (_name, settings, headers) => {
    const gateway = await startGateway({ settings });
    const reply = await gateway.get(PATH, {
      method: "OPTIONS",
      headers: { ...headers, "access-control-request-method": "GET" },
    });
    expect(reply.status).toBe(405);
    expect(reply.headers).not.toHaveProperty("access-control-allow-origin");
  });

  it("gets no CORS headers if no origin is listed", async () => {
    const gateway = await startGateway();
    const { headers } = await gateway.get(PATH, { headers: { origin: ORIGIN } });
    expect([headers.vary, headers["access-control-allow-origin"]]).toEqual([
      "Accept, Accept-Encoding",
      undefined,
    ]);
  });
});

/** The links of an answer, by their relation. */
async function linksOf(gateway: TestGateway, path: string): Promise<Record<string, string>> {
  const { headers } = await gateway.get(path);
  const links = String(headers["link"] ?? "").matchAll(/<([^>]*)>; rel="(\w+)"/g);
  return Object.fromEntries([...links].map(([, target = "", relation = ""]) => [relation, target]));
}

describe("a page of a list", () => {
  it.each(["off", "on"])("links to the next and the previous page, with pages.fold: %s", async (fold) => {
    const gateway = await startGateway({ env: { PAGES_FOLD: fold } });
    const seen = new Set<unknown>();
    let path: string | undefined = "/listings?limit=400";
    let [pages, total] = [0, 0];
    while (path !== undefined) {
      const reply = await gateway.get(path);
      const { listings, totalCount } = Object(reply.json());
      for (const { serviceId } of listings) seen.add(serviceId);
      [pages, total] = [pages + 1, totalCount];
      // The answer of a hit has the same links.
      const links = await linksOf(gateway, path);
      expect(await linksOf(gateway, path)).toEqual(links);
      expect("prev" in links).toBe(pages > 1);
      const next: string | undefined = links["next"];
      path = next && new URL(next, `http://gateway${path}`).href.slice("http://gateway".length);
    }
    expect([pages, seen.size]).toEqual([Math.ceil(total / 400), total]);
    expect(pages).toBeGreaterThan(1);
  });

  it("has links without credentials, relative to the caller's path", async () => {
    const gateway = await startGateway();
    const signed = "callerId=me&time=1&unique=0123456789abcdef&hash=fedcba9876543210fedcba9876543210fedcba98";
    expect(await linksOf(gateway, `/listings/?limit=5&offset=7&areaId=76&${signed}`)).toEqual({
      next: "?areaId=76&limit=5&offset=12",
      prev: "?areaId=76&limit=5&offset=2",
    });
  });

  it("after the last record links only to the previous page; other answers have no links", async () => {
    const gateway = await startGateway();
    const { totalCount } = Object((await gateway.get(PATH)).json());
    expect(await linksOf(gateway, `/listings?areaId=76&limit=5&offset=100000`)).toEqual({
      prev: `?areaId=76&limit=5&offset=${totalCount - 5}`,
    });
    expect(await linksOf(gateway, "/areas?q=Nacka")).toEqual({});
    expect(await linksOf(gateway, "/listings/1")).toEqual({});
  });
});
