/** Circuits through the dispatcher: the upstream fails, asks for a pause, or refuses the credentials. */
import { describe, expect, it } from "vitest";

import { probeDelayMs } from "../../../src/ratelimit/circuit-breaker.ts";
import type { CircuitReport, SharedCircuits } from "../../../src/ratelimit/circuits.ts";
import type { UpstreamRequest, SendEnd } from "../../../src/types.ts";
import { createFakeClock, settled } from "../../support/fake-clock.ts";
import { mostWithin } from "../../support/arrivals.ts";
import { createFakeLimiters } from "../../support/fake-limiter.ts";
import {
  ANSWERED,
  comeTrue,
  createScene,
  MINUTE,
  passUntil,
  type Scene,
  SECOND,
} from "./dispatcher-support.ts";

const HOUR = 60 * MINUTE;
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

function sentAt({ limiters, clock }: Scene, startedAt: number): number[] {
  return limiters.sends.map(({ at }) =>
    Math.round((at - startedAt + (clock.now() - clock.monotonic())) / SECOND),
  );
}

const UNAVAILABLE = { code: "upstream-unavailable", details: { refusedHere: true } };

describe("a circuit stays closed", () => {
  it.each(["given-up", "stale-connection", "no-descriptor"] as const)(
    "after any number of %s",
    async (status) => {
      const scene = createScene();
      await askAll(scene, 12, { status });
      expect(await askAll(scene, 1, {})).toEqual([ANSWERED]);
    },
  );
});

describe("a circuit opens", () => {
  it.each([
    { on: "four failures of a resource", end: FAILED, after: 4, others: ANSWERED },
    { on: "three unreachable calls in a row", end: UNREACHABLE, after: 3, others: UNAVAILABLE },
    { on: "a 429", end: SLOW_DOWN, after: 1, others: UNAVAILABLE },
  ])("on $on: calls are refused at once", async ({ end, after, others }) => {
    const scene = createScene();
    const waiting = { ...scene.clock, deadlineAt: () => scene.clock.now() + SECOND };
    await askAll(scene, 20, end, { waiting: waitingUntil(waiting.deadlineAt) });
    expect(scene.limiters.sends).toHaveLength(after);
    expect(await scene.ask({ query: "x", waiting: waitingUntil(waiting.deadlineAt) })).toMatchObject(
      UNAVAILABLE,
    );
    const elsewhere = await scene.ask({ resource: "areas", waiting: waitingUntil(waiting.deadlineAt) });
    if (others === ANSWERED) expect(elsewhere).toBe(ANSWERED);
    else expect(elsewhere).toMatchObject(UNAVAILABLE);
  });

  it("not while most calls succeed", async () => {
    const scene = createScene();
    for (let index = 0; index < 60; index++)
      await scene.ask({ query: `q${index}` }, index % 3 === 0 ? FAILED : {});
    expect(scene.limiters.sends).toHaveLength(60);
  });

  it("on a 429, and a caller with enough time waits for the end of the pause", async () => {
    const scene = createScene();
    await scene.ask({}, SLOW_DOWN);
    const patient = scene.call("app");
    await passUntil(scene.clock, patient.hasStarted);
    expect(scene.clock.now() - Date.UTC(2026, 0, 15, 12)).toBeGreaterThanOrEqual(5 * SECOND);
  });
});

describe("a half-open circuit", () => {
  async function halfOpen(): Promise<Scene> {
    const scene = createScene();
    await askAll(scene, 4, FAILED);
    await scene.clock.advance(SECOND);
    return scene;
  }

  it("sends one call as a probe, closes when it succeeds, and then sends the calls that waited for it", async () => {
    const scene = await halfOpen();
    const [probe, other] = [scene.call("app"), scene.call("app")];
    await settled();
    expect([probe.hasStarted(), other.hasStarted()]).toEqual([true, false]);
    probe.answer();
    await comeTrue(other.hasStarted);
    expect(scene.dispatcher.expect({ app: "app", priority: "interactive", resource: "listings" }).forMs).toBe(
      0,
    );
  });

  it("refuses at once the calls that waited for a probe when the probe fails", async () => {
    const scene = await halfOpen();
    const [probe, other] = [scene.call("app"), scene.call("app")];
    await settled();
    probe.answer(FAILED);
    expect(await other.result).toMatchObject({ ...UNAVAILABLE, details: { retryAfterSeconds: 2 } });
    expect(await probe.result).toBe(ANSWERED);
    expect(scene.limiters.sends).toHaveLength(5);
  });

  it("is probed by one replica", async () => {
    const clock = createFakeClock();
    const limiters = createFakeLimiters({
      windows: [{ limit: 100, windowMs: MINUTE }],
      now: clock.monotonic,
    });
    const hub = createHub();
    const [one, two] = [1, 2].map(() => createScene({ clock, limiters, shared: hub() }));
    if (one === undefined || two === undefined) throw new Error("two replicas");
    await askAll(one, 4, FAILED);
    expect(await two.ask()).toMatchObject(UNAVAILABLE);
    await clock.advance(SECOND);
    const [probe, other] = [one.call("app"), two.call("app")];
    await settled();
    expect([probe.hasStarted(), other.hasStarted()]).toEqual([true, false]);
    probe.answer();
    await comeTrue(other.hasStarted);
  });
});

describe("an outage", () => {
  it("of three hours costs at most 1 % of the budget, and its end is noticed within 17 s", async () => {
    const scene = createScene({ windows: [{ limit: 600, windowMs: MINUTE }] });
    const startedAt = scene.clock.now();
    while (scene.clock.now() < startedAt + 3 * HOUR) {
      await scene.ask({ query: `q${scene.clock.now()}`, resource: "listings" }, FAILED);
      await scene.clock.advance(SECOND);
    }
    const spent = scene.limiters.sends.length;
    expect(spent).toBeLessThan(3 * 60 * 600 * 0.01);
    const recoveredAt = scene.clock.now();
    while ((await scene.ask()) !== ANSWERED) await scene.clock.advance(SECOND);
    expect(scene.clock.now() - recoveredAt).toBeLessThanOrEqual(17 * SECOND);
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

  it.each([
    { budget: "60/1m", windows: [{ limit: 60, windowMs: MINUTE }], afterAnHour: 100, most: [6] },
    { budget: "1000/1h", windows: [{ limit: 1_000, windowMs: HOUR }], afterAnHour: 360, most: [10] },
    {
      budget: "60/1m,10000/1d",
      windows: [
        { limit: 60, windowMs: MINUTE },
        { limit: 10_000, windowMs: 24 * HOUR },
      ],
      afterAnHour: 950,
      most: [6, 100],
    },
    { budget: "20/1s", windows: [{ limit: 20, windowMs: SECOND }], afterAnHour: 15, most: [1] },
  ])("on $budget is probed every $afterAnHour s after an hour", ({ windows, afterAnHour, most }) => {
    const rules = { windows: windows.map((window) => ({ ...window, name: "w" })) };
    const probes = [0];
    const delayAt = (ageMs: number): number =>
      probeDelayMs({ cause: "failing", failedProbes: probes.length - 1, ageMs, circuits: 1 }, rules);
    for (let at = delayAt(0); at < 24 * HOUR; at += delayAt(at)) probes.push(at);
    const delays = probes.map((at, index) => at - (probes[index - 1] ?? 0));
    // So the end of an outage of 40 seconds is noticed within 15.
    expect(Math.max(...delays.filter((_, index) => (probes[index] ?? 0) < 55 * SECOND))).toBe(15 * SECOND);
    const afterwards = delays.find((_, index) => (probes[index - 1] ?? 0) >= 2 * HOUR) ?? 0;
    expect(Math.abs(afterwards - afterAnHour * SECOND)).toBeLessThan(0.03 * afterAnHour * SECOND);
    for (const [index, { windowMs }] of windows.entries())
      expect(mostWithin(probes.slice(1), windowMs)).toBeLessThanOrEqual(most[index] ?? 0);
  });
});

describe("refused credentials", () => {
  it("stop calls after three different questions in a row, and callers get 502 with Retry-After", async () => {
    const scene = createScene();
    await askAll(scene, 80, REFUSED);
    expect(scene.limiters.sends).toHaveLength(3);
    expect(await scene.ask()).toMatchObject({
      code: "upstream-authentication-failed",
      details: { retryAfterSeconds: 30, refusedHere: true },
    });
  });

  it("stop nothing when only one question is refused, however often", async () => {
    const scene = createScene();
    for (let index = 0; index < 10; index++) await scene.ask({ query: "forbidden" }, REFUSED);
    expect(await scene.ask({ query: "other" })).toBe(ANSWERED);
  });

  it("are tried again with a question that was answered before, after 30 s and then at longer intervals", async () => {
    const scene = createScene();
    await scene.ask({ query: "known" });
    await askAll(scene, 3, REFUSED);
    const startedAt = scene.clock.now();
    while (scene.clock.now() < startedAt + 10 * MINUTE) {
      await scene.ask({ query: "unknown" }, REFUSED);
      await scene.ask({ query: "known" }, REFUSED);
      await scene.clock.advance(SECOND);
    }
    expect(sentAt(scene, startedAt).slice(4)).toEqual([30, 90, 210, 450]);
  });

  it("are tried at once with a new key", async () => {
    const scene = createScene();
    await askAll(scene, 10, REFUSED);
    scene.key.version = 2;
    expect(await askAll(scene, 10, {})).toEqual(Array.from({ length: 10 }, () => ANSWERED));
  });

  it("are logged once a minute, with the counts", async () => {
    const scene = createScene();
    await askAll(scene, 80, REFUSED);
    await scene.clock.advance(MINUTE);
    await scene.ask({ query: "again" }, REFUSED);
    expect(scene.logged).toEqual([
      { refusedCalls: 1, refusedCallers: 0 },
      { refusedCalls: 3, refusedCallers: 77 },
    ]);
  });
});

function waitingUntil(deadlineAt: () => number): UpstreamRequest["waiting"] {
  return {
    abandoned: new AbortController().signal,
    deadlineAt,
    priority: () => "interactive",
    apps: () => ["app"],
    onChange: () => undefined,
    inQueue: () => undefined,
  };
}

/** Shares circuits in memory, as Redis does for replicas. */
function createHub(): () => SharedCircuits {
  const listeners: ((
    scope: Parameters<SharedCircuits["publish"]>[0],
    report: CircuitReport | undefined,
  ) => void)[] = [];
  const claimed = new Set<string>();
  return () => {
    let own: (typeof listeners)[number] | undefined;
    return {
      publish(scope, report) {
        claimed.delete(scope);
        for (const listener of listeners) if (listener !== own) listener(scope, report);
      },
      subscribe(listener) {
        own = listener;
        listeners.push(listener);
      },
      claimProbe: async (scope) => !claimed.has(scope) && claimed.add(scope).has(scope),
    };
  };
}
