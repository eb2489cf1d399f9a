/** Processes that share limits while their Redis stops, starts, or has a wrong clock, counted at the upstream. */
import { expect, it } from "vitest";

import { expectKept, LIMIT, LONG_WINDOW_MS, stageLimiters } from "../support/limiter-stage.ts";
import { WRONG_CLOCK, type WrongClock } from "../support/shared-limiter.ts";

it("no limit is exceeded when Redis is frozen, emptied, or killed and restarted empty, and all replicas continue", async () => {
  const all = await stageLimiters();
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
  const all = await stageLimiters();
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

it("when Redis restarts with all its data, nothing closes", async () => {
  const all = await stageLimiters();
  const slow = { windowMs: LONG_WINDOW_MS, dispatchers: 0 };
  const workers = [all.start(slow), all.start(slow)];
  await Promise.all(workers.map(({ says }) => says(/shared/)));
  await all.redis.command("SHUTDOWN", "SAVE").catch(() => undefined);
  await all.redis.kill();
  await all.redis.restart();
  all.start({ windowMs: LONG_WINDOW_MS });
  await all.arrive(LIMIT - 2);
  expect(workers.map(({ output }) => output()).join("\n")).not.toContain("lost data");
});
