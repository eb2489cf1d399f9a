/** Replicas share limits through a real Redis, counted at the upstream, while Redis is away or loses data. */
import { expect, it } from "vitest";

import { expectKept } from "../support/arrivals.ts";
import { crowd } from "../support/fleet.ts";
import { expectShared, startGateway, startTwo, type TestGateway } from "../support/gateway.ts";
import { redisForTest } from "../support/redis.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

const LIMIT = 40;
const env = { BUDGET: `${LIMIT}/1s`, BUDGET_MAX_WAIT: "60s", REPLICAS: "3" };
/** The limiter counts calls for longer if a command may take longer. */
const settings = "redis: { timeout: 250ms }\nbudget: { degradedReserve: 0.3 }";

async function expectDegraded(...gateways: readonly TestGateway[]): Promise<void> {
  for (const { budget } of gateways) await expect.poll(async () => (await budget()).mode).toBe("degraded");
}

/** Three busy replicas. `proxy` is between Redis and the first one. */
async function startBusy() {
  const redis = await redisForTest();
  const proxy = await startTcpProxy(redis.port);
  const options = { redis, env, settings };
  const first = await startGateway({ ...options, redis: proxy });
  const gateways = [first];
  for (const _ of [2, 3]) gateways.push(await startGateway({ ...options, beside: first }));
  const { requests, waitForRequests } = first.sandbox;
  /** Resolves when so many more calls have arrived. */
  const arrive = (count: number): Promise<void> => waitForRequests(requests().length + count);
  /** They continue, and have exceeded no limit. */
  async function expectAllKept(): Promise<void> {
    await arrive(LIMIT);
    expectKept(
      requests().map(({ at }) => at),
      { limit: LIMIT, windowMs: 1_000 },
    );
  }
  await expectShared(...gateways);
  crowd(() => gateways, 6);
  await arrive(LIMIT);
  return { redis, proxy, gateways, arrive, expectAllKept };
}

it(
  "no limit is exceeded when Redis is frozen, emptied, or killed and started again empty",
  { timeout: 120_000 },
  async () => {
    const { redis, gateways, arrive, expectAllKept } = await startBusy();
    redis.freeze();
    await expectDegraded(...gateways);
    // Each replica goes on with its own purse.
    await arrive(6);
    redis.thaw();
    await expectShared(...gateways);
    await arrive(LIMIT);
    await redis.command("FLUSHALL");
    await arrive(LIMIT);
    await redis.kill();
    await arrive(6);
    await redis.restart();
    await expectAllKept();
  },
);

it.each(["shared", "ledger"])("no limit is exceeded when Redis evicts the calls (%s)", async (key) => {
  const { redis, gateways, expectAllKept } = await startBusy();
  // The key is absent while only own purses pay.
  const keys = (): Promise<unknown> => redis.command("KEYS", `*{limiter:api}:${key}`);
  await expect.poll(async () => redis.command("DEL", String(await keys()))).toBe(1);
  await expect.poll(() => gateways[0]?.metric("gateway_budget_data_lost_total")).toBeGreaterThan(0);
  await expectAllKept();
});

it.each(["starts again with an older copy", "takes over the data of a stale server"])(
  "no limit is exceeded when Redis, which refuses INFO, %s",
  async (how) => {
    const [redis, stale] = [await redisForTest(), await redisForTest()];
    const refuseInfo = (): Promise<unknown> => redis.command("ACL", "SETUSER", "default", "-info");
    await refuseInfo();
    // The window does not end during the test.
    const gateways = await startTwo({ redis, env: { BUDGET: `${LIMIT}/1m` }, settings });
    await redis.command("SAVE");
    await stale.command("REPLICAOF", "127.0.0.1", redis.port);
    await expect.poll(() => stale.command("DBSIZE")).toBeGreaterThan(0);
    await stale.command("REPLICAOF", "NO", "ONE");
    const [{ sandbox, metric }] = gateways;
    crowd(() => gateways, 6);
    await sandbox.waitForRequests(LIMIT);
    if (how.startsWith("starts")) {
      await redis.kill();
      await redis.restart();
      await refuseInfo();
    } else {
      await redis.command("REPLICAOF", "127.0.0.1", stale.port);
      await expect.poll(async () => String(await redis.command("ROLE"))).toContain("connected");
      await redis.command("REPLICAOF", "NO", "ONE");
    }
    const isOver = (): boolean => sandbox.requests().length > LIMIT;
    await expect
      .poll(async () => isOver() || (await metric("gateway_budget_data_lost_total")) > 0)
      .toBe(true);
    expect(sandbox.requests()).toHaveLength(LIMIT);
  },
);

it("a replica that is cut off from Redis continues beside the others, exceeds no limit, and joins again", async () => {
  const { proxy, gateways, arrive, expectAllKept } = await startBusy();
  const [cutOff = expect.unreachable(), ...others] = gateways;
  await expectShared(cutOff);
  proxy.blackHole();
  await expectDegraded(cutOff);
  // Long enough for the replica to spend its part beside the others.
  await arrive(2 * LIMIT);
  proxy.heal();
  proxy.cut();
  await expectShared(cutOff, ...others);
  await expectAllKept();
});
