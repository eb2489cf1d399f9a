/** Whatever is down, the gateway serves every answer that it has cached, with its age. */
import { beforeAll, describe, expect, it } from "vitest";

import type { Reply } from "../support/ask.ts";
import { LISTING_ID, EXACT_PAGES, startGateway, type TestGateway } from "../support/gateway.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { cacheStatus } from "../support/reply.ts";
import { createLeapingClock } from "../support/stepping-clock.ts";
import { expectShared } from "../support/two-gateways.ts";

/** Requests of every kind, with and without a result. */
const PATHS = [
  ...Array.from({ length: 12 }, (_, n) => `/listings?areaId=76&limit=5&offset=${n * 5}`),
  ...Array.from({ length: 6 }, (_, n) => `/sold?areaId=1&minSoldDate=2024010${n + 1}&limit=3`),
  "/areas?q=Nacka",
  "/areas?lat=59.3&lng=18.1",
  `/listings/${LISTING_ID}`,
  "/sold/1",
  `/cache/primary_${LISTING_ID}_140x94.jpg`,
  `/cache/primary_${LISTING_ID}_70x47.jpg`,
];

const IMAGES = PATHS.filter((path) => path.includes("/cache/")).length;

interface Asked {
  readonly path: string;
  readonly reply: Reply;
  /** Before and after the answer, by the gateway's clock. */
  readonly from: number;
  readonly to: number;
}

type LeapingClock = ReturnType<typeof createLeapingClock>;

const HOUR_MS = 3_600_000;

async function askOne(gateway: TestGateway, clock: LeapingClock, path: string): Promise<Asked> {
  const from = clock.now();
  const reply = await gateway.get(path);
  return { path, reply, from, to: clock.now() };
}

/** Asks every path once. Then most of an hour passes. */
async function askAll(gateway: TestGateway, clock: LeapingClock): Promise<Asked[]> {
  const asked = [];
  for (const path of PATHS) asked.push(await askOne(gateway, clock, path));
  // Only now, because the limiter refuses calls while the clocks of the process and of Redis disagree.
  clock.leap(HOUR_MS * 0.9);
  return asked;
}

describe("the gateway answers every URL asked in the last hour", () => {
  let redis: RedisServer;
  let clock: LeapingClock;
  let gateway: TestGateway;
  beforeAll(async () => {
    redis = await startRedis();
    return redis.close;
  });

  /** Starts a gateway, and asks everything once. */
  async function start(isBudgetSpent: boolean): Promise<Asked[]> {
    await redis.restart().catch(() => undefined);
    await redis.command("FLUSHALL");
    clock = createLeapingClock();
    gateway = await startGateway({
      clock,
      sandbox: { now: clock.now },
      env: {
        ...EXACT_PAGES,
        REDIS_URL: `redis://127.0.0.1:${redis.port}`,
        BUDGET: isBudgetSpent ? `${PATHS.length - IMAGES}/30d` : "1000/1m",
        CACHE_TTL: "listings=60s,sold=60s,areas=60s,records=60s,images=60s",
        CACHE_STALE_WHILE_REVALIDATE: "listings=0s,sold=0s,areas=0s,records=0s,images=0s",
      },
      settings: `redis: { timeout: 1s }\n${isBudgetSpent ? `budget: { images: "${IMAGES}/30d" }\n` : ""}`,
    });
    await expectShared(gateway.adminUrl);
    const asked = await askAll(gateway, clock);
    expect(gateway.sandbox.requests()).toHaveLength(PATHS.length);
    return asked;
  }

  /** Everything has expired, and nothing can be fetched. */
  async function expectStale(asked: readonly Asked[], trouble: string): Promise<void> {
    clock.leap(100_000);
    for (const { path, reply, from, to } of [...asked, ...asked]) {
      const { reply: again, ...second } = await askOne(gateway, clock, path);
      expect([trouble, path, again.status, again.text]).toEqual([trouble, path, reply.status, reply.text]);
      const age = Number(again.headers.age);
      expect(age).toBeGreaterThanOrEqual(Math.floor((second.from - to) / 1_000));
      expect(age).toBeLessThanOrEqual((second.to - from) / 1_000);
      // Both are rounded down.
      expect(60 - age - Number(cacheStatus(again)["ttl"])).toBeOneOf([0, 1]);
      expect([trouble, path, cacheStatus(again)]).toEqual([
        trouble,
        path,
        expect.objectContaining({ hit: true, detail: expect.anything() }),
      ]);
      expect(again.headers["cache-control"]).toBe("max-age=0");
    }
    expect(gateway.sandbox.requests()).toHaveLength(PATHS.length);
  }

  const TROUBLES = {
    "the budget is spent": () => undefined,
    "Redis is dead": () => redis.kill(),
    "the upstream is dead": () => gateway.sandbox.close(),
  } as const;
  type Trouble = keyof typeof TROUBLES;

  const COURSES: readonly (readonly Trouble[])[] = [
    ["the upstream is dead", "Redis is dead"],
    ["the budget is spent", "Redis is dead", "the upstream is dead"],
    ["the budget is spent", "the upstream is dead"],
  ];
  it.each(COURSES.map((each) => [each.join(", then "), each] as const))(
    "when %s: stale, with its true age",
    async (_, troubles) => {
      const first = await start(troubles[0] === "the budget is spent");
      expect(first.map(({ reply }) => reply.status)).toEqual(
        PATHS.map((path) => (path === "/sold/1" ? 404 : 200)),
      );
      for (const trouble of troubles) {
        await TROUBLES[trouble]();
        await expectStale(first, trouble);
      }
    },
  );
});
