import { expect, it } from "vitest";

import { EXACT_PAGES, startGateway } from "../support/gateway.ts";
import { cacheStatus } from "../support/ask.ts";
import { createSteppingClock } from "../support/stepping-clock.ts";

const PATH = "/listings?areaId=76&limit=5";

it("a refresh that fails is retried after growing pauses", async () => {
  const clock = createSteppingClock();
  const gateway = await startGateway({
    clock,
    env: EXACT_PAGES,
    settings: "upstream: { retryDelay: 1ms }\ncache: { staleWhileRevalidate: 1h }",
  });
  const { text } = await gateway.get(PATH);
  clock.pass(300_000);
  gateway.sandbox.revise();
  gateway.sandbox.clearRequests();
  gateway.sandbox.faults.add({ status: 500 });
  const expiredAt = clock.now();
  const details = new Set<unknown>();
  const askAfter = async (ms: number): Promise<void> => {
    clock.pass(ms);
    const reply = await gateway.get(PATH);
    expect([reply.status, reply.text]).toEqual([200, text]);
    details.add(cacheStatus(reply)["detail"]);
    await gateway.landed();
  };
  await askAfter(0);
  for (const seconds of [5, 10, 20, 40, 60, 60, 60]) {
    await askAfter(seconds * 1_000 - 1);
    await askAfter(1);
  }
  const triedAt = new Set(gateway.sandbox.requests().map(({ at }) => (at - expiredAt) / 1_000));
  expect([...triedAt]).toEqual([0, 5, 15, 35, 75, 135, 195, 255]);
  expect([...details]).toEqual(["stale-while-revalidate", "upstream-error"]);
  gateway.sandbox.faults.clear();
  await askAfter(60_000);
  expect((await gateway.get(PATH)).text).not.toBe(text);
});
