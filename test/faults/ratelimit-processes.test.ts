/** Replicas share limits through a real Redis, counted at the upstream, while processes are killed, frozen and started. */
import { setTimeout as lasting } from "node:timers/promises";

import { expect, it } from "vitest";

import { expectKept } from "../support/arrivals.ts";
import { fileWith } from "../support/files.ts";
import { crowd, type Replica, startFleet } from "../support/fleet.ts";
import { redisForTest, urlOf } from "../support/redis.ts";
import { expectShared, startTwo } from "../support/two-gateways.ts";

const LIMIT = 40;
/** The limiter counts calls for longer if a command may take longer. */
const SETTINGS = "redis: { timeout: 250ms }";
/** A window that does not end during a test, so that the number of permits does not depend on the speed of the machine. */
const LONG = { BUDGET: `${LIMIT}/1m`, REPLICAS: "4" };

it("no limit is exceeded when the processes of replicas are killed, frozen and started again", async () => {
  const CONFIG_FILE = fileWith(SETTINGS);
  const fleet = await startFleet({
    BUDGET: `${LIMIT}/1s`,
    BUDGET_MAX_WAIT: "60s",
    REPLICAS: "3",
    CONFIG_FILE,
    REDIS_URL: urlOf(await redisForTest()),
  });
  const arrive = (count: number): Promise<void> =>
    fleet.sandbox.waitForRequests(fleet.arrivals().length + count);
  const [killed, frozen, third] = await Promise.all([fleet.start(), fleet.start(), fleet.start()]);
  await expectShared(killed, frozen, third);
  let running = [killed, frozen, third];
  crowd(() => running, 6);
  await arrive(LIMIT);
  running = [third];
  killed.process.child.kill("SIGKILL");
  frozen.process.child.kill("SIGSTOP");
  running = [third, await fleet.start()];
  await arrive(LIMIT);
  await lasting(1_500);
  frozen.process.child.kill("SIGCONT");
  running.push(frozen);
  await arrive(2 * LIMIT);
  expectKept(fleet.arrivals(), { limit: LIMIT, windowMs: 1_000 });
});

it("one busy replica beside two idle ones uses all but their own purses, also after a kill and a restart", async () => {
  const redis = await redisForTest();
  const [idle] = await startTwo({ redis, env: LONG });
  const CONFIG_FILE = fileWith("redis: { timeout: 10s }");
  const fleet = await startFleet({
    ...LONG,
    CONFIG_FILE,
    REDIS_URL: urlOf(redis),
    UPSTREAM_URL: idle.sandboxUrl,
  });
  const start = async (): Promise<Replica> => {
    const replica = await fleet.start();
    await expectShared(replica);
    return replica;
  };
  let busy = await start();
  const callers = crowd(() => [busy], 1);
  await expect.poll(callers.answered).toBeGreaterThan(9);
  busy.process.child.kill("SIGKILL");
  busy = await start();
  // The idle replicas keep one permit each. The killed one may have had one unused permit.
  await idle.sandbox.waitForRequests(LIMIT - 3);
  expect(idle.sandbox.requests().length).toBeLessThanOrEqual(LIMIT);
});

it("when Redis restarts with all its data, nothing closes", async () => {
  const redis = await redisForTest();
  const [first, second] = await startTwo({ redis, env: LONG, settings: SETTINGS });
  await redis.command("SHUTDOWN", "SAVE").catch(() => undefined);
  await redis.kill();
  await redis.restart();
  crowd(() => [first, second], 4);
  // Two of four slots are free, each with a purse of one call.
  await first.sandbox.waitForRequests(LIMIT - 2);
  for (const { metric } of [first, second]) expect(await metric("gateway_budget_data_lost_total")).toBe(0);
});
