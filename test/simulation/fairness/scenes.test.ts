import { expect, it } from "vitest";

import { ANSWERED, createScene, fakeTime, MINUTE, SECOND } from "../../support/calls-scene.ts";
import { createPurseLimiters } from "../../support/limiters.ts";
import { createStageData, LUA, stageForFile } from "../../support/redis-stage.ts";
import { waitingOf } from "../../support/waiting.ts";
import { DAYS } from "../../support/scenes.ts";
import { playDay, playScenes, playScenesWithRedis } from "./play.ts";

playScenes([7]);
playScenesWithRedis([7], "a hungry app that is alone");

it.each(DAYS.filter(({ name }) => name.startsWith("hungry apps")))(
  "$name, also if callers wait for most of a minute",
  async (day) => day.expect(await playDay({ ...day, seed: 7, maxWaitMs: 40_000 })),
);

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
