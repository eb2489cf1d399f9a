/** Upstreams whose blocks are not what pages can be cut from, or are slow. */
import { describe, expect, it } from "vitest";

import { generateData } from "../../src/sandbox/dataset/generate.ts";
import { listBody } from "../../src/sandbox/envelope.ts";
import { search } from "../../src/sandbox/search.ts";
import { CALLER, startGateway, type TestGateway } from "../support/gateway.ts";
import { createSteppingClock, type SteppingClock } from "../support/stepping-clock.ts";
import { type OwnUpstream, signatureOf, startUpstream } from "../support/upstream.ts";

const DATA = generateData({ seed: 1, listings: 1_500, sold: 10, service: CALLER.service });

/** What an upstream finds, before it writes it. */
type Found = ReturnType<typeof search>;

interface Started {
  readonly gateway: TestGateway;
  readonly clock: SteppingClock;
  readonly upstream: OwnUpstream;
  /** The questions that reached the upstream. */
  readonly asked: () => string[];
}

/**
 * A gateway in front of an upstream that answers its own way.
 * @param write writes what was found
 */
async function start(
  pages: string,
  write: (found: Found, clock: SteppingClock) => string,
  budget = "1000000/1m",
): Promise<Started> {
  const clock = createSteppingClock();
  const upstream: OwnUpstream = await startUpstream((response) => {
    const { searchParams } = new URL(upstream.seen.at(-1)?.target ?? "", "http://upstream");
    response.end(write(search(DATA, "listings", searchParams), clock));
  });
  const settings = `pages: { ${pages} }\n`;
  const env = { ...upstream.env, PAGES_FOLD: "on", BUDGET: budget };
  const gateway = await startGateway({ clock, settings, env });
  return { gateway, clock, upstream, asked: () => upstream.seen.map((seen) => signatureOf(seen).question) };
}

const asItIs = (found: Found): string => listBody("listings", found, "offset");
const searchFor = (areaId: number, page: string): string => `/listings?areaId=${areaId}&${page}`;
const AREAS = DATA.areas.map(({ record }) => record.serviceId);

describe("a block that no page can be cut from", () => {
  const withLinks = (found: Found): string => asItIs(found).replace(/\}$/, ',"links":{"next":"?page=2"}}');

  it("has the search asked page by page for a while, with a line in the log", async () => {
    const { gateway, clock, asked } = await start("verify: 0, maxExtraLatency: 10m", withLinks);
    const page = searchFor(2, "limit=20&offset=0");
    for (const offset of [0, 20, 40]) {
      const { text } = await gateway.get(searchFor(2, `limit=20&offset=${offset}`));
      expect(text).toContain('"limit":20');
    }
    expect(asked()).toEqual([
      searchFor(2, "limit=500&offset=0"),
      ...[0, 20, 40].map((offset) => searchFor(2, `limit=20&offset=${offset}`)),
    ]);
    await gateway.logged("uses smaller blocks, or single pages", "a field of the envelope is not known");
    expect((await gateway.get(page)).status).toBe(200);
    clock.pass(700_000);
    await gateway.get(page);
    expect(asked().at(-2)).toBe(searchFor(2, "limit=500&offset=0"));
  });

  it("that many searches have turns folding off for the resource", async () => {
    const { gateway, asked } = await start("verify: 0, maxExtraLatency: 10m", withLinks);
    for (const areaId of AREAS.slice(0, 5)) await gateway.get(searchFor(areaId, "limit=20"));
    await gateway.logged('"level":"error"', "Many searches cannot be answered from blocks");
    const before = asked().length;
    await gateway.get(searchFor(AREAS[5] ?? 0, "limit=20"));
    expect(asked().slice(before)).toEqual([searchFor(AREAS[5] ?? 0, "limit=20&offset=0")]);
  });
});

describe("a page that is checked", () => {
  const CHECKS = "verify: 1, maxExtraLatency: 10m";
  const checked = ({ metric }: TestGateway, result: string): Promise<number> =>
    metric(`gateway_pages_checked_total{resource="listings",result="${result}"}`);

  it("and agrees leaves everything as it is", async () => {
    const { gateway, asked } = await start(CHECKS, asItIs);
    await gateway.get(searchFor(2, "limit=20"));
    await expect.poll(() => checked(gateway, "agreed")).toBe(1);
    expect(asked()).toEqual([searchFor(2, "limit=500&offset=0"), searchFor(2, "limit=20&offset=0")]);
  });

  it("and differs because something has changed leaves everything as it is", async () => {
    let price = 1_000_000;
    const { gateway, asked } = await start(CHECKS, (found) => {
      // It changes once, between the block and the page.
      if (found.limit === 20) price = 2_000_000;
      const records = found.records.map((record) => ({ ...record, listPrice: price }));
      return asItIs({ ...found, records });
    });
    await gateway.get(searchFor(2, "limit=20"));
    await expect.poll(() => checked(gateway, "agreed")).toBe(1);
    // Both were fetched again, one after the other.
    expect(asked().map((question) => /limit=(\d+)/.exec(question)?.[1])).toEqual(["500", "20", "500", "20"]);
  });

  it("and differs for good turns folding off for its search, and for the resource where many do", async () => {
    const otherOrder = (found: Found): string =>
      asItIs(found.limit === 20 ? { ...found, records: found.records.toReversed() } : found);
    const { gateway, asked } = await start(CHECKS, otherOrder);
    for (const [nth, areaId] of AREAS.slice(0, 5).entries()) {
      await gateway.get(searchFor(areaId, "limit=20"));
      await expect.poll(() => checked(gateway, "differed")).toBe(nth + 1);
    }
    await gateway.logged(
      "Many searches cannot be answered from blocks",
      "a cut page differed from the upstream's page",
    );
    const before = asked().length;
    const [first = 0, other = 0] = [AREAS[0], AREAS[5]];
    await gateway.get(searchFor(first, "limit=30"));
    await gateway.get(searchFor(other, "limit=30"));
    expect(asked().slice(before)).toEqual(
      [first, other].map((areaId) => searchFor(areaId, "limit=30&offset=0")),
    );
  });

  it("costs nothing where less than half of the budget is left", async () => {
    const { gateway, asked } = await start(CHECKS, asItIs, "3/1h");
    await gateway.get(searchFor(1, "limit=500"));
    await gateway.get(searchFor(2, "limit=20"));
    await gateway.get(searchFor(2, "limit=20"));
    await expect.poll(() => gateway.metric("gateway_flights")).toBe(0);
    expect(asked()).toHaveLength(2);
  });
});

describe("where blocks are slow", () => {
  const SLOW = "verify: 0, maxExtraLatency: 250ms";

  it("the first page of a search is asked for by itself, and the block when a second page is wanted", async () => {
    const { gateway, asked } = await start(SLOW, (found, clock) => {
      if (found.limit === 500) clock.pass(2_000);
      return asItIs(found);
    });
    const [, other = 0] = AREAS;
    await gateway.get("/listings?limit=20");
    expect(asked()).toEqual(["/listings?limit=500&offset=0"]);

    const page = (offset: number): string => searchFor(other, `limit=20&offset=${offset}`);
    await gateway.get(page(0));
    await gateway.get(page(0));
    expect(asked().slice(1)).toEqual([page(0)]);
    await gateway.get(page(20));
    await gateway.get(page(40));
    await gateway.get(page(0));
    expect(asked().slice(2)).toEqual([searchFor(other, "limit=500&offset=0")]);
  });

  it("and pages are as slow, blocks are asked for", async () => {
    const { gateway, asked } = await start(SLOW, (found, clock) => {
      clock.pass(2_000);
      return asItIs(found);
    });
    await gateway.get("/listings?limit=20");
    // The first page that is asked for by itself shows how long pages take.
    await gateway.get(searchFor(1, "limit=20"));
    await gateway.get(searchFor(2, "limit=20"));
    expect(asked().map((question) => /limit=(\d+)/.exec(question)?.[1])).toEqual(["500", "20", "500"]);
  });
});
