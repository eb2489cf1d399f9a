/** Pages that are cut from blocks behave as if each had been asked for by itself. */
import { zstdDecompressSync } from "node:zlib";

import { describe, expect, it } from "vitest";

import { listBody } from "../../src/sandbox/envelope.ts";
import { search } from "../../src/sandbox/search.ts";
import { ask, type Reply, post } from "../support/ask.ts";
import { EXACT_PAGES, startGateway, type TestGateway, type TestGatewayOptions } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { createSteppingClock, type SteppingClock } from "../support/stepping-clock.ts";
import { attended, BEGINS_MS, startWarm } from "../support/warm.ts";
import { countFrames } from "../support/zstd.ts";

const APPS = "apps: [{ id: desk, mayForceRefresh: true }]\n";
const TTL_MS = 300_000;
const BLOCK = "/listings?areaId=2&limit=500&offset=0";

interface Started {
  readonly gateway: TestGateway;
  readonly clock: SteppingClock;
}

/** A gateway that cuts pages from blocks, in front of a sandbox with 1,500 listings, with a fake clock. */
async function start(options: TestGatewayOptions = {}): Promise<Started> {
  const clock = createSteppingClock();
  const gateway = await startGateway({ clock, sandbox: { now: clock.now }, ...options });
  return { gateway, clock };
}

/** What the sandbox itself sends. */
function upstreamSends({ sandbox }: TestGateway, target: string): string {
  const { pathname, searchParams } = new URL(target, "http://sandbox");
  const resource = pathname === "/sold" ? "sold" : "listings";
  return listBody(resource, search(sandbox.data, resource, searchParams), "offset");
}

/** The queries that reached the upstream, without the records in front. */
function asked({ sandbox }: TestGateway): string[] {
  return sandbox.requests().map(({ path, query }) => `${path}?${query}`);
}

async function inspect({ adminUrl }: TestGateway, url: string): Promise<unknown> {
  return (await ask(`${adminUrl}/cache/entry?url=${encodeURIComponent(url)}`)).json();
}

/** Resolves when nothing is asked of the upstream any more. */
async function landed(gateway: TestGateway): Promise<void> {
  await expect.poll(() => gateway.metric("gateway_flights")).toBe(0);
}

const validatorOf = ({ headers }: Reply): string => String(headers.etag);

describe("the pages of a search", () => {
  it("need one call for their block, and each is what the upstream sends", async () => {
    const { gateway } = await start();
    for (const page of [
      "limit=20",
      "limit=20&offset=20",
      "offset=480&limit=20",
      "limit=500",
      "limit=1&offset=7",
    ]) {
      const target = `/listings?areaId=2&${page}`;
      const { status, text } = await gateway.get(target);
      expect([target, status, text]).toEqual([target, 200, upstreamSends(gateway, target)]);
    }
    expect(asked(gateway)).toEqual([BLOCK]);
  });

  it("need one call when they are requested at the same time", async () => {
    const { gateway } = await start();
    gateway.sandbox.hold();
    const targets = Array.from({ length: 20 }, (_, n) => `/listings?areaId=2&limit=25&offset=${n * 25}`);
    const replies = targets.map((target) => gateway.get(target));
    await gateway.sandbox.waitForRequests(1);
    await gateway.admitted();
    gateway.sandbox.release();
    for (const [n, reply] of (await Promise.all(replies)).entries())
      expect(reply.text).toBe(upstreamSends(gateway, targets[n] ?? ""));
    expect(asked(gateway)).toEqual([BLOCK]);
  });

  it("are fetched alone if they span two blocks", async () => {
    const { gateway } = await start();
    const target = "/listings?limit=50&offset=480";
    expect((await gateway.get(target)).text).toBe(upstreamSends(gateway, target));
    expect(asked(gateway)).toEqual([target]);
  });

  it("are cut from their first block if it is the last one", async () => {
    const { gateway } = await start();
    const few = "/listings?areaId=76&objectType=villa";
    await gateway.get(`${few}&limit=10`);
    const target = `${few}&limit=35&offset=490`;
    expect((await gateway.get(target)).text).toBe(upstreamSends(gateway, target));
    expect(asked(gateway)).toHaveLength(1);
  });

  it("are fetched alone with an undocumented parameter", async () => {
    const { gateway } = await start({ settings: "query: { allow: [sort] }" });
    for (const offset of [0, 20])
      await gateway.get(`/listings?areaId=2&sort=price&limit=20&offset=${offset}`);
    expect(asked(gateway)).toHaveLength(2);
  });

  it("are fetched alone with pages.fold: off", async () => {
    const { gateway } = await start({ env: EXACT_PAGES });
    for (const offset of [0, 20]) await gateway.get(`/listings?areaId=2&limit=20&offset=${offset}`);
    expect(asked(gateway)).toHaveLength(2);
  });

  it("are a separate answer in each format", async () => {
    const { gateway } = await start();
    const v2 = { headers: { accept: "application/vnd.propertyservice-v2+json" } };
    for (const offset of [0, 20]) await gateway.get(`/listings?areaId=2&limit=20&offset=${offset}`, v2);
    await gateway.get("/listings?areaId=2&limit=20");
    expect(asked(gateway)).toEqual([BLOCK, BLOCK]);
  });
});

describe("a block that memory keeps in several frames", () => {
  async function startPacked(): Promise<Started> {
    const started = await start();
    await started.gateway.get("/listings?areaId=2&limit=20");
    await expect
      .poll(() => inspect(started.gateway, BLOCK))
      .toMatchObject({ next: "hit", entry: { tier: "memory", codings: ["zstd"] } });
    return started;
  }

  it("is sent as the upstream sends it, as a whole and in pages", async () => {
    const { gateway } = await startPacked();
    for (const page of ["limit=20&offset=480", "limit=200&offset=7", "limit=500&offset=0"]) {
      const target = `/listings?areaId=2&${page}`;
      expect((await gateway.get(target)).text).toBe(upstreamSends(gateway, target));
    }
    expect(asked(gateway)).toEqual([BLOCK]);
  });

  it("is sent to a caller in a single zstd frame, because some clients read only the first one", async () => {
    const { gateway } = await startPacked();
    const { headers, body } = await gateway.get(BLOCK, { headers: { "accept-encoding": "zstd" } });
    expect([headers["content-encoding"], countFrames(body)]).toEqual(["zstd", 1]);
    expect(zstdDecompressSync(body).toString()).toBe(upstreamSends(gateway, BLOCK));
  });
});

describe("a page after the last record", () => {
  it("is the upstream's empty page, without a call once a block has the total count", async () => {
    const { gateway, clock } = await start();
    await gateway.get("/listings?limit=50");
    clock.pass(7_000);
    for (const page of ["limit=50&offset=1500", "limit=500&offset=2000", "limit=35&offset=1000000000"]) {
      const target = `/listings?${page}`;
      const reply = await gateway.get(target);
      expect(reply.text).toBe(upstreamSends(gateway, target));
      expect(reply.headers.age).toBe("7");
    }
    expect(asked(gateway)).toHaveLength(1);
    expect(await gateway.metric('gateway_upstream_calls_saved_total{cause="past_end"}')).toBe(3);
  });

  it("is fetched if the upstream may refuse its offset", async () => {
    const { gateway } = await start();
    await gateway.get("/listings?limit=50");
    expect((await gateway.get("/listings?limit=50&offset=9007199254740000")).status).toBe(400);
  });

  it("is cut from its block while the total count is not known", async () => {
    const { gateway } = await start();
    const target = "/listings?limit=50&offset=1500";
    expect((await gateway.get(target)).text).toBe(upstreamSends(gateway, target));
    expect((await gateway.get(target)).text).toBe(upstreamSends(gateway, target));
    expect(asked(gateway)).toEqual(["/listings?limit=500&offset=1500"]);
  });
});

describe("a cut page", () => {
  const PAGE = "/listings?areaId=2&limit=20&offset=40";

  it("has the age and the lifetime of its block", async () => {
    const { gateway, clock } = await start();
    await gateway.get("/listings?areaId=2&limit=20");
    clock.pass(100_000);
    const reply = await gateway.get(PAGE);
    expect(reply.headers).toMatchObject({ age: "100", "cache-control": "max-age=200" });
    expect(cacheStatus(reply)).toMatchObject({ hit: true, ttl: "200" });
  });

  it("has its own ETag", async () => {
    const { gateway } = await start();
    gateway.sandbox.set({ validators: "both" });
    const page = await gateway.get(PAGE);
    expect(page.headers).not.toHaveProperty("last-modified");
    expect(validatorOf(await gateway.get(PAGE, { method: "HEAD" }))).toBe(validatorOf(page));
    const unchanged = await gateway.get(PAGE, { headers: { "if-none-match": validatorOf(page) } });
    expect([unchanged.status, validatorOf(unchanged)]).toEqual([304, validatorOf(page)]);

    const { gateway: exact } = await start({ env: EXACT_PAGES });
    expect(validatorOf(await exact.get(PAGE))).toBe(validatorOf(page));
  });

  it("keeps its ETag when only other pages of its block have changed", async () => {
    const { gateway, clock } = await start();
    const before = await gateway.get(PAGE);
    clock.pass(TTL_MS + 3_600_000);
    gateway.sandbox.faults.add({ respell: true, times: 1 });
    const confirmed = await gateway.get(PAGE);
    expect(asked(gateway)).toHaveLength(2);
    expect([validatorOf(confirmed), confirmed.headers.age]).toEqual([validatorOf(before), "0"]);
  });

  it("is compressed once", async () => {
    const { gateway } = await start();
    const zipped = { headers: { "accept-encoding": "gzip" } };
    const [one, other] = [await gateway.get(PAGE, zipped), await gateway.get(PAGE, zipped)];
    expect(one.headers["content-encoding"]).toBe("gzip");
    expect(one.body.equals(other.body)).toBe(true);
  });

  it("is served stale while its block is refreshed, and is then new", async () => {
    const { gateway, clock } = await start();
    const before = await gateway.get(PAGE);
    clock.pass(TTL_MS);
    gateway.sandbox.revise();
    const stale = await gateway.get(PAGE);
    expect(cacheStatus(stale)).toMatchObject({ hit: true, detail: "stale-while-revalidate" });
    expect(stale.text).toBe(before.text);
    await landed(gateway);
    const after = await gateway.get(PAGE);
    expect(after.text).not.toBe(before.text);
    expect(after.headers.age).toBe("0");
    expect(asked(gateway)).toEqual([BLOCK, BLOCK]);
  });

  it("is served stale on errors if its block may be", async () => {
    const { gateway, clock } = await start({ settings: "upstream: { retryDelay: 1ms }" });
    const before = await gateway.get(PAGE);
    clock.pass(TTL_MS + 600_000);
    gateway.sandbox.faults.add({ status: 500 });
    const stale = await gateway.get(PAGE);
    expect([stale.status, stale.text]).toEqual([200, before.text]);
    expect(cacheStatus(stale)).toMatchObject({ hit: true, detail: "upstream-error" });
  });

  it("is 504 for only-if-cached until its block is cached", async () => {
    const { gateway } = await start();
    const stored = { headers: { "cache-control": "only-if-cached" } };
    expect(problemCode(await gateway.get(PAGE, stored))).toBe("not-in-cache");
    await gateway.get("/listings?areaId=2&limit=20");
    expect((await gateway.get(PAGE, stored)).status).toBe(200);
    expect(asked(gateway)).toEqual([BLOCK]);
  });

  it("is refreshed with its block for an app that may force that", async () => {
    const { gateway, clock } = await start({ settings: APPS });
    await gateway.get(PAGE);
    clock.pass(60_000);
    const forced = await gateway.get(PAGE, {
      headers: { "x-app-id": "desk", "cache-control": "no-cache" },
    });
    expect(cacheStatus(forced)).toMatchObject({ fwd: "request" });
    expect(forced.headers.age).toBe("0");
    // Of the same new state: the other pages, too.
    expect((await gateway.get("/listings?areaId=2&limit=20")).headers.age).toBe("0");
    expect(asked(gateway)).toEqual([BLOCK, BLOCK]);
  });

  it("is counted as a saved call", async () => {
    const { gateway } = await start();
    await gateway.get("/listings?areaId=2&limit=20");
    await gateway.get(PAGE);
    await gateway.get(PAGE);
    await gateway.get("/listings?areaId=2&limit=1000");
    const saved = (cause: string): Promise<number> =>
      gateway.metric(`gateway_upstream_calls_saved_total{cause="${cause}"}`);
    expect([await saved("folded"), await saved("hit"), await saved("refused")]).toEqual([1, 1, 1]);
  });

  it("is shown to operators as its block", async () => {
    const { gateway } = await start();
    expect(await inspect(gateway, PAGE)).toMatchObject({
      next: "fetch",
      cutFrom: expect.stringContaining("limit=500"),
    });
    await gateway.get("/listings?areaId=2&limit=20");
    expect(await inspect(gateway, PAGE)).toMatchObject({
      query: "listings?areaId=2&limit=20&offset=40",
      cutFrom: "listings?areaId=2&limit=500&offset=0",
      next: "hit",
    });
    const quote = await ask(`${gateway.adminUrl}/quote?url=${encodeURIComponent(PAGE)}`);
    expect(quote.json()).toMatchObject({ cached: true, upstreamCalls: 0 });
  });
});

describe("a purge", () => {
  const PAGE = "/listings?areaId=2&limit=20&offset=40";

  async function purge({ adminUrl }: TestGateway, what: object): Promise<void> {
    expect((await post(`${adminUrl}/cache/purge`, JSON.stringify(what))).status).toBe(200);
  }

  it.each([
    ["of a page purges its block, and with it the other pages", { url: PAGE }],
    ["of an area purges the blocks of its searches", { tag: "area:2" }],
    ["of a resource", { resource: "listings" }],
  ])("%s", async (_, what) => {
    const { gateway } = await start();
    const before = await gateway.get("/listings?areaId=2&limit=20");
    await gateway.get(PAGE);
    gateway.sandbox.revise();
    await purge(gateway, { ...what, hard: true });
    const after = await gateway.get("/listings?areaId=2&limit=20");
    expect(after.text).not.toBe(before.text);
    expect((await gateway.get(PAGE)).headers.age).toBe("0");
    expect(asked(gateway)).toEqual([BLOCK, BLOCK]);
  });

  it("of a record purges the blocks that contain it", async () => {
    const { gateway } = await start();
    await gateway.get(PAGE);
    const last = await gateway.get("/listings?areaId=2&limit=1&offset=300");
    const [id] = /"serviceId":(\d+)/.exec(last.text)?.slice(1) ?? [];
    await purge(gateway, { tag: `record:${id}`, hard: true });
    await gateway.get(PAGE);
    expect(asked(gateway)).toEqual([BLOCK, BLOCK]);
  });

  it("during the fetch of a block applies to the pages cut from it", async () => {
    const { gateway } = await start();
    gateway.sandbox.hold();
    const first = gateway.get(PAGE);
    await gateway.sandbox.waitForRequests(1);
    await purge(gateway, { url: PAGE, hard: true });
    gateway.sandbox.release();
    await first;
    await gateway.get(PAGE);
    expect(asked(gateway)).toEqual([BLOCK, BLOCK]);
  });
});

describe("a block that fails", () => {
  const PAGE = "/listings?areaId=2&limit=20";

  it.each([
    ["400", { status: 400 }],
    ["404", { status: 404 }],
    ["500 twice", { status: 500, times: 2 }],
    ["another body than a list", { wrongEnvelope: true }],
    ["a body over the limit", { oversizeBytes: 5_000_000 }],
  ])(
    "with %s is not the page's answer, and the search is fetched page by page for a while",
    async (_, fault) => {
      const { gateway, clock } = await start({ settings: "upstream: { retryDelay: 1ms }" });
      gateway.sandbox.faults.add({ times: 1, ...fault });
      expect((await gateway.get(PAGE)).text).toBe(upstreamSends(gateway, PAGE));
      gateway.sandbox.clearRequests();
      const pages = [20, 260].map((offset) => `/listings?areaId=2&limit=20&offset=${offset}`);
      for (const target of pages)
        expect((await gateway.get(target)).text).toBe(upstreamSends(gateway, target));
      expect(asked(gateway)).toEqual(pages);

      gateway.sandbox.clearRequests();
      clock.pass(3_600_000);
      await gateway.get(PAGE);
      expect(asked(gateway)).toEqual([BLOCK]);
    },
  );

  it("together with its page does not count: the next page is fetched as a block", async () => {
    const { gateway } = await start();
    gateway.sandbox.faults.add({ status: 404, times: 2 });
    expect((await gateway.get(PAGE)).status).toBe(404);
    await gateway.get("/listings?areaId=2&limit=20&offset=500");
    expect(asked(gateway).at(-1)).toBe("/listings?areaId=2&limit=500&offset=500");
  });

  it("for lack of budget is not followed by a fetch of the page", async () => {
    const { gateway } = await start({ env: { BUDGET: "1/1h" } });
    await gateway.get("/areas?q=Nacka");
    expect(problemCode(await gateway.get(PAGE))).toBe("temporary-reduced-capacity");
    expect(gateway.sandbox.counts().total).toBe(1);
  });

  it("because the upstream forbids caching it is not fetched again", async () => {
    const { gateway } = await start();
    gateway.sandbox.faults.add({ headers: { "Cache-Control": "no-store" } });
    expect((await gateway.get(PAGE)).headers["cache-control"]).toBe("no-store");
    expect(await gateway.metric('gateway_cache_entries{tier="memory"}')).toBe(0);
    await gateway.get(PAGE);
    expect(asked(gateway)).toEqual([BLOCK, "/listings?areaId=2&limit=20&offset=0"]);
  });
});

describe("the meaning of no limit, and of limit=0,", () => {
  it.each([
    ["", 35],
    ["limit=0", 0],
  ])("(%j) is learned from answers, and then such pages are cut too", async (limit, records) => {
    const { gateway } = await start();
    const search = (areaId: number): string => `/listings?areaId=${areaId}&${limit}`;
    for (const areaId of [1, 2, 13]) await gateway.get(search(areaId));
    expect(asked(gateway).every((query) => !query.includes("limit=500"))).toBe(true);
    gateway.sandbox.clearRequests();

    const reply = await gateway.get(search(3));
    expect(reply.text).toBe(upstreamSends(gateway, search(3)));
    expect(reply.json()).toMatchObject({ count: Math.min(records, 35), limit: records });
    const later = `/listings?areaId=3&${limit}&offset=20`;
    expect((await gateway.get(later)).text).toBe(upstreamSends(gateway, later));
    expect(asked(gateway)).toEqual(["/listings?areaId=3&limit=500&offset=0"]);
  });

  it("is learned again from time to time", async () => {
    const { gateway, clock } = await start();
    for (const areaId of [1, 2, 13]) await gateway.get(`/listings?areaId=${areaId}`);
    clock.pass(3_600_000);
    gateway.sandbox.clearRequests();
    await gateway.get("/listings?areaId=1");
    expect(asked(gateway)).toEqual(["/listings?areaId=1&offset=0"]);
  });
});

describe("a page in the warm list", () => {
  it("keeps its block warm, and so every page of the block", async () => {
    const list = 'warm: [{ url: "/listings?areaId=76&limit=5" }]';
    const { gateway, clock } = await startWarm(list, {});
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    expect(cacheStatus(await gateway.get("/listings?areaId=76&limit=10&offset=5"))).toMatchObject({
      hit: true,
    });
    expect(asked(gateway)).toEqual(["/listings?areaId=76&limit=500&offset=0"]);
  });
});
