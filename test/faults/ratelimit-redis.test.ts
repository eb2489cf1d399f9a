/** Limiters that share limits through a real Redis. */
import { expect, it, onTestFinished } from "vitest";

import { systemClock } from "../../src/process/clock.ts";
import type { LedgerLine } from "../../src/usage/ledger.ts";
import { createLimiterLedger } from "../../src/usage/redis-ledger.ts";
import type { PermitRequest } from "../../src/ratelimit/limiter.ts";
import { oldReplicasAreGone } from "../../src/ratelimit/old-protocol.ts";
import { limiterKeys } from "../../src/ratelimit/redis-limiter.ts";
import type { SharedLimiter } from "../../src/ratelimit/shared-limiter.ts";
import { redisForTest } from "../support/budget-watch.ts";
import { type ShareOptions, shareLimits } from "../support/shared-limiter.ts";

const TIMEOUT_MS = 2_000;
const windows = [{ name: "1m", limit: 20, windowMs: 60_000 }];
const request: PermitRequest = {
  app: "app",
  priority: "interactive",
  resource: "listings",
  cause: "miss",
  query: "q",
  leave: [0],
};

function join(options: Omit<ShareOptions, "windows" | "replicas">): ReturnType<typeof shareLimits> {
  // A busy machine may delay a command.
  const shared = shareLimits({
    windows,
    replicas: 2,
    degradedForMs: 120_000,
    timeoutMs: TIMEOUT_MS,
    ...options,
  });
  onTestFinished(async () => {
    await shared.limiter.close();
    shared.calls.close();
  });
  return shared;
}

const isShared = (limiter: SharedLimiter): Promise<void> =>
  expect.poll(async () => (await limiter.acquire(request)).kind, { interval: 50 }).toBe("permit");

/** Takes all permits. @returns how many there were */
async function takeAll(limiter: SharedLimiter): Promise<number> {
  for (let taken = 0; ; taken++) if ((await limiter.acquire(request)).kind === "wait") return taken;
}

it("limiters in one namespace share a limit, a returned slot is free at once, and other namespaces share nothing", async () => {
  const { port: redisPort } = await redisForTest();
  const [one, two, other] = [
    join({ redisPort }),
    join({ redisPort }),
    join({ redisPort, namespace: "other:" }),
  ];
  await isShared(one.limiter);
  await isShared(two.limiter);
  await one.limiter.close();
  // The second limiter is alone. Redis reserves no escrow for the first one.
  expect(await takeAll(two.limiter)).toBe(18);
  expect(await two.limiter.replicas()).toMatchObject([{ isLive: true }]);
  await isShared(other.limiter);
  expect(await takeAll(other.limiter)).toBe(19);
});

it("a released permit is free at once, replicas exchange counts and waiting apps, and the ledger has the call", async () => {
  const { port: redisPort } = await redisForTest();
  const [one, two] = [join({ redisPort }), join({ redisPort })];
  await isShared(one.limiter);
  await isShared(two.limiter);
  const acquired = await two.limiter.acquire(request);
  if (acquired.kind === "wait") throw new Error(acquired.reason);
  await takeAll(one.limiter);
  expect(await two.limiter.acquire(request)).toMatchObject({ kind: "wait", reason: "budget" });
  one.limiter.announce([{ app: "quiet", priority: "background", count: 2 }]);
  two.limiter.announce([{ app: "app", priority: "interactive", count: 1 }]);
  await expect
    .poll(() => two.limiter.state().waitingElsewhere)
    .toEqual([{ app: "quiet", priority: "background", count: 2 }]);
  expect(two.limiter.state().windows[0]).toMatchObject({
    spent: 20,
    remaining: 0,
    byApp: new Map([["app", 20]]),
  });
  two.limiter.release(acquired.permit);
  await isShared(two.limiter);
  const lines: LedgerLine[] = [];
  for await (const piece of createLimiterLedger(one.calls.run, "test:").read(0, Date.now() + 1))
    lines.push(...piece);
  expect(lines).toHaveLength(21);
  expect(lines.filter(({ completion }) => completion?.status === "unsent")).toHaveLength(1);
});

it("when an operator reports that a replica is dead, its slot is free after a window instead of after degradedFor", async () => {
  const { port: redisPort } = await redisForTest();
  const [one, two] = [join({ redisPort }), join({ redisPort })];
  await isShared(one.limiter);
  await isShared(two.limiter);
  // Like a kill: the slot is not given back.
  two.calls.close();
  await expect.poll(async () => (await one.limiter.replicas()).map(({ isLive }) => isLive)).toContain(false);
  const dead = (await one.limiter.replicas()).find(({ isLive }) => !isLive);
  // Before the report: degradedForMs, the window and the latest arrival. After it: the window and the latest arrival.
  expect(dead?.freeInMs).toBeGreaterThan(70_000);
  const after = await one.limiter.replicas(dead?.holder);
  expect(after.find(({ isLive }) => !isLive)?.freeInMs).toBeLessThanOrEqual(61_000 + TIMEOUT_MS);
});

it("a replica waits until replicas of version 0.1 have stopped, warns once, and counts what they sent", async () => {
  const redis = await redisForTest();
  const prefix = "old:{budget}:api:";
  await redis.command("HSET", `${prefix}replicas`, "old-one", `${Date.now()}|1|0|0|0`);
  for (let call = 0; call < 12; call++)
    await redis.command("ZADD", `${prefix}sends`, Date.now() - 1_000, `call-${call}@app`);
  const reports: string[] = [];
  const { limiter } = join({
    redisPort: redis.port,
    onReport: (message) => void reports.push(message),
    admission: (calls) =>
      oldReplicasAreGone({
        run: calls.run,
        namespace: "old:",
        origin: "api",
        windowMs: 60_000,
        degradedForMs: 20_000,
        clock: systemClock,
        warn: (message) => void reports.push(message),
      }),
  });
  await expect
    .poll(() => reports)
    .toEqual([expect.stringContaining("Replicas of version 0.1 use this Redis")]);
  expect(await limiter.acquire(request)).toMatchObject({ kind: "wait", reason: "redis-away" });
  await redis.command("DEL", `${prefix}replicas`);
  await isShared(limiter);
  expect(await takeAll(limiter)).toBe(7);
  expect(reports).toHaveLength(1);
});

it("a limiter reports an outage of its own when Redis refuses only its script, and reports its end", async () => {
  const { port: redisPort, command } = await redisForTest();
  const [outage, end] = [
    "the shared budget (api) is out of order",
    "the shared budget (api) is back in order",
  ];
  const reports: string[] = [];
  const { limiter } = join({
    redisPort,
    onReport: (message) => void reports.push(message),
    onBackInOrder: (what) => void reports.push(`${what} is back in order`),
  });
  const sinceOutage = (): string[] => reports.slice(Math.max(0, reports.indexOf(outage)));
  await isShared(limiter);
  // The value of the state key is no JSON. So Redis refuses the script and answers all other commands.
  const { state } = limiterKeys("test:", "api");
  await command("SET", state, "no JSON");
  await expect
    .poll(async () => {
      await limiter.acquire(request);
      return reports;
    })
    .toContain(outage);
  expect(sinceOutage()).not.toContain(end);
  await command("DEL", state);
  await expect.poll(sinceOutage).toContain(end);
});
