/** Whatever is out of order, and however much of it: what was asked before is answered, and says how old it is. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import type { Reply } from "../support/ask.ts";
import { LISTING_ID, startGateway, type TestGateway } from "../support/gateway.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { cacheStatus } from "../support/reply.ts";
import { createSteppingClock, type SteppingClock } from "../support/stepping-clock.ts";

/** Of every kind, found and not found, good and refused by the upstream. */
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

/** Asks every path once within an hour. @returns when each was asked, and what came */
async function askAll(
  gateway: TestGateway,
  clock: SteppingClock,
): Promise<{ readonly path: string; readonly at: number; readonly reply: Reply }[]> {
  const asked = [];
  for (const path of PATHS) {
    const reply = await gateway.get(path);
    asked.push({ path, at: clock.now(), reply });
    clock.pass((3_600_000 / PATHS.length) * 0.9);
  }
  return asked;
}

type Trouble = "upstream" | "redis" | "budget";
const TROUBLES: readonly Trouble[] = ["upstream", "redis", "budget"];
const COMBINATIONS = [1, 2, 3, 4, 5, 6, 7].map((bits) => TROUBLES.filter((_, n) => bits & (1 << n)));

describe("with the upstream dead, Redis dead, the budget spent, and any of them together", () => {
  let redis: RedisServer;
  beforeAll(async () => void (redis = await startRedis()));
  afterAll(() => redis.close());

  it.each(COMBINATIONS.map((troubles) => [troubles.join(" and "), troubles] as const))(
    "%s: every URL asked in the last hour is answered, stale with its true age where it has expired",
    async (_name, troubles) => {
      await redis.restart().catch(() => undefined);
      await redis.command("FLUSHALL");
      const clock = createSteppingClock();
      const images = PATHS.filter((path) => path.includes("/cache/")).length;
      const isSpent = troubles.includes("budget");
      const gateway = await startGateway({
        clock,
        sandbox: { now: clock.now },
        env: {
          REDIS_URL: `redis://127.0.0.1:${redis.port}`,
          BUDGET: isSpent ? `${PATHS.length - images}/30d` : "1000/1m",
          CACHE_TTL: "listings=60s,sold=60s,areas=60s,records=60s,images=60s",
          CACHE_STALE_WHILE_REVALIDATE: "listings=0s,sold=0s,areas=0s,records=0s,images=0s",
        },
        settings: isSpent ? `budget: { images: "${images}/30d" }` : "{}",
      });
      const first = await askAll(gateway, clock);
      expect(first.map(({ reply }) => reply.status)).toEqual(
        PATHS.map((path) => (path === "/sold/1" ? 404 : 200)),
      );
      expect(gateway.sandbox.requests()).toHaveLength(PATHS.length);

      if (troubles.includes("upstream")) await gateway.sandbox.close();
      if (troubles.includes("redis")) await redis.kill();
      clock.pass(100_000);
      const isFetchable = !troubles.includes("upstream") && !isSpent;
      for (const { path, at, reply } of [...first, ...first]) {
        const again = await gateway.get(path);
        expect([path, again.status, again.text]).toEqual([path, reply.status, reply.text]);
        if (isFetchable) continue;
        const age = Math.floor((clock.now() - at) / 1000);
        expect([path, again.headers.age, cacheStatus(again)]).toEqual([
          path,
          String(age),
          expect.objectContaining({ hit: true, ttl: String(60 - age), detail: expect.anything() }),
        ]);
        expect(again.headers["cache-control"]).toBe("max-age=0");
      }
      if (!isFetchable) expect(gateway.sandbox.requests()).toHaveLength(PATHS.length);
    },
  );
});
