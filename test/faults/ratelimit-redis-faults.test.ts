/** Processes that share limits while their Redis fails, counted at the upstream. */
import { expect, it } from "vitest";

import { mostWithin } from "../support/arrivals.ts";
import { redisForTest } from "../support/budget-watch.ts";
import { type LimiterStage, stageLimiters } from "../support/limiter-stage.ts";
import { WRONG_CLOCK, type WrongClock } from "../support/shared-limiter.ts";

const LIMIT = 40;
const WINDOW_MS = 1_000;

const stage = (): Promise<LimiterStage> => stageLimiters(LIMIT, WINDOW_MS);

const expectKept = ({ arrivals }: LimiterStage, windowMs = WINDOW_MS): void =>
  expect(mostWithin(arrivals, windowMs)).toBeLessThanOrEqual(LIMIT);

/** A window that does not end during a test, so that the number of permits does not depend on the speed of the machine. */
const windowMs = 60_000;

it("no limit is exceeded when Redis is frozen, emptied, or killed and restarted empty, and all replicas continue", async () => {
  const all = await stage();
  const workers = [all.start(), all.start(), all.start()];
  const { redis } = all;
  await all.arrive(LIMIT);
  redis.freeze();
  await Promise.all(workers.map(({ says }) => says(/degraded/)));
  // Each replica goes on with its own purse.
  await all.arrive(6);
  redis.thaw();
  await Promise.all(workers.map(({ says }) => says(/degraded[^]*shared/)));
  await all.arrive(LIMIT);
  await redis.command("FLUSHALL");
  await all.arrive(2 * LIMIT);
  await redis.kill();
  await all.arrive(6);
  await redis.restart();
  await all.arrive(2 * LIMIT);
  expectKept(all);
});

it("no limit is exceeded when Redis' clock runs three times as fast, and jumps forward and back", async () => {
  const all = await stage();
  const setClock = (clock: WrongClock): Promise<unknown> =>
    all.redis.command("SET", WRONG_CLOCK, JSON.stringify(clock));
  for (let replica = 0; replica < 3; replica++) all.start();
  await all.arrive(LIMIT);
  const since = Date.now();
  for (const [rate, aheadMs] of [
    [3, 0],
    [1, 5_000],
    [1, 10_000],
    [1, -3_600_000],
    [0.9, 0],
  ] as const) {
    await setClock({ rate, since, aheadMs });
    await all.arrive(2 * LIMIT);
  }
  expectKept(all);
});

it("no limit is exceeded when Redis, which refuses INFO, restarts with older data, or evicts a key", async () => {
  const all = await stage();
  const refuseInfo = (): Promise<unknown> => all.redis.command("ACL", "SETUSER", "default", "-info");
  await refuseInfo();
  for (let replica = 0; replica < 3; replica++) all.start();
  await all.arrive(LIMIT);
  await all.redis.command("SAVE");
  await all.arrive(LIMIT / 2);
  await all.redis.kill();
  await all.redis.restart();
  await refuseInfo();
  await all.arrive(2 * LIMIT);
  for (const key of ["shared", "own", "purses"]) {
    expect(await all.redis.command("DEL", `test:{limiter:api}:${key}`)).toBe(1);
    await all.arrive(LIMIT);
  }
  expectKept(all);
});

it("no limit is exceeded when Redis is full and evicts any key", async () => {
  const all = await stage();
  const workers = [all.start(), all.start(), all.start()];
  await all.arrive(LIMIT);
  await all.redis.command("CONFIG", "SET", "maxmemory", "3mb", "maxmemory-policy", "allkeys-random");
  for (let key = 0; !workers.some(({ output }) => output().includes("lost data")); key++)
    await all.redis.command("SET", `filler:${key}`, Buffer.alloc(20_000));
  await all.arrive(2 * LIMIT);
  expectKept(all);
});

it("no limit is exceeded when Redis takes over older data of another server", async () => {
  const all = await stage();
  const other = await redisForTest();
  for (let replica = 0; replica < 3; replica++) all.start();
  await all.arrive(LIMIT);
  await other.command("REPLICAOF", "127.0.0.1", all.redis.port);
  await expect.poll(async () => await other.command("DBSIZE")).toBeGreaterThan(0);
  await other.command("REPLICAOF", "NO", "ONE");
  await all.arrive(LIMIT);
  await all.redis.command("REPLICAOF", "127.0.0.1", other.port);
  await expect
    .poll(async () => String(await all.redis.command("INFO", "replication")))
    .toContain("link_status:up");
  await all.redis.command("REPLICAOF", "NO", "ONE");
  await all.arrive(2 * LIMIT);
  expectKept(all);
});

it("when Redis restarts with all its data, nothing closes", async () => {
  const all = await stage();
  const slow = { windowMs, dispatchers: 0 };
  const workers = [all.start(slow), all.start(slow)];
  await Promise.all(workers.map(({ says }) => says(/shared/)));
  await all.redis.command("SHUTDOWN", "SAVE").catch(() => undefined);
  await all.redis.kill();
  await all.redis.restart();
  all.start({ windowMs });
  await all.arrive(LIMIT - 2);
  expect(workers.map(({ output }) => output()).join("\n")).not.toContain("lost data");
});
