import { describe, expect, it, onTestFinished } from "vitest";

import { createMemoryStore } from "../../../src/cache/store/memory.ts";
import { createSweep } from "../../../src/cache/sweep.ts";
import { StoreUnavailable } from "../../../src/cache/store/port.ts";
import { entryWith, keyOf } from "../../support/entries.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { startGateway } from "../../support/gateway.ts";
import { temporaryDirectory } from "../../support/files.ts";

const MINUTE_MS = 60_000;

describe("sweeping", () => {
  it("removes entries within a minute after keepUntil", async () => {
    const clock = createFakeClock();
    const store = createMemoryStore(80_000, clock);
    const sweep = createSweep([store], clock);
    sweep.start();
    for (const nth of [1, 2, 3]) {
      const keepUntil = clock.now() + nth * MINUTE_MS;
      store.put(keyOf(`sold/${nth}`), entryWith("{}", clock.now(), { keepUntil }));
    }
    const cached: number[] = [];
    for (let minute = 1; minute <= 3; minute++) {
      await clock.advance(MINUTE_MS);
      cached.push(store.stats().entries);
      if (minute === 2) sweep.stop();
    }
    expect(cached).toEqual([2, 1, 1]);
    expect(clock.pending).toBe(0);
  });

  it("of one store continues while another one is down", async () => {
    const clock = createFakeClock();
    const store = createMemoryStore(80_000, clock);
    let tries = 0;
    const broken = {
      async sweep() {
        tries++;
        throw new StoreUnavailable("out of order");
      },
    };
    const sweep = createSweep([broken, store], clock);
    sweep.start();
    onTestFinished(sweep.stop);
    store.put(keyOf("sold/1"), entryWith("{}", clock.now(), { keepUntil: clock.now() + 90_000 }));
    await clock.advance(MINUTE_MS);
    expect([store.stats().entries, tries]).toEqual([1, 1]);
    await clock.advance(MINUTE_MS);
    expect([store.stats().entries, tries]).toEqual([0, 2]);
  });

  it("ends when it is stopped in the middle", async () => {
    const clock = createFakeClock();
    const door = Promise.withResolvers<void>();
    const sweep = createSweep([{ sweep: () => door.promise }], clock);
    sweep.start();
    await clock.advance(MINUTE_MS);
    sweep.stop();
    door.resolve();
    await clock.advance(10 * MINUTE_MS);
    expect(clock.pending).toBe(0);
  });
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
