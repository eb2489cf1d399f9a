/** Narrower searches that are computed from the held blocks of broader ones. */
import { describe, expect, it, onTestFinished } from "vitest";

import { generateData } from "../../src/sandbox/dataset/generate.ts";
import { listBody } from "../../src/sandbox/envelope.ts";
import { systemClock } from "../../src/process/clock.ts";
import { type Filtering } from "../../src/sandbox/filters.ts";
import { search } from "../../src/sandbox/search.ts";
import { ask } from "../support/ask.ts";
import { CALLER, startGateway, type TestGateway, type TestGatewayOptions } from "../support/gateway.ts";
import { post } from "../support/post.ts";
import { startRedis } from "../support/redis.ts";
import { cacheStatus } from "../support/reply.ts";
import { temporaryDirectory } from "../support/sqlite.ts";
import { createSteppingClock, type SteppingClock } from "../support/stepping-clock.ts";

const SETTINGS = `
pages: { verify: 0, maxExtraLatency: 10m }
derive: { mode: on, minSamples: 3, sample: 0 }
apps: [{ id: desk, mayForceRefresh: true }]
`;
const TTL_MS = 300_000;
const DATA = generateData({ seed: 1, listings: 3_000, sold: 3_000, service: CALLER.service });

interface Started {
  readonly gateway: TestGateway;
  readonly clock: SteppingClock;
}

async function start(
  options: TestGatewayOptions & { readonly filtering?: Partial<Filtering> } = {},
): Promise<Started> {
  const clock = createSteppingClock();
  const gateway = await startGateway({
    clock,
    settings: SETTINGS,
    ...options,
    sandbox: {
      data: DATA,
      now: (options.clock ?? clock).now,
      ...(options.filtering && { filtering: options.filtering }),
    },
  });
  return { gateway, clock };
}

/** What the sandbox itself sends. */
function upstreamSends({ sandbox }: TestGateway, target: string): string {
  const { pathname, searchParams } = new URL(target, "http://sandbox");
  const resource = pathname === "/sold" ? "sold" : "listings";
  return listBody(
    resource,
    search(sandbox.data, resource, searchParams, sandbox.state().filtering),
    "offset",
  );
}

async function expectRight(gateway: TestGateway, target: string): Promise<void> {
  const { status, text } = await gateway.get(target);
  // Not `toBe`, which would print hundreds of kilobytes.
  if (status !== 200 || text !== upstreamSends(gateway, target))
    expect.unreachable(`${target} was answered with ${status} ${text.slice(0, 300)}`);
}

async function checks({ metric }: TestGateway): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const result of ["agreed", "differed", "unknown"]) {
    const of = (resource: string): Promise<number> =>
      metric(`gateway_derived_checked_total{resource="${resource}",result="${result}"}`);
    counts[result] = (await of("listings")) + (await of("sold"));
  }
  return counts;
}

async function totalChecks(gateway: TestGateway): Promise<number> {
  return Object.values(await checks(gateway)).reduce((sum, count) => sum + count, 0);
}

const derived = ({ metric }: TestGateway): Promise<number> =>
  metric('gateway_upstream_calls_saved_total{cause="derived"}');

/** Asks for searches that are narrower than one that is held, one after the other, and checks each answer. */
async function teach(gateway: TestGateway, broad: string, narrower: readonly string[]): Promise<void> {
  await gateway.get(broad);
  for (const filter of narrower) {
    const [calls, before] = [gateway.sandbox.counts().total, await totalChecks(gateway)];
    await expectRight(gateway, `${broad}&${filter}`);
    if (gateway.sandbox.counts().total === calls) continue;
    await expect.poll(() => totalChecks(gateway), { interval: 5 }).toBeGreaterThan(before);
    // A difference has the broader search fetched again.
    await expect.poll(() => gateway.metric("gateway_flights"), { interval: 5 }).toBe(0);
  }
}

const BROAD = "/listings?areaId=11";
const OTHER = "/listings?areaId=13";
const ROOMS = ["minRooms=1", "minRooms=2", "minRooms=3", "minRooms=4"];

/** A gateway that knows the filter of ROOMS, and holds another broad search. */
async function startTaught(options: Parameters<typeof start>[0] = {}): Promise<Started> {
  const started = await start(options);
  await teach(started.gateway, `${BROAD}&limit=20`, ROOMS);
  await expectRight(started.gateway, `${OTHER}&limit=50`);
  started.gateway.sandbox.clearRequests();
  return started;
}

async function purge({ adminUrl }: TestGateway, what: object): Promise<void> {
  expect((await post(`${adminUrl}/cache/purge`, JSON.stringify(what))).status).toBe(200);
}

describe("a narrower search", () => {
  it("needs no call once the filter is known, for any page", async () => {
    const { gateway } = await startTaught();
    for (const page of [
      "limit=20",
      "limit=20&offset=20",
      "limit=3&offset=7",
      "limit=500",
      "limit=9&offset=900",
    ])
      await expectRight(gateway, `${OTHER}&minRooms=3&${page}`);
    expect(gateway.sandbox.counts().total).toBe(0);
    expect(await derived(gateway)).toBe(5);
    const again = await gateway.get(`${OTHER}&minRooms=3&limit=20`);
    expect(cacheStatus(again)).toMatchObject({ hit: true });
    expect(await derived(gateway)).toBe(5);
  });

  it.each(["shadow", "off"])("is fetched with derive.mode: %s", async (mode) => {
    const { gateway } = await start({ settings: SETTINGS.replace("mode: on", `mode: ${mode}`) });
    for (const filter of ["", ...ROOMS]) await expectRight(gateway, `${BROAD}&limit=20&${filter}`);
    const isWatching = mode === "shadow";
    if (isWatching) await expect.poll(async () => (await checks(gateway))["agreed"]).toBe(ROOMS.length);
    expect(await totalChecks(gateway)).toBe(isWatching ? ROOMS.length : 0);
    await expectRight(gateway, `${BROAD}&limit=20&minRooms=5`);
    expect(gateway.sandbox.counts().total).toBe(ROOMS.length + 2);
  });

  it("is fetched if the filter is not known, or not in this combination", async () => {
    const { gateway } = await startTaught();
    const targets = ["maxRooms=3", "minRooms=3&includeUnset=0", "minRooms=3&maxRooms=4"];
    for (const filters of targets) await expectRight(gateway, `${OTHER}&limit=50&${filters}`);
    await expectRight(gateway, "/sold?areaId=13&limit=50");
    await expectRight(gateway, "/sold?areaId=13&limit=50&minRooms=3");
    expect(gateway.sandbox.counts().total).toBe(targets.length + 2);
    expect(await derived(gateway)).toBe(0);
  });

  it.each([
    ["areaId=1,13", "areaId=13"],
    ["q=Stockholm", ""],
    ["center=59.3,18.1&dim=4000,4000", ""],
    ["minPlotArea=500", ""],
    ["maxListSqmPrice=50000", ""],
    ["isNewConstruction=1", ""],
    ["priceDecrease=1", ""],
  ])("that also has %s is never computed", async (filter, broad) => {
    const { gateway } = await start({ settings: SETTINGS.replace("minSamples: 3", "minSamples: 1") });
    const target = `/listings?maxListPrice=900000&limit=5&${broad}`;
    for (let nth = 0; nth < 3; nth += 1) {
      await expectRight(gateway, target);
      await expectRight(gateway, `${target}&minRooms=${nth}&${filter}`.replace(`${broad}&`, "&"));
    }
    expect(await derived(gateway)).toBe(0);
  });

  it("has the age of the broader one, works with only-if-cached, and has the same ETag as the upstream's answer", async () => {
    const { gateway, clock } = await startTaught();
    clock.pass(60_000);
    const target = `${OTHER}&minRooms=3&limit=20`;
    const stored = await gateway.get(target, { headers: { "cache-control": "only-if-cached" } });
    expect([stored.status, stored.headers.age]).toEqual([200, "60"]);
    expect(stored.headers["cache-control"]).toContain(`max-age=${(TTL_MS - 60_000) / 1_000}`);
    const unchanged = await gateway.get(target, {
      headers: { "if-none-match": String(stored.headers.etag) },
    });
    expect(unchanged.status).toBe(304);
    // The page as it is asked for by itself.
    const fetched = await gateway.get(target, {
      headers: { "x-app-id": "desk", "cache-control": "no-cache" },
    });
    expect(cacheStatus(fetched)).toMatchObject({ fwd: "miss" });
    expect([fetched.headers.age, fetched.headers.etag]).toEqual(["0", stored.headers.etag]);
    expect(gateway.sandbox.counts().total).toBe(1);
  });

  it("is fetched when the broader one is no longer fresh", async () => {
    const { gateway, clock } = await startTaught();
    const target = `${OTHER}&minRooms=3&limit=20`;
    await gateway.get(target);
    clock.pass(TTL_MS + 1);
    expect(cacheStatus(await gateway.get(target))).toMatchObject({ fwd: "miss" });
  });

  it.each([
    ["of itself", { url: `${OTHER}&minRooms=3&limit=20` }],
    ["of the broader one", { url: `${OTHER}&limit=50` }],
    ["of its area", { tag: "area:13" }],
    ["of the resource", { resource: "listings" }],
  ])("is not computed from blocks older than a purge %s", async (_, what) => {
    const { gateway } = await startTaught();
    const target = `${OTHER}&minRooms=3&limit=20`;
    const before = await gateway.get(target);
    gateway.sandbox.revise();
    await purge(gateway, what);
    const after = await gateway.get(target);
    expect(after.text).not.toBe(before.text);
    expect(gateway.sandbox.counts().total).toBe(1);
  });

  it("is shown to operators with the blocks it is computed from", async () => {
    const { gateway } = await startTaught();
    const url = encodeURIComponent(`${OTHER}&minRooms=3&limit=20`);
    const derivedFrom = "listings?areaId=13&limit=500&offset=0";
    const entry = (await ask(`${gateway.adminUrl}/cache/entry?url=${url}`)).json();
    expect(entry).toMatchObject({ derivedFrom, next: "hit" });
    const quote = (await ask(`${gateway.adminUrl}/quote?url=${url}`)).json();
    expect(quote).toMatchObject({ derivedFrom, cached: true, upstreamCalls: 0 });
  });
});

describe("a broader search of several blocks", () => {
  const LARGE = "/listings?areaId=2";
  const block = (offset: number): string => `areaId=2&limit=500&offset=${offset}`;
  const asked = ({ sandbox }: TestGateway): string[] => sandbox.requests().map(({ query }) => query);

  async function walk(gateway: TestGateway): Promise<void> {
    for (const offset of [0, 500]) await expectRight(gateway, `${LARGE}&limit=100&offset=${offset}`);
  }

  it("is used if its first block is unchanged after the others were fetched", async () => {
    const { gateway } = await startTaught();
    await walk(gateway);
    // The first one is asked for itself, and has the first block fetched again.
    await expectRight(gateway, `${LARGE}&minRooms=2&limit=20`);
    await expect.poll(() => asked(gateway)).toHaveLength(4);
    expect(asked(gateway).toSorted()).toEqual(
      [block(0), block(500), block(0), "areaId=2&minRooms=2&limit=500&offset=0"].toSorted(),
    );
    await expect.poll(() => gateway.metric("gateway_flights")).toBe(0);
    for (const page of ["minRooms=3&limit=20", "minRooms=3&limit=500&offset=400", "minRooms=4&limit=500"])
      await expectRight(gateway, `${LARGE}&${page}`);
    expect(asked(gateway)).toHaveLength(4);
  });

  it("is not used if its first block has changed, or was fetched after the others", async () => {
    const { gateway, clock } = await startTaught();
    await walk(gateway);
    gateway.sandbox.revise();
    await gateway.get(`${LARGE}&minRooms=2&limit=20`);
    await expect.poll(() => asked(gateway)).toHaveLength(4);
    await expect.poll(() => gateway.metric("gateway_flights")).toBe(0);
    await gateway.get(`${LARGE}&minRooms=3&limit=20`);
    expect(asked(gateway).at(-1)).toBe("areaId=2&minRooms=3&limit=500&offset=0");
    clock.pass(86_400_000);
    gateway.sandbox.revise();
    gateway.sandbox.clearRequests();
    for (const offset of [500, 0]) await gateway.get(`${LARGE}&limit=100&offset=${offset}`);
    await gateway.get(`${LARGE}&minRooms=4&limit=20`);
    expect(asked(gateway)).toEqual([block(500), block(0), "areaId=2&minRooms=4&limit=500&offset=0"]);
  });
});

describe("an upstream that filters differently than documented", () => {
  const OTHERWISE: [string, Partial<Filtering>][] = [
    ["does not include its bounds", { bounds: "exclusive" }],
    ["treats records without the value the other way", { unset: "reversed" }],
    ["orders narrower searches otherwise", { order: "by-id" }],
    ["rounds values", { values: "rounded" }],
  ];
  const TARGETS = ["minRooms=2", "minRooms=3", "minRooms=4", "minRooms=5"].flatMap((filter) =>
    ["", "&includeUnset=0"].map((unset) => `${filter}${unset}&limit=40`),
  );

  it.each(OTHERWISE)("and %s is detected before anything is computed", async (_, filtering) => {
    const { gateway } = await start({ filtering });
    for (const unset of ["", "&includeUnset=0"])
      await teach(gateway, `${BROAD}${unset}&limit=20`, [...ROOMS, "minRooms=5", "minRooms=6"]);
    for (const unset of ["", "&includeUnset=0"]) await expectRight(gateway, `${OTHER}${unset}&limit=50`);
    for (const target of TARGETS) await expectRight(gateway, `${OTHER}&${target}`);
    // Bounds and unset values are learned; for the others there is nothing to learn.
    const isLearned = filtering.bounds !== undefined || filtering.unset !== undefined;
    expect((await derived(gateway)) > 0).toBe(isLearned);
    expect(((await checks(gateway))["differed"] ?? 0) > 0).toBe(!isLearned);
  });

  it.each(OTHERWISE)("and later %s is detected by samples", async (_, filtering) => {
    const { gateway } = await startTaught({ settings: SETTINGS.replace("sample: 0", "sample: 1") });
    gateway.sandbox.set({ filtering });
    expect((await gateway.get(`${OTHER}&minRooms=3&limit=40`)).status).toBe(200);
    await gateway.logged("The upstream does not filter as computed");
    await expect.poll(() => gateway.metric("gateway_flights")).toBe(0);
    expect((await checks(gateway))["differed"]).toBeGreaterThan(0);
    for (const filter of ["minRooms=3", "minRooms=4", "minRooms=2"])
      await expectRight(gateway, `${OTHER}&${filter}&limit=40`);
  });
});

describe("a record that disappears, appears or changes", () => {
  it("is not mistaken for a different filter", async () => {
    let listings = DATA.listings;
    const data = {
      ...DATA,
      get listings() {
        return listings;
      },
    };
    const clock = createSteppingClock();
    const gateway = await startGateway({
      clock,
      settings: SETTINGS,
      sandbox: { data, now: clock.now },
    });
    await teach(gateway, `${BROAD}&limit=20`, ROOMS.slice(0, 2));
    const rooms = (count: number): readonly number[] =>
      search(DATA, "listings", { areaId: "11", minRooms: String(count), maxRooms: String(count) })
        .records.filter((record) => "rooms" in record)
        .map(({ serviceId }) => serviceId);
    const [gone] = rooms(3);
    listings = listings
      .filter(({ record }) => record.serviceId !== gone)
      .map((row) =>
        rooms(4).includes(row.record.serviceId) ? { ...row, record: { ...row.record, rent: 1 } } : row,
      );
    clock.pass(1_000);
    await teach(gateway, `${BROAD}&limit=20`, ROOMS.slice(2));
    await expect.poll(() => gateway.metric("gateway_flights")).toBe(0);
    expect((await checks(gateway))["differed"]).toBe(0);
    await teach(gateway, `${BROAD}&limit=20`, ["minRooms=5", "minRooms=6"]);
    await expectRight(gateway, `${OTHER}&limit=50`);
    await expectRight(gateway, `${OTHER}&minRooms=3&limit=50`);
    expect(await derived(gateway)).toBeGreaterThan(0);
  });
});

describe("a learned filter", () => {
  const env = (directory: string): Readonly<Record<string, string>> => ({ DATA_DIR: directory });
  const NARROW = `${OTHER}&minRooms=3&limit=20`;

  it("survives a restart, and is for one upstream", async () => {
    const directory = temporaryDirectory();
    const first = await startTaught({ env: env(directory) });
    const upstreamPort = Number(new URL(first.gateway.sandboxUrl).port);
    await first.gateway.stop();

    const again = await start({ env: env(directory), upstreamPort });
    await expectRight(again.gateway, `${OTHER}&limit=50`);
    await expectRight(again.gateway, NARROW);
    expect(await derived(again.gateway)).toBe(1);
    await again.gateway.stop();

    const moved = await start({ env: env(directory) });
    await expectRight(moved.gateway, `${OTHER}&limit=50`);
    await expectRight(moved.gateway, NARROW);
    expect(await derived(moved.gateway)).toBe(0);
  });

  it("is shared by replicas, and so is its withdrawal", async () => {
    const redis = await startRedis();
    onTestFinished(redis.close);
    const shared = { REDIS_URL: `redis://127.0.0.1:${redis.port}`, REPLICAS: "2" };
    const settings = `${SETTINGS.replace("sample: 0", "sample: 1")}redis: { timeout: 2s }\n`;
    const one = await startTaught({ env: shared, settings, clock: systemClock });
    const upstream = { UPSTREAM_URL: one.gateway.sandboxUrl, UPSTREAM_IMAGE_URL: one.gateway.sandboxUrl };
    const other = await start({
      settings: `${SETTINGS}redis: { timeout: 2s }\n`,
      env: { ...shared, ...upstream },
      clock: systemClock,
    });
    for (const { adminUrl } of [one.gateway, other.gateway])
      await expect
        .poll(async () => (await ask(`${adminUrl}/budget`)).json())
        .toMatchObject({ api: { mode: "shared" } });

    /** How many calls another page of a narrower search saves. */
    let limit = 20;
    const saved = async (): Promise<number> => {
      const before = await derived(other.gateway);
      await other.gateway.get(`${OTHER}&minRooms=4&limit=${(limit += 1)}`);
      return (await derived(other.gateway)) - before;
    };
    await other.gateway.get(`${OTHER}&limit=50`);
    expect(await saved()).toBe(1);

    one.gateway.sandbox.set({ filtering: { bounds: "exclusive" } });
    await one.gateway.get(`${OTHER}&minRooms=2&limit=20`);
    await one.gateway.logged("The upstream does not filter as computed");
    // It reads what was learned once a second.
    await expect.poll(saved).toBe(0);
    await expectRight(one.gateway, `${OTHER}&minRooms=4&limit=20`);
  });
});
