/** What a restart keeps, and what a kill in the middle of writing leaves behind. */
import { describe, expect, it } from "vitest";

import type { StoreEvent } from "../../src/cache/store/port.ts";
import type { Purge } from "../../src/cache/store/purges.ts";
import { cacheStatus } from "../support/ask.ts";
import { entryWith, keyOf } from "../support/entries.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { temporaryDirectory } from "../support/files.ts";
import { crowd, startFleet } from "../support/fleet.ts";
import { runProgram } from "../support/process.ts";
import { openSqliteStore } from "../support/sqlite.ts";

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
      const store = openSqliteStore(process.argv[1], { warnings: { push: console.log } });
      console.log(await store.get(${JSON.stringify(keyOf("kept"))}));
      await store.close();`;
    const second = runProgram(process.execPath, ["--input-type=module", "-e", open, directory]);
    await second.says(/waiting for it to end/);
    await first.close();
    expect(await second.ended).toBe(0);
    expect(second.output()).toMatch(/bodyBytes: 4/);
  });

  it("ends with exit code 1 and a reason if the first one keeps running", async () => {
    const fleet = await startFleet({ DATA_DIR: temporaryDirectory() });
    const first = await fleet.start();
    const second = fleet.begin();
    expect(await second.ended).toBe(1);
    expect(second.output()).toContain("waiting for it to end");
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
