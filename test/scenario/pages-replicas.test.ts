/** Two replicas that share answers through Redis cut pages from the same blocks. */
import { expect, it } from "vitest";

import { cacheStatus } from "../support/ask.ts";
import { redisForTest } from "../support/redis.ts";
import { startGateway, startTwo } from "../support/gateway.ts";
import { pageOf } from "../support/upstream.ts";

const BLOCK = "limit=500&offset=0";

it("two replicas share blocks", async () => {
  const redis = await redisForTest();
  const [one, other] = await startTwo({ redis });
  const blocksAsked = (): string[] => {
    const asked = one.sandbox.requests().map(({ query }) => query);
    one.sandbox.clearRequests();
    return asked;
  };

  // Asked for different pages of one block at one time, they cost one call.
  const page = (offset: number): string => `/listings?areaId=2&limit=20&offset=${offset}`;
  one.sandbox.hold();
  const first = one.get(page(0));
  await one.sandbox.waitForRequests(1);
  const second = other.get(page(20));
  await expect.poll(() => other.metric("gateway_flights")).toBe(1);
  one.sandbox.release();
  expect((await first).text).toBe(pageOf(one.sandbox, page(0)));
  const before = (await second).text;
  expect(before).toBe(pageOf(one.sandbox, page(20)));
  expect(blocksAsked()).toEqual([`areaId=2&${BLOCK}`]);

  // One cuts pages from what the other one has stored, and knows from it what is behind the last record.
  const further = (offset: number): string => `/listings?areaId=1&limit=20&offset=${offset}`;
  await one.get(further(0));
  // It answers before it has written to Redis.
  await expect.poll(() => other.entryAt(further(0))).toMatchObject({ entry: { tier: "redis" } });
  const found = await other.get(further(40));
  expect([found.text, cacheStatus(found)["hit"]]).toEqual([pageOf(one.sandbox, further(40)), true]);
  expect((await other.get(further(1_500))).text).toBe(pageOf(one.sandbox, further(1_500)));
  expect(blocksAsked()).toEqual([`areaId=1&${BLOCK}`]);

  // A purge of a page at one gateway purges its block at both, and at one that has just started.
  one.sandbox.revise();
  expect((await one.admin("/cache/purge", `{"url":"${page(0)}","hard":true}`)).status).toBe(200);
  const late = await startGateway({ redis, beside: one });
  expect((await late.get(page(20))).text).not.toBe(before);
  await expect.poll(async () => (await other.get(page(20))).text).not.toBe(before);
  expect(blocksAsked()).toEqual([`areaId=2&${BLOCK}`]);
});
