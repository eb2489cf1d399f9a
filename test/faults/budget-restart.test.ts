/**
 * The budget of a gateway over restarts: what was sent before still counts.
 */
import { describe, expect, it } from "vitest";

import { ask } from "../support/ask.ts";
import { expectKept, expectServed, lasting, redisForTest, urlOf } from "../support/budget-watch.ts";
import { crowd, type Replica, startFleet } from "../support/fleet.ts";
import { temporaryDirectory } from "../support/sqlite.ts";

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
      await expectServed(callers);
    }
    await lasting(WINDOW.windowMs);
    await callers.stop();
    expectKept(fleet.arrivals(), WINDOW);
  });
});
