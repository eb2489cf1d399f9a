import { expect, it } from "vitest";

import { createFakeClock } from "../../support/fake-clock.ts";
import { startGateway } from "../../support/gateway.ts";
import { temporaryDirectory } from "../../support/files.ts";

const MINUTE_MS = 60_000;

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
