/** Three replicas share 60 calls a minute for seven minutes of faults, with real processes. */
import { expect, it } from "vitest";

import { mostWithin } from "../support/arrivals.ts";
import { setTimeout as lasting } from "node:timers/promises";
import { redisForTest, type RedisServer } from "../support/redis.ts";
import { crowd, type Replica, startFleet } from "../support/fleet.ts";
import { createRandom } from "../support/random.ts";

const MINUTES = Number(process.env["MINUTES"] ?? 7);
/** A replica that has run for so long knows what was sent. */
const KNOWS_MS = 5_000;
/** What operators read meanwhile. */
const ADMIN = ["budget/replicas", "budget", "status", "usage?from=-1h", "quote?url=/areas", "metrics"];

it("no minute has more than 60 calls", { timeout: (MINUTES + 3) * 60_000 }, async () => {
  const [redis, stale] = [await redisForTest(), await redisForTest()];
  const fleet = await startFleet({ BUDGET: "60/1m", REPLICAS: "3" }, { redis, settings: "redis: {}" });
  const random = createRandom(Number(process.env["SEED"] ?? 1));
  const frozen = new Set<Replica>();
  const start = async (): Promise<{ running: Replica; at: number }> => ({
    running: await fleet.start(),
    at: performance.now(),
  });
  let workers = await Promise.all([1, 2, 3].map(start));
  crowd(() => workers.flatMap(({ running }) => (frozen.has(running) ? [] : running)), 12);
  const done: Record<string, number> = {};
  /** The replicas that know what was sent, and can tell Redis. */
  const knowing = (): typeof workers =>
    workers.filter(({ running, at }) => !frozen.has(running) && performance.now() - at > KNOWS_MS);
  const victim = (): (typeof workers)[number] | undefined => {
    const known = knowing();
    return known.length > 1 ? random.pick(known) : undefined;
  };
  const takeDataOf = async (source: RedisServer, target: RedisServer): Promise<void> => {
    await target.command("REPLICAOF", "127.0.0.1", source.port);
    await expect.poll(async () => String(await target.command("ROLE"))).toContain("connected");
    await target.command("REPLICAOF", "NO", "ONE");
  };
  const faults: Readonly<Record<string, () => unknown>> = {
    async kill() {
      const one = victim();
      if (one === undefined) return;
      void one.running.kill("SIGKILL");
      const next = await start();
      workers = workers.map((worker) => (worker === one ? next : worker));
    },
    freeze() {
      const one = victim();
      if (one === undefined) return;
      frozen.add(one.running);
      void one.running.kill("SIGSTOP");
      setTimeout(
        () => {
          void one.running.kill("SIGCONT");
          one.at = performance.now();
          frozen.delete(one.running);
        },
        random.between(1_000, 90_000),
      );
    },
    async freezeRedis() {
      redis.freeze();
      await lasting(random.between(100, 20_000));
      redis.thaw();
    },
    empty: () => redis.command("FLUSHALL"),
    save: () => redis.command("SAVE"),
    async restartOlder() {
      await redis.kill();
      await lasting(random.between(10, 3_000));
      await redis.restart();
    },
    copy: () => takeDataOf(redis, stale),
    rollBack: () => takeDataOf(stale, redis),
    async evict() {
      const [key] = [
        await redis.command("KEYS", `*{limiter:api}:${random.pick(["shared", "own", "purses"])}`),
      ].flat();
      await redis.command("DEL", String(key));
    },
  };
  const until = performance.now() + MINUTES * 60_000;
  await fleet.sandbox.waitForRequests(30);
  while (performance.now() < until) {
    const name = random.pick(Object.keys(faults));
    const losesData = !["kill", "freeze", "freezeRedis", "save", "copy"].includes(name);
    if (!losesData || knowing().length > 0) {
      await faults[name]?.();
      done[name] = (done[name] ?? 0) + 1;
      for (const { running } of knowing()) for (const path of ADMIN) await running.admin(`/${path}`);
      // Replicas that know the lost data survive until they have told Redis.
      if (losesData) await lasting(3_000);
    }
    await lasting(random.between(500, 15_000));
  }
  const arrivals = fleet.arrivals();
  const most = mostWithin(arrivals, 60_000);
  process.stderr.write(`${arrivals.length} calls, at most ${most} in a minute; ${JSON.stringify(done)}\n`);
  expect(most).toBeLessThanOrEqual(60);
  expect(arrivals.length).toBeGreaterThan(MINUTES * 10);
});
