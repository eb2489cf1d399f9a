import { expect, it } from "vitest";

import { ANSWERED, createScene, fakeTime, MINUTE, SECOND } from "../../support/calls-scene.ts";
import { createPurseLimiters, REQUEST } from "../../support/limiters.ts";
import { createStageData, LUA, stageForFile } from "../../support/redis-stage.ts";
import { waitingOf } from "../../support/waiting.ts";
import { playScenes, playScenesWithRedis } from "./play.ts";

playScenes([7]);
playScenesWithRedis([7], "a hungry app that is alone");

const redis = stageForFile();

it("the permit of a caller that does not come back is free for callers of other replicas", async () => {
  const data = createStageData(redis(), "gone:", LUA);
  const clock = fakeTime(data.settled);
  const windows = [{ limit: 2, windowMs: MINUTE }];
  const limiters = createPurseLimiters({ windows, clock }, 2, data);
  const [here, there] = [1, 2].map(() => createScene({ clock, windows, limiters, replicas: 2 }));
  await clock.advance(3 * SECOND);
  const isAnswered = async (scene: typeof here, query: string): Promise<boolean> => {
    const asked = scene?.ask({ query, waiting: waitingOf({ deadlineAt: clock.now() + SECOND }) });
    await clock.advance(SECOND);
    return (await asked) === ANSWERED;
  };
  for (const query of ["q1", "q2"]) expect(await isAnswered(here, query)).toBe(true);
  expect(await isAnswered(here, "gone")).toBe(false);
  await clock.advance(MINUTE + 4 * SECOND);
  for (const query of ["q4", "q5"]) expect([query, await isAnswered(there, query)]).toEqual([query, true]);
});

it("no more calls count than the limit allows when an own purse pays again", async () => {
  const data = createStageData(redis(), "again:", LUA);
  const clock = fakeTime(data.settled);
  const windows = [{ limit: 20, windowMs: MINUTE }];
  const limiter = createPurseLimiters({ windows, clock }, 1, data).join();
  await clock.advance(3 * SECOND);
  // The own purse has two calls.
  for (const calls of [20, 2]) {
    const asked = Array.from({ length: calls }, () => limiter.acquire(REQUEST));
    await clock.advance(0.3 * SECOND);
    for (const acquired of await Promise.all(asked)) {
      if (acquired.kind !== "permit") throw new Error("no permit");
      limiter.complete(acquired.permit, { status: 200, durationMs: 0, arrivedAfterMs: 0 });
    }
    expect(limiter.state().windows[0]?.spent).toBe(20);
    await clock.advance(MINUTE + 0.1 * SECOND);
  }
});
