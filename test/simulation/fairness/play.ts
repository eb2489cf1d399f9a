/** What apps get on common days: the real queue on a fake clock, on one replica or on three that share a budget in Redis. */
import { describe, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import { createScene, fakeTime, listedWith, MINUTE } from "../../support/calls-scene.ts";
import { createFakeLimiters, createPurseLimiters } from "../../support/limiters.ts";
import { createStageData, LUA, stageForFile } from "../../support/redis-stage.ts";
import { DAYS, type Day, type Played, type Playing, type Stage, startCallers } from "../../support/scenes.ts";
import { waitingOf } from "../../support/waiting.ts";

const MAX_WAIT_MS = 10_000;
/** The duration of a call. It arrives after half of this time. */
const CALL_MS = 200;

/** Replicas join within this time. */
const JOINED_MS = 3_000;

let plays = 0;
type Redis = ReturnType<typeof stageForFile>;

/**
 * @param seeds each day is played with each of them
 * @param isFull plays each day in its full length
 * @param maxWaitMs how long callers wait for an answer
 */
export function playScenes(seeds: readonly number[], isFull = false, maxWaitMs = MAX_WAIT_MS): void {
  describe.each(seeds)(`on one replica, seed %d, with deadlines after ${maxWaitMs / 1_000} s,`, (seed) => {
    it.each(DAYS)("$name", async (day) => {
      const forMs = isFull ? (day.inFullMs ?? day.forMs) : day.forMs;
      day.expect(await playDay({ ...day, forMs, seed, maxWaitMs }));
    });
  });
}

/** Plays each day whose name begins with one of the texts in `days`. */
export function playScenesWithRedis(seeds: readonly number[], ...days: readonly string[]): void {
  const redis = stageForFile();
  describe.each(seeds)("on three replicas, seed %d,", (seed) => {
    const played = DAYS.filter(({ name }) => days.some((day) => name.startsWith(day)));
    it.each(played)("$name", { timeout: 300_000 }, async (day) => {
      // Replicas tell each other four times a second, so a whole day would take long.
      const inShort = day.inShort?.windows && day.inShort;
      day.expect(await playDay({ ...day, ...inShort, seed }, redis));
    });
  });
}

/** @param redis absent on one replica */
export async function playDay(
  options: Playing & Pick<Day, "listed"> & { readonly maxWaitMs?: number },
  redis?: Redis,
): Promise<Played> {
  const { windows = [{ limit: 60, windowMs: MINUTE }], listed: weights = {}, forMs } = options;
  const { maxWaitMs = MAX_WAIT_MS } = options;
  const replicas = redis === undefined ? 1 : 3;
  const data = redis && createStageData(redis(), `${++plays}:`, LUA);
  const clock = fakeTime(data?.settled);
  const limiters = data
    ? createPurseLimiters({ windows, clock }, replicas, data)
    : createFakeLimiters({ windows, clock });
  const scenes = Array.from({ length: replicas }, () =>
    createScene({ windows, listed: listedWith(weights), replicas, clock, limiters }),
  );
  await clock.advance(JOINED_MS);
  const ask: Stage["ask"] = async (replica, app, query) => {
    const at = clock.now();
    let sentAt = 0;
    const waiting = { ...waitingOf({ deadlineAt: at + maxWaitMs }), apps: () => [app] };
    const result: unknown = await scenes[replica]?.calls
      .run({ app, cause: "miss", resource: "listings", query, waiting }, async (ended) => {
        sentAt = clock.now();
        await new Promise<void>((resolve) => void clock.after(CALL_MS, resolve));
        ended({ status: 200, arrivedAfterMs: CALL_MS / 2, durationMs: CALL_MS });
      })
      .catch((error: unknown) => error);
    if (!(result instanceof Problem)) return { isAnswered: true, waitedMs: sentAt - at };
    const waitedMs = clock.now() - at;
    const retryAfterMs = (result.details.retryAfterSeconds ?? 1) * 1_000;
    return { isAnswered: false, isLate: waitedMs > 50, waitedMs, retryAfterMs };
  };
  const sent = (): number[] => limiters.sends.map(({ at }) => at);
  const seen = startCallers({ ...clock, replicas, usable: 1, ask, sent }, options);
  await clock.advance(forMs + maxWaitMs);
  await data?.remove();
  return seen();
}
