/** Circuits through the dispatcher: the upstream fails, asks for a pause, or refuses the credentials. */
import { describe, expect, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import { probeIntervalMs } from "../../../src/ratelimit/circuits/probes.ts";
import type { SharedCircuits } from "../../../src/ratelimit/circuits/redis-circuits.ts";
import type { Limiter } from "../../../src/ratelimit/limiter.ts";
import type { UpstreamRequest, SendEnd } from "../../../src/ratelimit/call-facts.ts";
import { createFakeLimiters } from "../../support/limiters.ts";
import { waitingOf } from "../../support/waiting.ts";
import { ANSWERED, createScene, fakeTime, MINUTE, type Scene, SECOND } from "../../support/calls-scene.ts";

const HOUR = 60 * MINUTE;
const RESOURCES = ["listings", "sold", "areas"] as const;
const FAILED: Partial<SendEnd> = { status: 500 };
const REFUSED: Partial<SendEnd> = { status: 403 };
const UNREACHABLE: Partial<SendEnd> = {
  status: "unreachable",
  slowDown: { cause: "unreachable", forMs: undefined },
};
const SLOW_DOWN: Partial<SendEnd> = {
  status: 429,
  slowDown: { cause: "too-many-requests", forMs: 5 * SECOND },
};

/** Asks `count` different questions. @returns the results */
async function askAll(
  scene: Scene,
  count: number,
  end: Partial<SendEnd>,
  order: Partial<UpstreamRequest> = {},
) {
  const results: unknown[] = [];
  for (let index = 0; index < count; index++)
    results.push(await scene.ask({ query: `q${index}`, ...order }, end));
  return results;
}

const REFUSED_HERE: unknown = expect.objectContaining({
  code: "upstream-unavailable",
  details: expect.objectContaining({ refusedHere: true }),
});

it.each(["given-up", "stale-connection", "no-descriptor"] as const)(
  "a circuit stays closed after any number of %s",
  async (status) => {
    const scene = createScene();
    await askAll(scene, 12, { status });
    expect(await askAll(scene, 1, {})).toEqual([ANSWERED]);
  },
);

describe("a circuit opens", () => {
  it("after ten calls of which five failed, the first of them included", async () => {
    const scene = createScene();
    for (const end of ["failed", "", "", "", "", "", "failed", "failed", "failed", "failed"])
      await scene.ask({ query: "q" }, end === "failed" ? FAILED : {});
    const waiting = waitingOf({ deadlineAt: scene.clock.now() + SECOND });
    expect(await askAll(scene, 1, {}, { waiting })).toEqual([REFUSED_HERE]);
  });

  it("not while most calls succeed", async () => {
    const scene = createScene();
    for (let index = 0; index < 60; index++)
      await scene.ask({ query: `q${index}` }, index % 3 === 0 ? FAILED : {});
    expect(scene.limiters.sends).toHaveLength(60);
  });
});

/** In `budget.mode: observe`, when the budget is used up for much longer than the upstream's pause of five seconds. */
it.each([
  { deadlineMs: 20 * SECOND, isSent: true, does: "waits for the end of the pause" },
  { deadlineMs: SECOND, isSent: false, does: "whose deadline is earlier is refused at once" },
])("beside an observed budget that is used up, a call $does", async ({ deadlineMs, isSent }) => {
  const scene = createScene({ mode: "observe", windows: [{ limit: 2, windowMs: MINUTE }] });
  await askAll(scene, 2, {});
  await scene.ask({ query: "last" }, SLOW_DOWN);
  const waiting = waitingOf({ deadlineAt: scene.clock.now() + deadlineMs });
  const call = scene.call("app", {}, waiting);
  call.answer();
  await scene.clock.advance(4 * SECOND);
  expect(call.hasStarted()).toBe(false);
  if (!isSent) return expect(await call.result).toEqual(REFUSED_HERE);
  await scene.clock.advance(2 * SECOND);
  expect(await call.result).toBe(ANSWERED);
});

it.each([REFUSED, UNREACHABLE])("a replica whose calls end with %j stops no other one", async (end) => {
  const { scenes } = createReplicas(2);
  for (const scene of scenes.slice(1)) await askAll(scene, 3, end);
  expect(await Promise.all(scenes.map(({ ask }) => ask()))).toEqual([ANSWERED, expect.any(Error)]);
});

describe("an outage", () => {
  it.each([
    { replicas: 1, outageMs: 70 * SECOND, noticedMs: 15 * SECOND },
    { replicas: 3, outageMs: 70 * SECOND, noticedMs: 15 * SECOND },
    { replicas: 1, outageMs: 5 * MINUTE, noticedMs: 15 * SECOND },
    { replicas: 3, outageMs: 3 * HOUR, noticedMs: 35 * SECOND },
    { replicas: 3, outageMs: 3 * HOUR, noticedMs: 35 * SECOND, failed: UNREACHABLE },
    // After the first minute, nobody asks for the other resources, whose circuits are open, too.
    { replicas: 1, outageMs: HOUR, noticedMs: 35 * SECOND, later: ["listings" as const] },
  ])(
    "of $outageMs ms on $replicas replicas is noticed within $noticedMs ms of its end, for at most 4 % of the day",
    async ({ replicas, outageMs, noticedMs, later = RESOURCES, failed = FAILED }) => {
      const { scenes, limiters, clock } = createReplicas(replicas);
      const startedAt = clock.now();
      let asked = 0;
      const ask = async (end: Partial<SendEnd>): Promise<boolean[]> => {
        const results = scenes.flatMap((scene) =>
          (clock.now() < startedAt + MINUTE ? RESOURCES : later).map((resource) =>
            scene.ask({ resource, query: String(asked++) }, end),
          ),
        );
        return (await Promise.all(results)).map((result) => result === ANSWERED);
      };
      while (clock.now() < startedAt + outageMs) {
        await ask(failed);
        // In a long outage, probes are half a minute apart.
        await clock.advance(clock.now() < startedAt + 10 * MINUTE ? SECOND : 8 * SECOND);
      }
      expect(limiters.sends.length).toBeLessThanOrEqual(400);
      const endedAt = clock.now();
      while ((await ask({})).includes(false)) await clock.advance(SECOND);
      expect(clock.now() - endedAt).toBeLessThanOrEqual(noticedMs);
    },
    60_000,
  );

  it("that lasts costs at most 4 % of a day's calls in three hours", () => {
    const day = { name: "1d", limit: 1_000, windowMs: 24 * HOUR };
    const intervalMs = probeIntervalMs({ cause: "failing", openedAt: 0 }, HOUR, [day]);
    expect((3 * HOUR) / intervalMs).toBeCloseTo(40);
  });

  it("of one resource refuses no caller of another one that comes back as told", async () => {
    const { ask, clock } = createScene();
    /** Five calls to listings a second fail. */
    const pass = async (seconds: number): Promise<void> => {
      for (let n = 0; n < 5 * seconds; n++) {
        await ask({}, FAILED);
        await clock.advance(SECOND / 5);
      }
    };
    for (let second = 0; second < 30; second++) {
      await ask({ resource: "sold" }, FAILED);
      await pass(1);
    }
    await pass(28);
    const refused = await ask({ resource: "sold" });
    const { retryAfterSeconds = 0 } = refused instanceof Problem ? refused.details : {};
    await pass(retryAfterSeconds);
    expect([retryAfterSeconds > 0, await ask({ resource: "sold" })]).toEqual([true, ANSWERED]);
  });

  it("of one resource does not hide the cure of another one from a caller that asks once a minute", async () => {
    const { ask, clock } = createScene();
    const seen: unknown[] = [];
    for (let minute = 0; minute < 15; minute++) {
      seen.push(await ask({ resource: "sold" }, minute < 10 ? FAILED : {}));
      for (let second = 0; second < 60 && !seen.slice(10).includes(ANSWERED); second++) {
        await ask({ resource: minute === 0 && second < 9 ? "sold" : "listings" }, FAILED);
        await clock.advance(SECOND);
      }
    }
    expect(seen.slice(10)).toContain(ANSWERED);
  });

  it("allows a tenth of all calls to be retries", async () => {
    const scene = createScene();
    let retried = 0;
    for (let index = 0; index < 200; index++) {
      await scene.ask({ query: `q${index}` });
      if ((await scene.ask({ query: `q${index}`, cause: "retry" })) === ANSWERED) retried++;
    }
    expect(retried).toBeLessThanOrEqual(23);
    expect(retried).toBeGreaterThanOrEqual(20);
  });
});

it("a probe that ends without an answer is given back to all its circuits: the next call is the probe", async () => {
  const scene = createScene();
  await askAll(scene, 4, FAILED, { resource: "areas" });
  await scene.ask({}, { ...SLOW_DOWN, slowDown: { cause: "too-many-requests", forMs: SECOND } });
  await scene.clock.advance(2 * SECOND);
  const waiting = waitingOf({ deadlineAt: scene.clock.now() + SECOND });
  await askAll(scene, 1, { status: "given-up" }, { resource: "areas", waiting });
  expect(await askAll(scene, 2, {}, { resource: "areas", waiting })).toEqual([ANSWERED, ANSWERED]);
});

it.each(["enforce", "observe"] as const)(
  "with budget.mode %s, no call waits long for a slow probe",
  async (mode) => {
    const scene = createScene({ mode });
    await askAll(scene, 4, FAILED);
    await scene.clock.advance(2 * SECOND);
    for (const query of ["probe", "second"]) scene.call("app", { query });
    await scene.clock.advance(2 * SECOND);
    expect([scene.calls.inFlight(), scene.refused]).toEqual([1, ["other: cool-off"]]);
  },
);

describe("refused credentials", () => {
  it("stop nothing when only one question is refused, however often", async () => {
    const scene = createScene();
    for (let index = 0; index < 10; index++) await scene.ask({ query: "forbidden" }, REFUSED);
    expect(await scene.ask({ query: "other" })).toBe(ANSWERED);
  });

  it("are tried again with a question that was answered before, after 30 s and then at longer intervals", async () => {
    const scene = createScene();
    scene.circuits.probeWanted = () => true;
    await scene.ask({ query: "known" });
    await askAll(scene, 3, REFUSED);
    const startedAt = scene.clock.monotonic();
    while (scene.clock.monotonic() < startedAt + 10 * MINUTE) {
      await scene.ask({ query: "unknown" }, REFUSED);
      await scene.ask({ query: "known" }, REFUSED);
      await scene.clock.advance(SECOND);
    }
    const sinceStart = (at: number): number => Math.round((at - startedAt) / SECOND);
    expect(scene.limiters.sends.slice(4).map(({ at }) => sinceStart(at))).toEqual([30, 91, 213, 457]);
  });

  it("after an outage are tried again after 30 s, however long the outage was", async () => {
    const scene = createScene();
    const askEach = (end: Partial<SendEnd>) =>
      Promise.all(RESOURCES.map((resource) => scene.ask({ resource, query: resource }, end)));
    for (let second = 0; second < 140; second++) {
      await askEach(second < 120 ? FAILED : REFUSED);
      await scene.clock.advance(SECOND);
    }
    await askEach({});
    await scene.clock.advance(31 * SECOND);
    await askEach({});
    expect(await askEach({})).toEqual([ANSWERED, ANSWERED, ANSWERED]);
  });

  it("are logged once a minute, with the count", async () => {
    const scene = createScene();
    await askAll(scene, 80, REFUSED);
    await scene.clock.advance(MINUTE);
    await scene.ask({ query: "again" }, REFUSED);
    expect(scene.logged).toEqual([{ refusedCalls: 1 }, { refusedCalls: 3 }]);
  });
});

describe("while many calls wait for the end of others, few are planned again", () => {
  /** @returns a scene, and how many calls have been planned */
  function createCounted() {
    const clock = fakeTime();
    const limiters = createFakeLimiters({ windows: [{ limit: 1_000, windowMs: MINUTE }], clock });
    const limiter = limiters.join();
    let plans = 0;
    const state: Limiter["state"] = () => (plans++, limiter.state());
    const scene = createScene({ clock, limiters: { ...limiters, join: () => ({ ...limiter, state }) } });
    const start = () => Array.from({ length: 100 }, (_, n) => scene.call("app", { query: `q${n}` }));
    return { scene, start, plans: () => plans };
  }

  it("when a circuit of another resource changes", async () => {
    const { scene, start, plans } = createCounted();
    await askAll(scene, 4, FAILED, { resource: "areas" });
    start();
    await scene.clock.advance(0);
    const before = plans();
    expect(scene.circuits.tryNow()).toEqual(["areas"]);
    expect(scene.calls.waiting("interactive")).toBe(96);
    expect(plans() - before).toBeLessThan(10);
  });

  it("when their own circuit opens, which refuses them all", async () => {
    const { scene, start, plans } = createCounted();
    const calls = start();
    await scene.clock.advance(0);
    const before = plans();
    for (const { answer } of calls.slice(0, 4)) answer(FAILED);
    await scene.clock.advance(0);
    expect([scene.calls.waiting("interactive"), scene.refused.length]).toEqual([0, 96]);
    expect(plans() - before).toBeLessThan(10);
  });
});

/** Replicas that share circuits in memory, as they do with Redis. */
function createReplicas(count: number) {
  const clock = fakeTime();
  const windows = [
    { limit: 60, windowMs: MINUTE },
    { limit: 10_000, windowMs: 24 * HOUR },
  ];
  const limiters = createFakeLimiters({ windows, clock });
  const listeners: Parameters<SharedCircuits["subscribe"]>[0][] = [];
  const join = (): SharedCircuits => {
    const own = listeners.length;
    return {
      publish(scope, circuit) {
        for (const [index, listener] of listeners.entries()) if (index !== own) listener(scope, circuit);
      },
      subscribe: (listener) => void listeners.push(listener),
    };
  };
  const scenes = Array.from({ length: count }, () =>
    createScene({ windows, clock, limiters, shared: join() }),
  );
  return { scenes, limiters, clock };
}
