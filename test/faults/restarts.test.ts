/** Gateways that restart, as planned or after a kill: no request fails, no limit is exceeded, and nothing stored is lost. */
import { setTimeout as lasting } from "node:timers/promises";

import { describe, expect, it, onTestFinished } from "vitest";

import { type StoreEvent } from "../../src/cache/store/port.ts";
import { type Purge } from "../../src/cache/store/purge-marks.ts";
import { systemClock } from "../../src/process/clock.ts";
import { expectKept } from "../support/arrivals.ts";
import { cacheStatus } from "../support/ask.ts";
import { entryWith, keyOf } from "../support/entries.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { temporaryDirectory } from "../support/files.ts";
import { crowd, type Replica, startFleet } from "../support/fleet.ts";
import { expectShared, startGateway, type TestGateway } from "../support/gateway.ts";
import { runProgram } from "../support/process.ts";
import { redisForTest } from "../support/redis.ts";
import { openSqliteStore } from "../support/sqlite.ts";

it("a rolling restart of two processes under load fails no request and exceeds no limit", async () => {
  const fleet = await startFleet(
    { BUDGET: "40/1s", REPLICAS: "2", STOP_DELAY: "1s" },
    { redis: await redisForTest(), settings: "redis: { timeout: 1s }" },
  );
  /** What a load balancer knows: it asks each replica for its /readyz now and then. */
  const known = new Map<Replica, boolean>();
  const check = async (replica: Replica): Promise<void> => {
    const reply = await replica.admin("/readyz").catch(() => undefined);
    if (known.has(replica)) known.set(replica, reply?.status === 200);
  };
  const asking = setInterval(() => [...known.keys()].forEach(check), 100);
  onTestFinished(() => clearInterval(asking));
  const ready = (): Replica[] => [...known].flatMap(([replica, isReady]) => (isReady ? replica : []));

  const replicas = await Promise.all([fleet.start(), fleet.start()]);
  await expectShared(...replicas);
  for (const replica of replicas) known.set(replica, false);
  await expect.poll(ready).toHaveLength(2);
  const callers = crowd(ready, 5);
  const served = async (): Promise<void> => {
    const before = callers.answered();
    await expect.poll(callers.answered).toBeGreaterThan(before + 10);
  };
  await served();
  for (const old of replicas) {
    expect(await old.kill("SIGTERM")).toBe(0);
    known.delete(old);
    await served();
    known.set(await fleet.start(), false);
    await expect.poll(ready).toHaveLength(2);
    await served();
  }
  await callers.stop();
  expect(callers.problems).toEqual([]);
  expectKept(fleet.arrivals(), { limit: 40, windowMs: 1_000 });
});

/** Longer than a restart takes, so that calls before the restart still count after it. */
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
    // It is killed after this many more calls, when a window is partly spent.
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

const DAY_MS = 86_400_000;

it("a gateway that is killed in the middle of writing loses no call, no purge and no answer", async () => {
  const env = { DATA_DIR: temporaryDirectory(), BUDGET: "100000/1d", BUDGET_SPACING: "0s" };
  const fleet = await startFleet(env);
  const killed = await fleet.start();
  const paths = Array.from({ length: 10 }, (_, n) => `/areas?q=kept-${n}`);
  for (const path of paths) expect((await killed.get(path)).status).toBe(200);
  // Callers get an answer before it is in the file.
  await killed.landed();
  const purge = JSON.stringify({ url: paths[0], hard: true });
  expect((await killed.admin("/cache/purge", purge)).status).toBe(200);
  const callers = crowd(() => [killed], 4);
  await fleet.arrive(40);
  await killed.kill("SIGKILL");
  await callers.stop();
  const calls = fleet.arrivals().length;

  const next = await fleet.start();
  const usage = await next.shows("/usage?from=-1h");
  expect(usage.totals.sends).toBeGreaterThanOrEqual(calls);
  expect(usage.windows[0]).toMatchObject({ kept: true });
  for (const path of paths) {
    const { hit = false } = cacheStatus(await next.get(path));
    expect([path, hit]).toEqual([path, path !== paths[0]]);
  }
});

describe("a second process on the same directory", () => {
  it("waits for the first to end, and uses its data", async () => {
    const directory = temporaryDirectory();
    const first = openSqliteStore(directory);
    await first.set(keyOf("kept"), entryWith("kept", Date.now()));
    const open = `
      import { openSqliteStore } from "./test/support/sqlite.ts";
      console.log("opens");
      const store = openSqliteStore(process.argv[1]);
      console.log(await store.get(${JSON.stringify(keyOf("kept"))}));
      await store.close();`;
    const second = runProgram(process.execPath, ["--input-type=module", "-e", open, directory]);
    await second.says(/opens/);
    await first.close();
    expect(await second.ended).toBe(0);
    expect(second.output()).toMatch(/bodyBytes: 4/);
  });

  it("ends with exit code 1 and a reason if the first one keeps running", async () => {
    const fleet = await startFleet({ DATA_DIR: temporaryDirectory() });
    const first = await fleet.start();
    const second = fleet.begin();
    expect(await second.ended).toBe(1);
    expect(second.output()).toMatch(/DATA_DIR.*another process uses .*sqlite/);
    expect((await first.get("/areas?q=nacka")).status).toBe(200);
  });
});

it("the purge epoch never goes back, also if the clock does", async () => {
  const directory = temporaryDirectory();
  const clock = createFakeClock();
  const first = openSqliteStore(directory, { clock, retentionMs: 1_000 });
  const { epoch } = await first.purge({ kind: "all" }, false);
  await first.close();
  clock.set(clock.now() - 30 * DAY_MS);
  const second = openSqliteStore(directory, { clock, retentionMs: 1_000 });
  expect((await second.purge({ kind: "all" }, false)).epoch).toBeGreaterThan(epoch);
  clock.set(clock.now() + 60 * DAY_MS);
  const last = await second.purge({ kind: "all" }, true);
  const events: StoreEvent[] = [];
  second.onEvent((event) => events.push(event));
  const past: readonly Purge[] = events.flatMap((event) => (event.kind === "purged" ? event.purges : []));
  expect(past).toEqual([last]);
  await second.close();
});
