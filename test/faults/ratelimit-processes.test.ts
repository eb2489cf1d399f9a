/** Processes that share limits through a real Redis, counted at the upstream. */
import { it, onTestFinished } from "vitest";

import { setTimeout as lasting } from "node:timers/promises";
import { expectKept, LIMIT, LONG_WINDOW_MS as windowMs, stageLimiters } from "../support/limiter-stage.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

it("three busy replicas use the whole limit", async () => {
  const all = await stageLimiters();
  for (let replica = 0; replica < 3; replica++) all.start({ windowMs });
  await all.arrive(LIMIT);
  expectKept(all, windowMs);
});

it("one busy replica beside two idle ones uses all but their own purses, also after a kill and a restart", async () => {
  const all = await stageLimiters();
  const idle = { windowMs, dispatchers: 0, replicas: 4 };
  const workers = [all.start(idle), all.start(idle)];
  await Promise.all(workers.map(({ says }) => says(/shared/)));
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

it("killed, frozen and restarted replicas exceed no limit", async () => {
  const all = await stageLimiters();
  const [one, two] = [all.start(), all.start(), all.start()];
  await all.arrive(LIMIT);
  one?.child.kill("SIGKILL");
  two?.child.kill("SIGSTOP");
  all.start();
  await all.arrive(LIMIT);
  await lasting(1_500);
  two?.child.kill("SIGCONT");
  await all.arrive(2 * LIMIT);
  expectKept(all);
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
