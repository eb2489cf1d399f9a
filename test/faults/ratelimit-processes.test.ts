/** Replicas that share limits through a real Redis, counted at the upstream, while replicas fail and Redis is away. */
import { setTimeout as lasting } from "node:timers/promises";

import { expect, it, onTestFinished } from "vitest";

import {
  expectKept,
  LIMIT,
  LONG_WINDOW_MS as windowMs,
  type Member,
  playFault,
  stageLimiters,
} from "../support/limiter-stage.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

const allSay = (workers: readonly Member[], pattern: RegExp): Promise<unknown> =>
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
  first.kill();
  all.start(busy);
  // The idle replicas keep one permit each. The killed one may have had one unused permit.
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

it("no limit is exceeded when the processes of replicas are killed, frozen and started again", async () => {
  const all = await stageLimiters();
  const [killed, frozen] = [all.startProcess(), all.startProcess()];
  all.start();
  await Promise.all([killed, frozen].map(({ says }) => says(/shared/)));
  await all.arrive(LIMIT);
  killed.child.kill("SIGKILL");
  frozen.child.kill("SIGSTOP");
  all.start();
  await all.arrive(LIMIT);
  await lasting(1_500);
  frozen.child.kill("SIGCONT");
  await all.arrive(2 * LIMIT);
  expectKept(all);
});

it("no limit is exceeded when Redis is frozen, emptied, or killed and started again empty", () =>
  playFault(async ({ redis, arrive }, workers) => {
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
  }));
