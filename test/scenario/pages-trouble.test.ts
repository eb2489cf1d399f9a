/** Upstreams whose blocks are not what pages can be cut from. */
import { describe, expect, it } from "vitest";

import { generateData } from "../../src/sandbox/dataset/generate.ts";
import { listBody } from "../../src/sandbox/envelope.ts";
import { search } from "../../src/sandbox/search.ts";
import { CALLER, startGateway, type TestGateway } from "../support/gateway.ts";
import { createSteppingClock, type SteppingClock } from "../support/stepping-clock.ts";
import { NO_AREAS, type OwnUpstream, signatureOf, startUpstream } from "../support/upstream.ts";

const DATA = generateData({ seed: 1, listings: 1_500, sold: 10, service: CALLER.service });

/** What an upstream finds, before it writes it. */
type Found = ReturnType<typeof search>;

/**
 * A gateway in front of an upstream that answers its own way.
 * @param write writes what was found
 */
async function start(write: (found: Found, clock: SteppingClock) => string, budget = "1000000/1m") {
  const clock = createSteppingClock();
  const upstream: OwnUpstream = await startUpstream((response) => {
    const { pathname, searchParams } = new URL(upstream.seen.at(-1)?.target ?? "", "http://upstream");
    if (pathname === "/areas") return void response.end(NO_AREAS);
    response.end(write(search(DATA, "listings", searchParams), clock));
  });
  const env = { ...upstream.env, BUDGET: budget };
  const gateway = await startGateway({ clock, env });
  /** The questions that reached the upstream. */
  const asked = (): string[] => upstream.seen.map((seen) => signatureOf(seen).question);
  return { gateway, clock, asked };
}

const asItIs = (found: Found): string => listBody("listings", found, "offset");
const searchFor = (areaId: number, page: string): string => `/listings?areaId=${areaId}&${page}`;
const AREAS = DATA.areas.map(({ record }) => record.serviceId);

describe("an unusable block", () => {
  const withLinks = (found: Found): string => asItIs(found).replace(/\}$/, ',"links":{"next":"?page=2"}}');

  it("makes the gateway fetch the search page by page for a while, with a log line", async () => {
    const { gateway, clock, asked } = await start(withLinks);
    const alone = [0, 20, 40].map((offset) => searchFor(2, `limit=20&offset=${offset}`));
    const [page = ""] = alone;
    for (const target of alone) expect((await gateway.get(target)).text).toContain('"limit":20');
    expect(asked()).toEqual([searchFor(2, "limit=500&offset=0"), ...alone]);
    await gateway.logged("are fetched one by one for some time", "a field of the envelope is not known");
    expect((await gateway.get(page)).status).toBe(200);
    clock.pass(700_000);
    await gateway.get(page);
    expect(asked().at(-2)).toBe(searchFor(2, "limit=500&offset=0"));
  });

  it("of many searches makes the gateway fetch all pages of the resource alone", async () => {
    const { gateway, asked } = await start(withLinks);
    for (const areaId of AREAS.slice(0, 5)) await gateway.get(searchFor(areaId, "limit=20"));
    await gateway.logged('"level":"error"', "Many searches cannot be answered from blocks");
    await gateway.get(searchFor(AREAS[5] ?? 0, "limit=20"));
    expect(asked().slice(10)).toEqual([searchFor(AREAS[5] ?? 0, "limit=20&offset=0")]);
  });
});

it("if an upstream repeats a given limit, only pages without one are fetched alone", async () => {
  const { gateway, asked } = await start((found) =>
    asItIs({ ...found, searchParams: found.limit === 35 ? {} : { limit: found.limit } }),
  );
  const alone = [1, 2, 13, 3, 4, 5, 6, 7, 8].map((areaId) => searchFor(areaId, "offset=0"));
  for (const target of [...alone, searchFor(3, "limit=20")]) await gateway.get(target);
  expect(asked()).toEqual(alone.toSpliced(3, 0, searchFor(3, "limit=500&offset=0")));
});

it("an upstream that applies a lower limit: links go by its pages, so they skip no record", async () => {
  const atMost20 = (found: Found): string =>
    asItIs({ ...found, limit: 20, records: found.records.slice(0, 20) });
  const { gateway } = await start(atMost20);
  const { headers } = await gateway.get("/listings?limit=50&offset=100");
  expect(headers["link"]).toBe('<?limit=50&offset=120>; rel="next", <?limit=50&offset=80>; rel="prev"');
});

describe("a page that is checked", () => {
  const checked = ({ metric }: TestGateway, result: string): Promise<number> =>
    metric(`gateway_pages_checked_total{resource="listings",result="${result}"}`);

  /** A gateway that has made 300 calls, so three more calls may check a page. */
  async function startDue(...how: Parameters<typeof start>) {
    const { asked, ...started } = await start(...how);
    for (let nth = 0; nth < 300; nth += 30)
      await Promise.all(Array.from({ length: 30 }, (_, at) => started.gateway.get(`/areas?q=${nth + at}`)));
    return { ...started, asked: () => asked().slice(300) };
  }

  it("and agrees changes nothing, and is the only one for a while", async () => {
    const { gateway, asked } = await startDue(asItIs);
    for (const areaId of [2, 3]) {
      await gateway.get(searchFor(areaId, "limit=20"));
      await expect.poll(() => checked(gateway, "agreed")).toBe(1);
    }
    const [block, page] = ["limit=500&offset=0", "limit=20&offset=0"] as const;
    expect(asked()).toEqual([searchFor(2, block), searchFor(2, page), searchFor(3, block)]);
  });

  it("and differs because a record has changed changes nothing", async () => {
    let price = 1_000_000;
    const { gateway, asked } = await startDue((found) => {
      // It changes once, between the block and the page.
      if (found.limit === 20) price = 2_000_000;
      return asItIs({ ...found, records: found.records.map((record) => ({ ...record, listPrice: price })) });
    });
    await gateway.get(searchFor(2, "limit=20"));
    await expect.poll(() => checked(gateway, "agreed")).toBe(1);
    // Both were fetched again, one after the other.
    expect(asked().map((question) => /limit=(\d+)/.exec(question)?.[1])).toEqual(["500", "20", "500", "20"]);
  });

  it("and differs permanently makes the gateway fetch the pages of its search alone", async () => {
    const otherOrder = (found: Found): string =>
      asItIs(found.limit === 20 ? { ...found, records: found.records.toReversed() } : found);
    const { gateway, asked } = await startDue(otherOrder);
    await gateway.get(searchFor(2, "limit=20"));
    await expect.poll(() => checked(gateway, "differed")).toBe(1);
    await gateway.logged("fetched one by one for some time", "a cut page differed from the upstream's page");
    await gateway.get(searchFor(2, "limit=30"));
    expect(asked().slice(4)).toEqual([searchFor(2, "limit=30&offset=0")]);
  });

  it("costs no call if less than half of the budget is left", async () => {
    const { gateway, asked } = await startDue(asItIs, "450/1h");
    await gateway.get(searchFor(2, "limit=20"));
    await gateway.landed();
    expect(asked()).toHaveLength(1);
  });
});
