import { expect, it } from "vitest";

import { createMemoryStore } from "../../../src/cache/store/memory.ts";
import { sweepEveryMinute } from "../../../src/cache/sweep.ts";
import { entryWith, keyOf } from "../../support/entries.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { startGateway } from "../../support/gateway.ts";
import { temporaryDirectory } from "../../support/files.ts";

const MINUTE_MS = 60_000;

it("sweeping of one store continues while another one is out of order", async () => {
  const clock = createFakeClock();
  const store = createMemoryStore(80_000, clock);
  const broken = { sweep: () => Promise.reject(new Error("out of order")) };
  const stop = sweepEveryMinute([broken, store], clock);
  store.put(keyOf("sold/1"), entryWith("{}", clock.now(), { keepUntil: clock.now() + 90_000 }));
  await clock.advance(2 * MINUTE_MS);
  stop();
  expect(store.stats().entries).toBe(0);
});

it("a gateway removes expired entries from memory and disk without any request", async () => {
  const clock = createFakeClock(Date.now());
  const gateway = await startGateway({
    clock,
    sandbox: { now: clock.now },
    env: { DATA_DIR: temporaryDirectory() },
    settings: "cache: { retention: 10m }",
  });
  const cached = async (): Promise<number[]> => [
    await gateway.metric('gateway_cache_entries{tier="memory"}'),
    await gateway.metric('gateway_cache_entries{tier="sqlite"}'),
  ];
  await gateway.get("/areas?q=Nacka");
  await expect.poll(cached).toEqual([1, 1]);
  await clock.advance(10 * MINUTE_MS - 1);
  expect(await cached()).toEqual([1, 1]);
  await clock.advance(MINUTE_MS);
  await expect.poll(cached).toEqual([0, 0]);
});
