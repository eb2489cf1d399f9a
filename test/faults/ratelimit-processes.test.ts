/** Processes that share limits through a real Redis, counted at the upstream. */
import { spawn } from "node:child_process";
import { createServer } from "node:http";

import { expect, it, onTestFinished } from "vitest";

import { mostWithin } from "../support/arrivals.ts";
import { lasting, redisForTest } from "../support/budget-watch.ts";
import type { WorkerSettings } from "../support/limiter-worker.ts";
import { follow, type Running } from "../support/process.ts";
import type { RedisServer } from "../support/redis.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

const LIMIT = 40;
const WINDOW_MS = 1_000;

interface Stage {
  readonly redis: RedisServer;
  readonly arrivals: number[];
  readonly start: (settings?: Partial<WorkerSettings>) => Running;
  /** Resolves when `count` more calls have arrived. */
  readonly arrive: (count: number) => Promise<void>;
}

async function stage(): Promise<Stage> {
  const redis = await redisForTest();
  const arrivals: number[] = [];
  const upstream = createServer((_, response) => {
    arrivals.push(performance.now());
    response.end("{}");
  });
  await new Promise<void>((resolve) => void upstream.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    upstream.closeAllConnections();
    upstream.close();
  });
  const address = upstream.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const common = {
    redisPort: redis.port,
    upstreamPort: port,
    limit: LIMIT,
    windowMs: WINDOW_MS,
    replicas: 3,
  };
  return {
    redis,
    arrivals,
    start(settings = {}) {
      const argument = JSON.stringify({ ...common, dispatchers: 4, ...settings });
      const child = spawn(process.execPath, ["test/support/limiter-worker.ts", argument], {
        stdio: ["ignore", "pipe", "pipe"],
      });
      onTestFinished(() => void child.kill("SIGKILL"));
      return follow(child);
    },
    async arrive(count) {
      const before = arrivals.length;
      await expect.poll(() => arrivals.length).toBeGreaterThanOrEqual(before + count);
    },
  };
}

const expectKept = ({ arrivals }: Stage, windowMs = WINDOW_MS): void =>
  expect(mostWithin(arrivals, windowMs)).toBeLessThanOrEqual(LIMIT);

/** A window that does not end during a test, so that the number of permits does not depend on the speed of the machine. */
const windowMs = 60_000;

it("three busy replicas use the whole limit", async () => {
  const all = await stage();
  for (let replica = 0; replica < 3; replica++) all.start({ windowMs });
  await all.arrive(LIMIT);
  expectKept(all, windowMs);
});

it("one busy replica beside two idle ones uses all but their escrow, also after a kill and a restart", async () => {
  const all = await stage();
  const idle = { windowMs, dispatchers: 0, replicas: 4 };
  const workers = [all.start(idle), all.start(idle)];
  await Promise.all(workers.map(({ says }) => says(/shared/)));
  const busy = { windowMs, dispatchers: 1, replicas: 4, address: "here" };
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
  const all = await stage();
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

it("no limit is exceeded when Redis is frozen, emptied, or killed and restarted empty, and all replicas continue", async () => {
  const all = await stage();
  const workers = [all.start(), all.start(), all.start()];
  const { redis } = all;
  await all.arrive(LIMIT);
  redis.freeze();
  await Promise.all(workers.map(({ says }) => says(/degraded/)));
  // Each replica spends its part when that has been reserved for a window.
  await all.arrive(LIMIT);
  redis.thaw();
  await Promise.all(workers.map(({ says }) => says(/degraded[^]*shared/)));
  await all.arrive(LIMIT);
  await redis.command("FLUSHALL");
  await all.arrive(2 * LIMIT);
  await redis.kill();
  await all.arrive(LIMIT / 2);
  await redis.restart();
  await all.arrive(3 * LIMIT);
  expectKept(all);
});

it("a replica that is cut off from Redis continues beside the others, exceeds no limit, and joins again", async () => {
  const all = await stage();
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

it("no limit is exceeded when Redis restarts with older data", async () => {
  const all = await stage();
  for (let replica = 0; replica < 3; replica++) all.start();
  await all.arrive(LIMIT);
  await all.redis.command("SAVE");
  await all.arrive(LIMIT / 2);
  await all.redis.kill();
  await all.redis.restart();
  expect(await all.redis.command("DBSIZE")).toBeGreaterThan(0);
  await all.arrive(2 * LIMIT);
  expectKept(all);
});
