/** Processes that share limits through a real Redis, counted at the upstream, while processes and Redis fail. */
import { setTimeout as lasting } from "node:timers/promises";

import { expect, it, onTestFinished } from "vitest";

import {
  expectKept,
  LIMIT,
  type LimiterStage,
  LONG_WINDOW_MS as windowMs,
  stageLimiters,
} from "../support/limiter-stage.ts";
import type { Running } from "../support/process.ts";
import { redisForTest } from "../support/redis.ts";
import { WRONG_CLOCK, type WrongClock } from "../support/shared-limiter.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

const allSay = (workers: readonly Running[], pattern: RegExp): Promise<unknown> =>
  Promise.all(workers.map(({ says }) => says(pattern)));

it("three busy replicas use the whole limit", async () => {
  const all = await stageLimiters();
  for (let replica = 0; replica < 3; replica++) all.start({ windowMs });
  await all.arrive(LIMIT);
  expectKept(all, windowMs);
});

it("one busy replica beside two idle ones uses all but their own purses, also after a kill and a restart", async () => {
  const all = await stageLimiters();
  const idle = { windowMs, dispatchers: 0, replicas: 4 };
  await allSay([all.start(idle), all.start(idle)], /shared/);
  const busy = { windowMs, dispatchers: 1, replicas: 4 };
  const first = all.start(busy);
  await all.arrive(10);
  first.child.kill("SIGKILL");
  await first.ended;
  all.start(busy);
  // The idle replicas keep one permit each. The killed process may have had one unused permit.
  await all.arrive(LIMIT - 3 - all.arrivals.length);
  expectKept(all, windowMs);
});

it("when Redis restarts with all its data, nothing closes", async () => {
  const all = await stageLimiters();
  const slow = { windowMs, dispatchers: 0 };
  const workers = [all.start(slow), all.start(slow)];
  await allSay(workers, /shared/);
  await all.redis.command("SHUTDOWN", "SAVE").catch(() => undefined);
  await all.redis.kill();
  await all.redis.restart();
  all.start({ windowMs });
  await all.arrive(LIMIT - 2);
  expect(workers.map(({ output }) => output()).join("\n")).not.toContain("lost data");
});

it("a replica that is cut off from Redis continues beside the others, exceeds no limit, and joins again", async () => {
  const all = await stageLimiters();
  const proxy = await startTcpProxy(all.redis.port);
  onTestFinished(proxy.close);
  const cutOff = all.start({ redisPort: proxy.port });
  all.start();
  all.start();
  await cutOff.says(/shared/);
  await all.arrive(LIMIT);
  proxy.blackHole();
  await cutOff.says(/degraded/);
  // Long enough for the replica to spend its part beside the others.
  await all.arrive(3 * LIMIT);
  proxy.heal();
  proxy.cut();
  await cutOff.says(/degraded[^]*shared/);
  await all.arrive(LIMIT);
  expectKept(all);
});

type Fault = (all: LimiterStage, workers: readonly [Running, Running, Running]) => Promise<void>;

/** What happens to three busy replicas. Afterwards they continue. */
const FAULTS: Readonly<Record<string, Fault>> = {
  async "replicas are killed, frozen and started again"(all, [one, two]) {
    one.child.kill("SIGKILL");
    two.child.kill("SIGSTOP");
    all.start();
    await all.arrive(LIMIT);
    await lasting(1_500);
    two.child.kill("SIGCONT");
  },
  async "Redis is frozen, emptied, or killed and started again empty"({ redis, arrive }, workers) {
    redis.freeze();
    await allSay(workers, /degraded/);
    // Each replica goes on with its own purse.
    await arrive(6);
    redis.thaw();
    await allSay(workers, /degraded[^]*shared/);
    await arrive(LIMIT);
    await redis.command("FLUSHALL");
    await arrive(2 * LIMIT);
    await redis.kill();
    await arrive(6);
    await redis.restart();
  },
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

it.each(Object.entries(FAULTS))("no limit is exceeded when %s", async (_what, fault) => {
  const all = await stageLimiters();
  const workers = [all.start(), all.start(), all.start()] as const;
  await all.arrive(LIMIT);
  await fault(all, workers);
  await all.arrive(2 * LIMIT);
  expectKept(all);
});
