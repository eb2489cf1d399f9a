/**
 * Gateways that share a file and nothing else, under saturation, as the upstream counts it: together they
 * keep one budget, whoever of them is killed or replaced, and hardly anything of it is left unused.
 */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

import { describe, expect, it } from "vitest";

import { ask } from "../support/ask.ts";
import { expectKept, expectServed, lasting, startMany, usedFrom } from "../support/budget-watch.ts";
import { crowd, type Fleet, startFleet, type Replica } from "../support/fleet.ts";
import { SQLITE_FILE, temporaryDirectory } from "../support/sqlite.ts";

const SECOND = { limit: 20, windowMs: 1_000 } as const;
const THREE_SECONDS = { limit: 20, windowMs: 3_000 } as const;

const onOneFile = (BUDGET: string) => startFleet({ DATA_DIR: temporaryDirectory(), BUDGET });

/** A process says what all on its file have sent, and that the limits were kept. */
async function expectUsage(fleet: Fleet, { admin }: Replica): Promise<void> {
  const usage = async (): Promise<{ totals: { sends: number }; windows: { kept: boolean }[] }> =>
    Object((await ask(`${admin}/usage`)).json());
  // What nobody waited for any more may still be on its way.
  await expect.poll(async () => (await usage()).totals.sends - fleet.arrivals().length).toBe(0);
  expect((await usage()).windows.filter(({ kept }) => !kept)).toEqual([]);
}

describe("the budget of gateways on one file, saturated", () => {
  it.each([2, 3])("for ten windows, is used up and not overrun by %i processes", async (count) => {
    const fleet = await onOneFile("20/1s");
    const replicas = await startMany(fleet, count);
    const callers = crowd(() => replicas, 15);
    await fleet.sandbox.waitForRequests(1);
    await lasting(10.3 * SECOND.windowMs);
    await callers.stop();
    const arrivals = fleet.arrivals();
    expectKept(arrivals, SECOND);
    expect(usedFrom(arrivals, SECOND, 0, 10)).toBeGreaterThanOrEqual(0.9);
    for (const replica of replicas) await expectUsage(fleet, replica);
  });

  it("keeps two windows at once", async () => {
    const fleet = await onOneFile("8/1s,14/3s");
    const replicas = await startMany(fleet, 2);
    const callers = crowd(() => replicas, 12);
    await fleet.sandbox.waitForRequests(1);
    await lasting(6_300);
    await callers.stop();
    const arrivals = fleet.arrivals();
    expectKept(arrivals, { limit: 8, windowMs: 1_000 });
    expectKept(arrivals, { limit: 14, windowMs: 3_000 });
    expect(usedFrom(arrivals, { limit: 14, windowMs: 3_000 }, 0, 2)).toBeGreaterThanOrEqual(0.9);
  });

  it("is not overrun where the upstream is slow to answer", async () => {
    const fleet = await onOneFile("20/1s");
    fleet.sandbox.faults.add({ latencyMs: 300 });
    const replicas = await startMany(fleet, 2);
    const callers = crowd(() => replicas, 15);
    await fleet.sandbox.waitForRequests(1);
    await lasting(5 * SECOND.windowMs);
    await callers.stop();
    expectKept(fleet.arrivals(), SECOND);
  });

  it("is not overrun when one of two is killed in the middle of a burst, and another takes its place", async () => {
    const fleet = await onOneFile("20/3s");
    const replicas = await startMany(fleet, 2);
    const callers = crowd(() => replicas, 12);
    // Killed after this many more: in the middle of what a window has.
    for (const [index, more] of [7, 26, 13].entries()) {
      await fleet.sandbox.waitForRequests(fleet.arrivals().length + more);
      const old = replicas[index % 2];
      old?.process.child.kill("SIGKILL");
      await old?.process.ended;
      replicas[index % 2] = await fleet.start();
      await expectServed(callers);
    }
    await lasting(THREE_SECONDS.windowMs);
    await callers.stop();
    expectKept(fleet.arrivals(), THREE_SECONDS);
  });

  it("is used up and not overrun while they are replaced one after the other", async () => {
    const fleet = await onOneFile("20/1s");
    const replicas = await startMany(fleet, 2);
    const callers = crowd(() => replicas, 12);
    await fleet.sandbox.waitForRequests(1);
    const began = Date.now();
    for (const index of [0, 1]) {
      const [next, old] = [await fleet.start(), replicas[index]];
      replicas[index] = next;
      old?.process.child.kill("SIGTERM");
      expect(await old?.process.ended).toBe(0);
      await lasting(SECOND.windowMs);
    }
    const windows = Math.floor((Date.now() - began) / SECOND.windowMs);
    await callers.stop();
    const arrivals = fleet.arrivals();
    expectKept(arrivals, SECOND);
    expect(usedFrom(arrivals, SECOND, began, windows)).toBeGreaterThanOrEqual(0.9);
    for (const replica of replicas) await expectUsage(fleet, replica);
  });

  it("is not overrun while somebody else has the file locked, and spent again when it is let go", async () => {
    const DATA_DIR = temporaryDirectory();
    const fleet = await startFleet({ DATA_DIR, BUDGET: "20/1s" });
    const replicas = await startMany(fleet, 2);
    const callers = crowd(() => replicas, 12);
    const somebody = new DatabaseSync(join(DATA_DIR, SQLITE_FILE));
    for (let times = 0; times < 3; times++) {
      await fleet.sandbox.waitForRequests(fleet.arrivals().length + 13);
      somebody.exec("PRAGMA busy_timeout = 1000; BEGIN IMMEDIATE");
      await lasting(1.3 * SECOND.windowMs);
      somebody.exec("ROLLBACK");
      await expectServed(callers);
    }
    somebody.close();
    await callers.stop();
    expectKept(fleet.arrivals(), SECOND);
    for (const { process } of replicas) expect(process.output()).not.toContain("may be forgotten");
  });

  it("is one budget from the first place on, with different callers at each of them", async () => {
    const fleet = await onOneFile("6/1h");
    const replicas = await startMany(fleet, 3);
    const statuses: number[] = [];
    for (let round = 0; round < 9; round++) {
      const { url } = replicas[round % 3] ?? expect.unreachable();
      statuses.push((await ask(`${url}/areas?q=round-${round}`)).status);
    }
    expect(statuses).toEqual([...Array(6).fill(200), ...Array(3).fill(503)]);
    expect(fleet.arrivals()).toHaveLength(6);
    for (const { admin } of replicas) {
      const { api } = Object((await ask(`${admin}/budget`)).json());
      expect(api.windows).toMatchObject([{ spent: 6, remaining: 0 }]);
    }
  });
});
