import { readFileSync } from "node:fs";

import { Redis } from "ioredis";
import { expect, it, onTestFinished } from "vitest";

import { startRedis } from "../../support/redis.ts";
import { playHistory } from "../../simulation/limiter/history.ts";
import type { ScriptCall } from "../../simulation/limiter/world.ts";

const LUA = readFileSync(new URL("../../../src/ratelimit/lua/limiter.lua", import.meta.url), "utf8");

/** Redis with the time of the test, and always with the same run id. */
const WITH_CLOCK = `
local real = redis
local redis = {
  call = function(name, ...)
    if name == 'TIME' then return { ARGV[2], ARGV[3] } end
    return real.call(name, ...)
  end,
  pcall = function() return 'run_id:server1' end,
  error_reply = real.error_reply
}
${LUA}`;

it("Redis replies to each request of a history as the simulation's stand-in does", async () => {
  const server = await startRedis();
  onTestFinished(() => server.close());
  const client = new Redis({ port: server.port, disableClientInfo: true });
  onTestFinished(() => client.disconnect());
  const calls: ScriptCall[] = [];
  for (const seed of [1, 5]) {
    await playHistory(seed, {
      observe: (call) => void calls.push({ ...call, keys: call.keys.map((key) => `${seed}${key}`) }),
      change: (plan) => ({
        ...plan,
        faultyMs: 4_000,
        faults: ["partition", "kill", "deploy", "surge", "redis-slow", "limits", "replicas"],
      }),
    });
  }
  expect(calls.length).toBeGreaterThan(500);
  for (const { at, keys, args, reply } of calls) {
    const [request = ""] = args;
    // Keys that are not listed have the same prefix.
    const { prefix } = JSON.parse(request);
    const own = request.replace(`"prefix":"${prefix}"`, `"prefix":"${keys[0]?.replace(/state$/, "")}"`);
    const time = [String(Math.floor(at / 1_000)), String((at % 1_000) * 1_000)];
    const answer = await client.eval(WITH_CLOCK, keys.length, ...keys, own, ...time);
    expect(JSON.parse(String(answer)), request).toEqual(JSON.parse(reply));
  }
});
