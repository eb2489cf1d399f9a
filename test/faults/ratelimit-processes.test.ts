/** Replicas share limits through a real Redis, counted at the upstream, while processes are killed, frozen and started. */
import { setTimeout as lasting } from "node:timers/promises";

import { expect, it } from "vitest";

import { expectKept } from "../support/arrivals.ts";
import { crowd, type Replica, startFleet } from "../support/fleet.ts";
import { expectShared, startTwo } from "../support/gateway.ts";
import { redisForTest } from "../support/redis.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

const LIMIT = 40;
/** The limiter counts calls for longer if a command may take longer. */
const settings = "redis: { timeout: 250ms }";
/** A window that does not end during a test, so that the number of permits does not depend on the speed of the machine. */
const LONG = { BUDGET: `${LIMIT}/1m`, REPLICAS: "4" };

it("no limit is exceeded when replicas are killed, frozen and restarted", { timeout: 180_000 }, async () => {
  const env = { BUDGET: `${LIMIT}/1s`, BUDGET_MAX_WAIT: "60s", REPLICAS: "3" };
  const fleet = await startFleet(env, { redis: await redisForTest(), settings });
  const [killed, frozen, third] = await Promise.all([fleet.start(), fleet.start(), fleet.start()]);
  await expectShared(killed, frozen, third);
  let running = [killed, frozen, third];
  crowd(() => running, 6);
  await fleet.arrive(LIMIT);
  running = [third];
  void killed.kill("SIGKILL");
  void frozen.kill("SIGSTOP");
  running = [third, await fleet.start()];
  await fleet.arrive(LIMIT);
  await lasting(1_500);
  void frozen.kill("SIGCONT");
  running.push(frozen);
  await fleet.arrive(2 * LIMIT);
  expectKept(fleet.arrivals(), { limit: LIMIT, windowMs: 1_000 });
});

it("one busy replica beside two idle ones uses all but their own purses, also after a kill and a restart", async () => {
  const redis = await redisForTest();
  const [idle] = await startTwo({ redis, env: LONG });
  const fleet = await startFleet(LONG, { redis, beside: idle });
  const start = async (): Promise<Replica> => {
    const replica = await fleet.start();
    await expectShared(replica);
    return replica;
  };
  let busy = await start();
  const callers = crowd(() => [busy], 1);
  await expect.poll(callers.answered).toBeGreaterThan(9);
  void busy.kill("SIGKILL");
  busy = await start();
  // The idle replicas keep one permit each. The killed one may have had one unused permit.
  await fleet.sandbox.waitForRequests(LIMIT - 3);
  expect(fleet.arrivals().length).toBeLessThanOrEqual(LIMIT);
});

it.each(["restarts with all its data", "fails over to a current replica"])(
  "when Redis %s, nothing closes",
  async (how) => {
    const [redis, copy] = [await redisForTest(), await redisForTest()];
    const proxy = await startTcpProxy(redis.port);
    const [first, second] = await startTwo({ redis: proxy, env: LONG, settings });
    if (how.startsWith("restarts")) {
      await redis.command("SHUTDOWN", "SAVE").catch(() => undefined);
      await redis.kill();
      await redis.restart();
    } else {
      await copy.command("REPLICAOF", "127.0.0.1", redis.port);
      await expect.poll(async () => String(await redis.command("ROLE"))).toContain(String(copy.port));
      // Redis accepts no writes until the replica has them all.
      await redis.command("FAILOVER", "TO", "127.0.0.1", copy.port);
      await expect.poll(async () => String(await copy.command("ROLE"))).toContain("master");
      proxy.move(copy.port);
    }
    // The own purse pays for one call, and the shared purse for the other. So each replica is connected again before the crowd
    // comes. If a command fails later, its permit is kept for callers that were told to come back, and nobody uses it.
    for (const gateway of [first, second])
      for (const payer of ["own", "shared"])
        await expect
          .poll(async () => (await gateway.get(`/areas?q=${payer}${gateway.port}`)).status)
          .toBe(200);
    crowd(() => [first, second], 4);
    // Two of four slots are free, each with a purse of one call.
    await first.sandbox.waitForRequests(LIMIT - 2);
    for (const { metric } of [first, second]) expect(await metric("gateway_budget_data_lost_total")).toBe(0);
  },
);
