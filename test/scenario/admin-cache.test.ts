import { describe, expect, it } from "vitest";
import { freePorts } from "../support/ports.ts";

import { StoreUnavailable } from "../../src/errors.ts";
import { startAdminPort } from "../support/admin-port.ts";
import { ask, type Reply, post } from "../support/ask.ts";
import { temporaryDirectory } from "../support/files.ts";
import { EXACT_PAGES, startGateway, type TestGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { startUpstream } from "../support/upstream.ts";

const PATH = "/listings?areaId=76&limit=5";
const OTHER = "/sold?areaId=76&limit=5";

const entry = (gateway: TestGateway, url: string, more = ""): Promise<Reply> =>
  ask(`${gateway.adminUrl}/cache/entry?url=${encodeURIComponent(url)}${more}`);
const purge = (gateway: TestGateway, body: object): Promise<Reply> =>
  post(`${gateway.adminUrl}/cache/purge`, JSON.stringify(body));

describe("/cache/entry", () => {
  it("shows the canonical query, the key and what would happen next, without an upstream call", async () => {
    const gateway = await startGateway({ env: EXACT_PAGES });
    const before = await entry(gateway, "/listings/?limit=5.0&areaId=76&hash=x");
    expect(before.json()).toEqual({
      query: "listings?areaId=76&limit=5&offset=0",
      says: "Not cached (not stored).",
      key: "property-gateway:1:{json:listings?areaId=76&limit=5&offset=0}",
      next: "fetch",
      why: "not stored",
      entry: null,
    });
    expect(gateway.sandbox.requests()).toEqual([]);
    const { headers, body } = await gateway.get(PATH);
    expect((await entry(gateway, PATH)).json()).toMatchObject({
      says: expect.stringMatching(/^Cached in memory, .* old, fresh for \d min.*Status 200, [\d,]+ bytes\.$/),
      next: "hit",
      why: "fresh",
      entry: {
        tier: "memory",
        status: 200,
        ageSeconds: 0,
        freshForSeconds: expect.toSatisfy((seconds: number) => seconds > 290 && seconds <= 300),
        bodyBytes: body.length,
        codings: ["identity"],
        etag: String(headers.etag).replaceAll('"', ""),
        tags: expect.arrayContaining(["area:76"]),
      },
    });
    expect((await entry(gateway, PATH, "&format=v2")).json()).toMatchObject({ why: "not stored" });
  });

  it("shows the API's own explanation of a failure", async () => {
    const upstream = await startUpstream(
      (response) => void response.writeHead(405).end("FAILURE_METHOD - GET"),
    );
    const gateway = await startGateway({ env: { ...upstream.env, ...EXACT_PAGES } });
    await gateway.get(PATH);
    const failure = "the upstream answered 405: FAILURE_METHOD - GET";
    const says = `Not cached (not stored). The latest call failed: ${failure}.`;
    expect((await entry(gateway, PATH)).json()).toMatchObject({ says, failure });
  });
});

describe("a purge", () => {
  const [HELD, STALE, GONE] = [{ hit: true }, { fwd: "stale" }, { fwd: "miss" }];

  it.each<[string, object, object, object]>([
    ["a URL in any spelling", { url: "/listings?limit=5&areaId=76" }, STALE, HELD],
    ["a key", { key: "property-gateway:1:{json:listings?areaId=76&limit=5&offset=0}" }, STALE, HELD],
    ["a resource", { resource: "listings" }, STALE, HELD],
    ["an area", { tag: "area:76" }, STALE, STALE],
    ["everything", { all: true }, STALE, STALE],
    ["everything, hard", { all: true, hard: true }, GONE, GONE],
    ["another resource", { resource: "areas" }, HELD, HELD],
    ["the frozen version of a URL", { url: PATH, format: "v2" }, HELD, HELD],
  ])("of %s (%o) purges what it names and nothing else", async (_name, body, listings, sold) => {
    const gateway = await startGateway({ env: EXACT_PAGES });
    for (const path of [PATH, OTHER]) await gateway.get(path);
    expect((await purge(gateway, body)).status).toBe(200);
    for (const [path, expected] of [
      [PATH, listings],
      [OTHER, sold],
    ] as const) {
      expect((await entry(gateway, path)).json()).toMatchObject({
        next: expected === HELD ? "hit" : "fetch",
      });
      expect(cacheStatus(await gateway.get(path))).toMatchObject(expected);
      expect(cacheStatus(await gateway.get(path))).toMatchObject({ hit: true });
    }
  });

  it("of a record purges the record, its thumbnail, and every list that contains it", async () => {
    const gateway = await startGateway();
    const [id] = gateway.sandbox.data.listingById.keys();
    const paths = [
      `/listings/${id}`,
      `/cache/primary_${id}_10x10.jpg`,
      "/listings?limit=500",
      "/areas?q=Nacka",
    ];
    for (const path of paths) await gateway.get(path);
    const first = (await gateway.get("/listings?limit=500")).text.includes(`"serviceId":${id},`);
    await purge(gateway, { tag: `record:${id}` });
    const after = await Promise.all(
      paths.map(async (path) => cacheStatus(await gateway.get(path)).hit ?? false),
    );
    expect(after).toEqual([false, false, !first, true]);
    expect(first).toBe(true);
  });

  it("of everything makes no upstream call until a caller asks", async () => {
    const gateway = await startGateway();
    await gateway.get(PATH);
    await purge(gateway, { all: true });
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });
});

it("a purge that reaches only a part of its entries says so", async () => {
  let done = 0;
  const url = await startAdminPort({
    pages: { sourceOf: async (asked) => asked, blockKeysOf: () => ["block 1", "block 2"] },
    async purge() {
      if (++done > 2) throw new StoreUnavailable("no connection");
      return { epoch: done };
    },
  });
  const reply = await post(`${url}/cache/purge`, JSON.stringify({ url: "/areas" }));
  expect([reply.status, problemCode(reply)]).toEqual([503, "store-unavailable"]);
  expect(reply.json()).toMatchObject({ remedy: expect.stringMatching(/applied in part. Send it again/) });
});

describe("a restart with a data directory", () => {
  it("keeps answers, purges and the spent budget", async () => {
    const env = { DATA_DIR: temporaryDirectory(), BUDGET: "2/1h" };
    const [upstreamPort = 0] = await freePorts(1);
    const before = await startGateway({ env, upstreamPort });
    const answer = await before.get(PATH);
    await before.get(OTHER);
    await purge(before, { resource: "sold" });
    await before.stop();

    const after = await startGateway({ env, upstreamPort });
    const again = await after.get(PATH);
    expect(cacheStatus(again)).toMatchObject({ hit: true, detail: "sqlite" });
    expect([again.text, again.headers.etag]).toEqual([answer.text, answer.headers.etag]);
    expect((await entry(after, OTHER)).json()).toMatchObject({ why: "purged" });
    expect(problemCode(await after.get("/areas?q=new"))).toBe("temporary-reduced-capacity");
    expect(after.sandbox.requests()).toEqual([]);
  });
});
