/**
 * The budget of a gateway over restarts: what was sent before still counts.
 */
import { describe, expect, it } from "vitest";

import { ask } from "../support/ask.ts";
import { setTimeout as lasting } from "node:timers/promises";
import { expectKept } from "../support/arrivals.ts";
import { redisForTest, urlOf } from "../support/redis.ts";
import { crowd, type Replica, startFleet } from "../support/fleet.ts";
import { systemClock } from "../../src/process/clock.ts";
import { EXACT_PAGES, startGateway, type TestGateway } from "../support/gateway.ts";
import { temporaryDirectory } from "../support/files.ts";

describe("the only gateway on a Redis", () => {
  it("continues at once when it is killed and started again at the same address", async () => {
    const redis = await redisForTest();
    const fleet = await startFleet({ REDIS_URL: urlOf(redis), BUDGET: "20/1m" });
    const isAnswered = async ({ url }: Replica, areaId: number): Promise<boolean> =>
      (await ask(`${url}/listings?areaId=${areaId}&limit=1`)).status === 200;
    const old = await fleet.start();
    await expect.poll(() => isAnswered(old, 1)).toBe(true);
    old.process.child.kill("SIGKILL");
    await old.process.ended;
    const next = await fleet.start({ ADMIN_PORT: new URL(old.admin).port });
    await expect.poll(() => isAnswered(next, 2)).toBe(true);
  });
});

/** Longer than a restart takes, so that what was sent before it matters. */
const WINDOW = { limit: 20, windowMs: 3_000 } as const;

describe("a gateway with its ledger in a file", () => {
  it("exceeds no limit when the clock is set forward and the gateway is then killed", async () => {
    let aheadMs = 0;
    const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
    const env = { ...EXACT_PAGES, DATA_DIR: temporaryDirectory(), BUDGET: "5/1m" };
    const statuses = async (gateway: TestGateway): Promise<number[]> => {
      const offsets = Array.from({ length: 6 }, () => ++asked);
      return await Promise.all(
        offsets.map(async (offset) => (await gateway.get(`/listings?limit=20&offset=${offset}`)).status),
      );
    };
    let asked = 0;
    const first = await startGateway({ env, clock });
    expect((await statuses(first)).toSorted((a, b) => a - b)).toEqual([200, 200, 200, 200, 200, 503]);
    aheadMs = 3_600_000;
    // The ledger gets nothing more than at a kill: each call is in it before it is sent.
    await first.stop();
    const second = await startGateway({ env, clock });
    expect(await statuses(second)).toEqual([503, 503, 503, 503, 503, 503]);
  });

  it("exceeds no limit when it is killed during a burst and started again", async () => {
    const fleet = await startFleet({ DATA_DIR: temporaryDirectory(), BUDGET: "20/3s" });
    const replicas = [await fleet.start()];
    const callers = crowd(() => replicas, 12);
    // Killed after this many more: in the middle of what a window has.
    for (const more of [7, 26]) {
      await fleet.sandbox.waitForRequests(fleet.arrivals().length + more);
      const [old] = replicas;
      old?.process.child.kill("SIGKILL");
      await old?.process.ended;
      replicas[0] = await fleet.start();
      const since = callers.statuses.length;
      await expect.poll(() => callers.statuses.slice(since)).toContain(200);
    }
    await lasting(WINDOW.windowMs);
    await callers.stop();
    expectKept(fleet.arrivals(), WINDOW);
  });
});
