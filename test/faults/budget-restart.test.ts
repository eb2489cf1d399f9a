/** The budget of a gateway over restarts: what was sent before still counts. */
import { describe, expect, it } from "vitest";

import { setTimeout as lasting } from "node:timers/promises";
import { expectKept } from "../support/arrivals.ts";
import { crowd, startFleet } from "../support/fleet.ts";
import { systemClock } from "../../src/process/clock.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { temporaryDirectory } from "../support/files.ts";

/** Longer than a restart takes, so that what was sent before it matters. */
const WINDOW = { limit: 20, windowMs: 3_000 } as const;

describe("a gateway with its ledger in a file", () => {
  it("exceeds no limit when the clock is set forward and the gateway is then killed", async () => {
    let aheadMs = 0;
    const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
    const env = { DATA_DIR: temporaryDirectory(), BUDGET: "5/1m" };
    let asked = 0;
    const statuses = ({ get }: TestGateway): Promise<number[]> =>
      Promise.all(Array.from({ length: 6 }, async () => (await get(`/areas?q=${++asked}`)).status));
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
      await fleet.arrive(more);
      await replicas[0]?.kill("SIGKILL");
      replicas[0] = await fleet.start();
      const since = callers.answered();
      await expect.poll(callers.answered).toBeGreaterThan(since);
    }
    await lasting(WINDOW.windowMs);
    await callers.stop();
    expectKept(fleet.arrivals(), WINDOW);
  });
});
