/**
 * The budget of a gateway that keeps it alone, over restarts: what was sent before still counts.
 */
import { describe, it } from "vitest";

import { expectKept, expectServed, lasting } from "../support/budget-watch.ts";
import { crowd, startFleet } from "../support/fleet.ts";
import { temporaryDirectory } from "../support/sqlite.ts";

/** Longer than a restart takes, so that what was sent before it matters. */
const WINDOW = { limit: 20, windowMs: 3_000 } as const;

describe("a gateway that keeps its budget in a file", () => {
  it("and is killed in the middle of a burst overruns nothing when it is started again", async () => {
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
