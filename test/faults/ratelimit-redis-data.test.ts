/** Processes that share limits while their Redis loses data or takes over older data, counted at the upstream. */
import { expect, it } from "vitest";

import { redisForTest } from "../support/redis.ts";
import { expectKept, LIMIT, stageLimiters } from "../support/limiter-stage.ts";

it("no limit is exceeded when Redis, which refuses INFO, restarts with older data, or evicts a key", async () => {
  const all = await stageLimiters();
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
  const all = await stageLimiters();
  const workers = [all.start(), all.start(), all.start()];
  await all.arrive(LIMIT);
  await all.redis.command("CONFIG", "SET", "maxmemory", "3mb", "maxmemory-policy", "allkeys-random");
  for (let key = 0; !workers.some(({ output }) => output().includes("lost data")); key++)
    await all.redis.command("SET", `filler:${key}`, Buffer.alloc(20_000));
  await all.arrive(2 * LIMIT);
  expectKept(all);
});

it("no limit is exceeded when Redis takes over older data of another server", async () => {
  const all = await stageLimiters();
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
