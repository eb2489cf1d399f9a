/** What apps get on common days: the real queue on a fake clock, on one replica, and in the long tests on three. */
import { describe, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import { createScene, fakeTime, listedWith, MINUTE } from "../../support/calls-scene.ts";
import { createFakeLimiters } from "../../support/fake-limiter.ts";
import { DAYS, type Day, type Played, type Playing, type Stage, startCallers } from "../../support/scenes.ts";
import { waitingOf } from "../../support/waiting.ts";

const MAX_WAIT_MS = 10_000;
/** The duration of a call. It arrives after half of this time. */
const CALL_MS = 200;

/** @param seeds each day is played with each of them @param isFull plays each day in its full length */
export function playScenes(replicas: number, seeds: readonly number[], isFull = false): void {
  describe.each(seeds)(`on ${replicas} replicas, seed %d,`, (seed) => {
    it.each(DAYS)("$name", { timeout: 60_000 }, async (day) => {
      const forMs = isFull ? (day.inFullMs ?? day.forMs) : day.forMs;
      day.expect(await playDay({ ...day, forMs, replicas, seed }));
    });
  });
}

async function playDay(options: Playing & Pick<Day, "listed"> & Pick<Stage, "replicas">): Promise<Played> {
  const { replicas, windows = [{ limit: 60, windowMs: MINUTE }], listed: weights = {}, forMs } = options;
  const clock = fakeTime();
  const limiters = createFakeLimiters({ windows, clock, newsAfterMs: replicas > 1 ? 250 : 0 });
  const listed = listedWith(weights);
  const scenes = Array.from({ length: replicas }, () =>
    createScene({ windows, listed, replicas, clock, limiters }),
  );
  const ask: Stage["ask"] = async (replica, app, query) => {
    const at = clock.now();
    let sentAt = 0;
    const waiting = { ...waitingOf({ deadlineAt: at + MAX_WAIT_MS }), apps: () => [app] };
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
  /** The fake clock's monotonic time is later than its time of day. */
  const aheadMs = clock.monotonic() - clock.now();
  const stage: Stage = {
    replicas,
    usable: 1,
    now: clock.now,
    after: clock.after,
    ask,
    sent: () => limiters.sends.map(({ at }) => at - aheadMs),
  };
  const seen = startCallers(stage, options);
  await clock.advance(forMs + MAX_WAIT_MS);
  return seen();
}
