/** Two gateways are asked the same while the call is still queued in one of them. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import type { Reply } from "../support/ask.ts";
import type { TestGateway } from "../support/gateway.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { startTwo } from "../support/two-gateways.ts";

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());

/** Two gateways that share a budget. What waits for it waits for an hour. */
async function startSharing(budget: string, apps: string): Promise<readonly [TestGateway, TestGateway]> {
  await redis.command("FLUSHALL");
  return await startTwo(redis, { env: { BUDGET: budget, BUDGET_MAX_WAIT: "3h" }, settings: `apps: ${apps}` });
}

async function get(gateway: TestGateway, app: string, path: string, signal?: AbortSignal): Promise<Reply> {
  return await gateway.get(path, { headers: { "x-app-id": app }, ...(signal && { signal }) });
}

async function spentBy(gateway: TestGateway, app: string): Promise<number> {
  return await gateway.metric(`gateway_budget_spent_total{app="${app}",cause="miss"}`);
}

/** How many of a priority wait in a gateway's queue. */
async function queued(gateway: TestGateway, priority: string): Promise<number> {
  return await gateway.metric(`gateway_throttle_queue_length{priority="${priority}"}`);
}

/** A hog that has had its share of the hour, and all that it may borrow for now, and its next call, which waits. */
async function startWithHog(
  hangUp?: AbortSignal,
): Promise<{ gateways: readonly [TestGateway, TestGateway]; asked: Promise<Reply>; calls: number }> {
  const gateways = await startSharing("22/1h", "[{ id: hog }, { id: quiet }, { id: third }]");
  const [first] = gateways;
  for (const app of ["quiet", "third"]) expect((await get(first, app, `/areas?q=${app}`)).status).toBe(200);
  let calls = 0;
  const hasty = { headers: { "x-app-id": "hog", "x-request-deadline-ms": "1000" } };
  while ((await first.get(`/areas?q=${calls}`, hasty)).status === 200) calls++;
  const asked = get(first, "hog", "/areas?q=a", hangUp);
  asked.catch(() => undefined);
  await expect.poll(() => queued(first, "interactive")).toBe(1);
  return { gateways, asked, calls };
}

describe("a quiet app that asks one replica for an answer that a greedy app waits for at another one", () => {
  it("is answered when the greedy app's caller hangs up", async () => {
    const hangUp = new AbortController();
    const { gateways, calls } = await startWithHog(hangUp.signal);
    const [first, second] = gateways;
    const reply = get(second, "quiet", "/areas?q=a");
    hangUp.abort();
    expect((await reply).status).toBe(200);
    expect(first.sandbox.requests()).toHaveLength(calls + 3);
    expect(await spentBy(first, "hog")).toBe(calls);
  });
});

it("a miss reads Redis twice: before the claim, and after it for the answer of an earlier flight", async () => {
  const [first] = await startSharing("1000/1m", "[]");
  expect((await first.get("/areas?q=nacka")).status).toBe(200);
  const count = (operation: string): Promise<number> =>
    first.metric(`gateway_store_operation_duration_seconds_count{store="redis",operation="${operation}"}`);
  // The answer is stored after it is sent.
  await expect.poll(() => count("set")).toBe(1);
  expect([await count("get"), await count("claim")]).toEqual([2, 1]);
});
