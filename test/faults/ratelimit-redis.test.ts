/** Limiters that share limits through a real Redis. */
import { expect, it, onTestFinished, vi } from "vitest";

import type { OriginName } from "../../src/interface/resources.ts";
import { systemClock } from "../../src/process/clock.ts";
import { NAMESPACE } from "../../src/query/key.ts";
import type { PermitRequest } from "../../src/ratelimit/limiter.ts";
import { RedisPurse } from "../../src/ratelimit/limits/redis-script.ts";
import { SharedLimiter } from "../../src/ratelimit/limits/shared-purse.ts";
import { createRedisLedger } from "../../src/usage/redis-ledger.ts";
import { openRedisBackend } from "../support/redis-backend.ts";
import { linesOf } from "../support/ledger.ts";
import { REQUEST } from "../support/limiters.ts";
import { redisForTest, type RedisServer } from "../support/redis.ts";

const PREFIX = `${NAMESPACE}{limiter:api}:`;
const DAY_MS = 86_400_000;

/** Of 20 calls, each of the two own purses has one. */
const DEFAULTS = {
  windows: [{ name: "1m", limit: 20, windowMs: 60_000 }],
  replicas: 2,
  degradedForMs: 120_000,
  perDay: new Map<string, number>(),
  /** A busy machine may delay a command. */
  timeoutMs: 2_000,
};

function join({ settings }: RedisServer, options: Partial<typeof DEFAULTS> = {}) {
  const { windows, perDay, timeoutMs, ...own } = { ...DEFAULTS, ...options };
  const backend = openRedisBackend(settings, { commandTimeoutMs: timeoutMs });
  const { service } = backend;
  const redis = new RedisPurse(service.run, NAMESPACE, "api");
  const reports: string[] = [];
  const limiter = new SharedLimiter({
    ...own,
    origin: "api",
    config: { windows, perDay, arrivalMs: 1_000 },
    redis,
    clock: systemClock,
    process: backend.replica,
    degradedReserve: 0.1,
    timeout: { ms: () => timeoutMs, mostMs: timeoutMs },
    ledger: { retentionMs: 60_000, maxRecords: 10_000 },
    warn: (message) => void reports.push(message),
    outOfOrder: ({ what }) => void reports.push(`${what} is out of order`),
    backInOrder: (what) => void reports.push(`${what} is back in order`),
    dataLost: () => undefined,
  });
  onTestFinished(async () => {
    await limiter.close();
    await backend.close();
  });
  return { limiter, redis, service, reports };
}

const isShared = (limiter: SharedLimiter): Promise<void> =>
  expect.poll(() => limiter.state().mode, { interval: 50 }).toBe("shared");

async function take(limiter: SharedLimiter, more: Partial<PermitRequest> = {}): Promise<string> {
  const acquired = await limiter.acquire({ ...REQUEST, ...more });
  return acquired.kind === "permit" ? "permit" : acquired.reason;
}

/** Takes all permits. @returns how many there were */
async function takeAll(limiter: SharedLimiter): Promise<number> {
  for (let taken = 0; ; taken++) if ((await take(limiter)) !== "permit") return taken;
}

it("limiters share a limit but for their own purses, and a slot that is given back keeps its counts; a new window is not full", async () => {
  const server = await redisForTest();
  const [one, two] = [join(server), join(server)];
  for (const { limiter } of [one, two]) await isShared(limiter);
  // Its own purse. The call counts from its latest arrival, a second after the permit.
  const arrivesAt = Date.now() + 1_000;
  expect(await take(one.limiter)).toBe("permit");
  const countsFrom = async (): Promise<number> => {
    const calls = await server.command("ZRANGE", `${PREFIX}own`, 0, -1, "WITHSCORES");
    return Number(String(calls).split(",").at(-1));
  };
  await expect.poll(countsFrom).toBeGreaterThan(arrivesAt - 500);
  expect(await take(one.limiter)).toBe("permit");
  await one.limiter.close();
  expect(await takeAll(two.limiter)).toBe(18);
  expect(await two.redis.slots()).toHaveLength(1);
  const next = join(server);
  await isShared(next.limiter);
  expect(await takeAll(next.limiter)).toBe(0);
  // Redis has not counted a new window yet. Its calls wait for that, and are not refused for a day.
  const windows = [{ name: "1d", limit: 100, windowMs: DAY_MS }];
  next.limiter.configure({ windows, perDay: new Map(), arrivalMs: 1_000 });
  expect(next.limiter.state().windows[0]).toMatchObject({ remaining: 100 });
});

it("slots get another size when all replicas have given theirs back", async () => {
  const server = await redisForTest();
  const limiters = [join(server).limiter, join(server).limiter];
  for (const limiter of limiters) await isShared(limiter);
  const slots = (): unknown => limiters.map((limiter) => limiter.state().hasSlot);
  const windows = [{ name: "1m", limit: 200, windowMs: 60_000 }];
  const wanted = { windows, perDay: new Map<string, number>(), arrivalMs: 1_000 };
  limiters[0]?.configure(wanted);
  await expect.poll(slots).toEqual([false, true]);
  limiters[1]?.configure(wanted);
  await expect.poll(slots).toEqual([true, true]);
});

it("a reload adds a longer window, in which more calls of own purses count than it allows", async () => {
  const windows = [{ name: "1m", limit: 600, windowMs: 60_000 }];
  const { limiter } = join(await redisForTest(), { windows, replicas: 1 });
  await isShared(limiter);
  for (let call = 0; call < 60; call++) expect(await take(limiter)).toBe("permit");
  const added = { name: "1h", limit: 50, windowMs: 3_600_000 };
  limiter.configure({ windows: [...windows, added], perDay: new Map(), arrivalMs: 1_000 });
  expect(await takeAll(limiter)).toBe(0);
});

it("a replica that stops reports all calls of its purse, however many", async () => {
  const server = await redisForTest();
  const { limiter } = join(server, { windows: [{ name: "1m", limit: 12_000, windowMs: 60_000 }] });
  await isShared(limiter);
  for (let call = 0; call < 600; call++) await take(limiter);
  await limiter.close();
  expect(await server.command("ZCARD", `${PREFIX}own`)).toBe(600);
});

it("a slot counts the calls that its holder could not report in one command, too", async () => {
  const server = await redisForTest();
  const windows = [
    { name: "1m", limit: 12_000, windowMs: 60_000 },
    { name: "1h", limit: 120_000, windowMs: 3_600_000 },
  ];
  const { limiter, redis } = join(server, { windows });
  await isShared(limiter);
  const { ask } = redis;
  // The next command has 500 calls. No later one arrives.
  vi.spyOn(redis, "ask").mockRejectedValue(new Error("cut off")).mockImplementationOnce(ask);
  await Promise.all(Array.from({ length: 600 }, () => limiter.acquire(REQUEST)));
  const script = "return tostring(cmsgpack.unpack(redis.call('GET', KEYS[1])).slots[1].most)";
  // 600 calls in each of four minutes, and 100 unreported ones.
  await expect.poll(() => server.command("EVAL", script, 1, `${PREFIX}purses`)).toBe("2500");
});

it("a call that ignores the limits may be sent at once, also by a replica without a slot", async () => {
  const { limiter } = join(await redisForTest());
  expect(limiter.state()).toMatchObject({ mode: "joining", hasSlot: false });
  const acquired = await limiter.acquire({ ...REQUEST, ignoresLimits: true });
  expect(acquired).toMatchObject({ permit: { slot: 0 } });
  expect(acquired.kind === "permit" && acquired.permit.sendBy).toBeGreaterThan(systemClock.monotonic());
});

it("a released permit is free at once, replicas exchange counts and waiting apps, and the ledger has the calls of both purses", async () => {
  const server = await redisForTest();
  const [one, two] = [join(server), join(server)];
  await isShared(one.limiter);
  await isShared(two.limiter);
  expect(await take(two.limiter)).toBe("permit");
  const acquired = await two.limiter.acquire(REQUEST);
  if (acquired.kind === "wait") throw new Error(acquired.reason);
  expect(await takeAll(one.limiter)).toBe(18);
  expect(await two.limiter.acquire(REQUEST)).toMatchObject({ kind: "wait", reason: "budget" });
  one.limiter.announce([["background", "quiet", 2]]);
  two.limiter.announce([["interactive", "app", 1]]);
  await expect.poll(() => two.limiter.state().newsElsewhere.news).toEqual([["background", "quiet", 2]]);
  await expect
    .poll(() => two.limiter.state().windows[0])
    .toMatchObject({ spent: 20, remaining: 0, byApp: new Map([["app", 20]]) });
  two.limiter.release(acquired.permit);
  await expect.poll(() => take(two.limiter)).toBe("permit");
  const ledgerOf = (origin: OriginName) => new RedisPurse(one.service.run, NAMESPACE, origin);
  const lines = () => linesOf(createRedisLedger(ledgerOf), 0, Date.now() + 1);
  await expect.poll(async () => (await lines()).length).toBe(21);
  expect((await lines()).filter(({ completion }) => completion?.status === "unsent")).toHaveLength(1);
});

it("the limit of an app for a day holds for all replicas together", async () => {
  const server = await redisForTest();
  const perDay = new Map([["daily", 3]]);
  const [one, two] = [join(server, { perDay }), join(server, { perDay })];
  await isShared(one.limiter);
  await isShared(two.limiter);
  const app = "daily";
  const day = `${PREFIX}day:${app}`;
  await server.command("ZADD", day, Date.now() - 2 * DAY_MS, "two days ago");
  const taken = await Promise.all(
    [one, two, one, two, one, two].map(({ limiter }) => take(limiter, { app })),
  );
  expect(taken.filter((result) => result === "permit")).toHaveLength(3);
  expect(taken).toContain("per-day");
  // Otherwise, Redis would keep all calls of an app that never rests for a day.
  expect(await server.command("ZCARD", day)).toBe(3);
});

it("a replica that dies costs its purse while it might go on, and then few calls of the day", async () => {
  const server = await redisForTest();
  const windows = [
    { name: "1s", limit: 20, windowMs: 1_000 },
    { name: "1d", limit: 2_000, windowMs: DAY_MS },
  ];
  const options = { windows, replicas: 1, degradedForMs: 1_000, timeoutMs: 250 };
  const dead = join(server, options);
  await isShared(dead.limiter);
  dead.service.close();
  // The same machine, under another name.
  const next = join(server, options);
  await isShared(next.limiter);
  const left = (): number => next.limiter.state().windows[1]?.remaining ?? 0;
  expect(left()).toBe(1_800);
  // The dead one can have spent two in each of three seconds.
  await expect.poll(left).toBe(2_000 - 6);
});

it("the calls of other replicas are counted by app, also after Redis has lost its data", async () => {
  const server = await redisForTest();
  const windows = [
    { name: "1s", limit: 20, windowMs: 1_000 },
    { name: "1h", limit: 1_000, windowMs: 3_600_000 },
  ];
  const [one, two] = [join(server, { windows }), join(server, { windows })];
  await isShared(one.limiter);
  await isShared(two.limiter);
  const countsOf = (): string[] => [...(one.limiter.state().windows[1]?.byApp.keys() ?? [])];
  expect(await take(two.limiter, { app: "before" })).toBe("permit");
  await expect.poll(countsOf).toContain("before");
  await server.command("FLUSHALL");
  await expect.poll(() => take(two.limiter, { app: "after" })).toBe("permit");
  await expect.poll(countsOf).toContain("after");
});

it("to read the slots and the ledger changes nothing, also after Redis has lost its data", async () => {
  const server = await redisForTest();
  const { limiter, redis } = join(server);
  await isShared(limiter);
  await limiter.close();
  const changes = async (): Promise<unknown> =>
    /changes_since_last_save:\d+/.exec(String(await server.command("INFO", "persistence")))?.[0];
  for (const loss of [["ECHO", "none"], ["FLUSHALL"]]) {
    await server.command(...loss);
    const before = await changes();
    expect([await redis.slots(), (await redis.completeness()).since]).toEqual([[], expect.any(Number)]);
    expect(await changes()).toBe(before);
  }
});

it("5,000 invented apps do not make a command slow", async () => {
  const server = await redisForTest();
  const { command } = server;
  const windows = [{ name: "1d", limit: 20_000, windowMs: DAY_MS }];
  const { limiter } = join(server, { windows, replicas: 1 });
  await isShared(limiter);
  for (let first = 0; first < 5_000; first += 500)
    await Promise.all(
      Array.from({ length: 500 }, (_, index) => take(limiter, { app: `app-${first + index}` })),
    );
  limiter.announce([["interactive", "app", 1]]);
  await expect.poll(() => limiter.state().windows[0]?.byApp.size).toBe(100);
  await command("CONFIG", "RESETSTAT");
  await expect.poll(async () => /calls=\d\d/.test(await statsOf(command))).toBe(true);
  // Far less than a command may take.
  expect(Number(/usec_per_call=([\d.]+)/.exec(await statsOf(command))?.[1])).toBeLessThan(5_000);
});

async function statsOf(command: (...words: string[]) => Promise<unknown>): Promise<string> {
  return /cmdstat_evalsha:.*/.exec(String(await command("INFO", "commandstats")))?.[0] ?? "";
}

it("nothing is granted until the state of version 0.2 is deleted", async () => {
  const server = await redisForTest();
  const old = `${PREFIX}state`;
  await server.command("SET", old, "{}");
  const { limiter, redis, reports } = join(server);
  await expect.poll(() => reports).toContain("the shared budget (api) is out of order");
  await expect(redis.ask({})).rejects.toThrow(`wait for the longest window, and delete ${old}`);
  expect(await take(limiter)).toBe("redis-away");
  await server.command("DEL", old);
  await isShared(limiter);
});

it("a limiter reports an outage of its own when Redis refuses only its script, and reports its end", async () => {
  const server = await redisForTest();
  const { command } = server;
  const outage = "the shared budget (api) is out of order";
  const end = "the shared budget (api) is back in order";
  const { limiter, reports } = join(server);
  const sinceOutage = (): string[] => reports.slice(Math.max(0, reports.indexOf(outage)));
  await isShared(limiter);
  // The value of the state key is no JSON. So Redis refuses the script and answers all other commands.
  const state = `${PREFIX}purses`;
  await command("SET", state, "no JSON");
  const late = join(server);
  await expect.poll(() => late.reports).toContain(outage);
  await expect.poll(() => reports).toContain(outage);
  expect(sinceOutage()).not.toContain(end);
  // Its own purse is not affected.
  expect(await take(limiter)).toBe("permit");
  expect(await take(limiter)).toBe("redis-away");
  await command("DEL", state);
  await expect.poll(sinceOutage).toContain(end);
});
