/** Redis has an older copy of the budget, or its clock is wrong. */
import { expect, it } from "vitest";

import { mostWithin } from "../../support/arrivals.ts";
import { createRandom } from "../../support/random.ts";
import { drawPlan, type Plan } from "./plan.ts";
import { LUA, stageForFile } from "../../support/redis-stage.ts";
import { createWorld, type Replica, start, type World } from "./world.ts";

const LIMIT = 40;
const WINDOW_MS = 4_000;

const stage = stageForFile();

function twoReplicas(
  lua = LUA,
  more: Partial<Plan> = {},
): { world: World; cutOff: Replica; knowing: Replica } {
  const random = createRandom(1);
  const plan: Plan = {
    ...drawPlan(random),
    windows: [{ name: "4s", limit: LIMIT, windowMs: WINDOW_MS }],
    slots: 2,
    reserve: 0,
    dispatchers: [5, 5],
    redisRate: 1,
    unsettled: 0,
    ...more,
  };
  const world = createWorld(stage(), plan, random, lua);
  world.isHealed = true;
  return { world, cutOff: start(world, 0), knowing: start(world, 1) };
}

async function mostCalls({ replicas, server, arrivals }: World, windowMs = WINDOW_MS): Promise<number> {
  for (const replica of replicas) replica.isAlive = false;
  await server.data.settled();
  await server.data.remove();
  expect(arrivals.length).toBeGreaterThan(2 * LIMIT);
  return mostWithin(arrivals, windowMs);
}

/** @returns the most calls in a window */
async function returnWithOlderData(lua: string): Promise<number> {
  const { world, cutOff, knowing } = twoReplicas(lua);
  const { clock, server } = world;
  await clock.advance(10_000);
  // The last command in the copy is that of the replica that is then cut off.
  knowing.frozenUntil = clock.monotonic() + 500;
  await clock.advance(500);
  server.data.snapshot();
  cutOff.isPartitioned = true;
  await clock.advance(3_000);
  // Redis is away. All calls since the copy are lost.
  server.isUp = false;
  server.data.rollBack(0);
  await clock.advance(1_500);
  knowing.isPartitioned = true;
  cutOff.isPartitioned = false;
  server.isUp = true;
  await clock.advance(600);
  knowing.isPartitioned = false;
  await clock.advance(2 * WINDOW_MS);
  return mostCalls(world);
}

it("the limit is kept, because the shared purse is closed until those who know more have come", async () => {
  expect(await returnWithOlderData(LUA)).toBeLessThanOrEqual(LIMIT);
  const rule = "elseif to > now + RETURN_MS then";
  expect(LUA).toContain(rule);
  expect(await returnWithOlderData(LUA.replace(rule, "elseif false then"))).toBeGreaterThan(LIMIT);
});

it("the limit is kept when Redis goes back to older data again and again", async () => {
  const { world } = twoReplicas();
  const { clock, server } = world;
  await clock.advance(5_000);
  for (let round = 0; round < 6; round++) {
    server.data.snapshot();
    await clock.advance(900);
    server.data.rollBack(0);
    await clock.advance(3 * WINDOW_MS - 1_300);
  }
  expect(await mostCalls(world)).toBeLessThanOrEqual(LIMIT);
});

it("a long limit is kept when a new process, which has lower limits, is the first to notice that data were lost", async () => {
  const windowMs = 5 * WINDOW_MS;
  const windows = (short: number, long: number) => [
    { name: "4s", limit: short, windowMs: WINDOW_MS },
    { name: "20s", limit: long, windowMs },
  ];
  const { world, cutOff, knowing } = twoReplicas(LUA, { windows: windows(LIMIT, 3 * LIMIT) });
  const { clock, server } = world;
  await clock.advance(12_000);
  world.config = { ...world.config, windows: windows(LIMIT / 4, LIMIT) };
  start(world, 2);
  await clock.advance(500);
  for (const replica of [cutOff, knowing]) replica.frozenUntil = clock.monotonic() + 600;
  server.data.empty();
  await clock.advance(windowMs);
  expect(await mostCalls(world, windowMs)).toBeLessThanOrEqual(3 * LIMIT);
});

it("the limit is kept while Redis' clock runs too fast or too slowly, and jumps forward and back", async () => {
  const { world } = twoReplicas();
  const { clock, server, arrivals } = world;
  for (const [jumpMs, rate] of [
    [0, 3],
    [900, 1.05],
    [5_000, 1],
    [-3_600_000, 0.9],
  ] as const) {
    const before = arrivals.length;
    server.skewMs += jumpMs;
    for (let step = 0; step < 100; step++) {
      await clock.advance(100);
      server.skewMs += 100 * (rate - 1);
    }
    expect(arrivals.length).toBeGreaterThan(before + LIMIT);
  }
  expect(await mostCalls(world)).toBeLessThanOrEqual(LIMIT);
});
