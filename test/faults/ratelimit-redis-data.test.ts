/** Three replicas share limits, counted at the upstream, while Redis' data or its clock are wrong. */
import { expect, it } from "vitest";

import { type Fault, LIMIT, playFault } from "../support/limiter-stage.ts";
import { redisForTest } from "../support/redis.ts";
import { WRONG_CLOCK, type WrongClock } from "../support/shared-limiter.ts";

const FAULTS: Readonly<Record<string, Fault>> = {
  async "Redis' clock runs three times as fast, and jumps forward and back"({ redis, arrive }) {
    const since = Date.now();
    for (const [rate, aheadMs] of [
      [3, 0],
      [1, 5_000],
      [1, 10_000],
      [1, -3_600_000],
      [0.9, 0],
    ] as const) {
      const clock: WrongClock = { rate, since, aheadMs };
      await redis.command("SET", WRONG_CLOCK, JSON.stringify(clock));
      await arrive(2 * LIMIT);
    }
  },
  async "Redis, which refuses INFO, starts again with older data, or evicts a key"({ redis, arrive }) {
    const refuseInfo = (): Promise<unknown> => redis.command("ACL", "SETUSER", "default", "-info");
    await refuseInfo();
    await redis.command("SAVE");
    await arrive(LIMIT / 2);
    await redis.kill();
    await redis.restart();
    await refuseInfo();
    await arrive(2 * LIMIT);
    for (const key of ["shared", "own", "purses"]) {
      expect(await redis.command("DEL", `test:{limiter:api}:${key}`)).toBe(1);
      await arrive(LIMIT);
    }
  },
  async "Redis is full and evicts any key"({ redis }, workers) {
    await redis.command("CONFIG", "SET", "maxmemory", "3mb", "maxmemory-policy", "allkeys-random");
    for (let key = 0; !workers.some(({ output }) => output().includes("lost data")); key++)
      await redis.command("SET", `filler:${key}`, Buffer.alloc(20_000));
  },
  async "Redis takes over older data of another server"({ redis, arrive }) {
    const other = await redisForTest();
    await other.command("REPLICAOF", "127.0.0.1", redis.port);
    await expect.poll(() => other.command("DBSIZE")).toBeGreaterThan(0);
    await other.command("REPLICAOF", "NO", "ONE");
    await arrive(LIMIT);
    await redis.command("REPLICAOF", "127.0.0.1", other.port);
    const replication = async (): Promise<string> => String(await redis.command("INFO", "replication"));
    await expect.poll(replication).toContain("link_status:up");
    await redis.command("REPLICAOF", "NO", "ONE");
  },
};

it.each(Object.entries(FAULTS))("no limit is exceeded when %s", (_what, fault) => playFault(fault));
