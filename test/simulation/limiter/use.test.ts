import { describe, expect, it } from "vitest";

import type { Acquired } from "../../../src/ratelimit/limiter.ts";
import type { SharedLimiter } from "../../../src/ratelimit/shared-limiter.ts";
import { createRandom } from "../../support/random.ts";
import { playHistory } from "./history.ts";
import { drawPlan, type Plan } from "./plan.ts";
import { createWorld, start, type World } from "./world.ts";

const WINDOW_MS = 30_000;

/** No faults, and every busy replica wants more than the limit. */
const used = async (limit: number, dispatchers: Plan["dispatchers"]): Promise<number> => {
  const outcome = await playHistory(7, {
    change: (plan) => ({
      ...plan,
      windows: [{ name: "30s", limit, windowMs: WINDOW_MS }],
      laterWindows: [],
      dispatchers,
      slots: 4,
      faults: [],
      faultyMs: 0,
      unsettled: 0,
      isMeasured: true,
      leaseMs: 2_000,
      timeoutMs: 250,
      arrivalMs: 5_000,
      degradedForMs: 60_000,
    }),
  });
  expect(outcome.problems).toEqual([]);
  return outcome.used;
};

/**
 * Two things are missing in windows of 30 s. Each permit is unused for a tenth of a second, until the arrival of its call
 * has been reported and the permit is requested again. One busy replica cannot use the escrow of the two idle ones: 2 of
 * 60, 1 of 20 or 10.
 */
describe("with Redis up", () => {
  it("three busy replicas use at least 99 % of the limit", async () => {
    expect(await used(60, [5, 5, 5])).toBeGreaterThanOrEqual(0.99);
  });

  it("one busy replica beside two idle ones uses at least 96 % of a limit of 60", async () => {
    expect(await used(60, [10, 0, 0])).toBeGreaterThanOrEqual(0.96);
  });

  it("one busy replica uses all but one permit of a limit of 20 or 10", async () => {
    expect(await used(20, [10, 0, 0])).toBeGreaterThanOrEqual(0.94);
    expect(await used(10, [10, 0, 0])).toBeGreaterThanOrEqual(0.89);
  });
});

/** Two replicas that have joined. */
async function two(
  changes: Partial<Plan> = {},
): Promise<{ world: World; here: SharedLimiter; there: SharedLimiter }> {
  const random = createRandom(1);
  const windows = [{ name: "30s", limit: 100, windowMs: WINDOW_MS }];
  const plan: Plan = {
    ...drawPlan(random),
    windows,
    slots: 2,
    dispatchers: [0, 0],
    faults: [],
    ...changes,
  };
  const world = createWorld(plan, random, createRandom(2));
  world.isHealed = true;
  const [here, there] = [start(world, 0).limiter, start(world, 1).limiter];
  await world.clock.advance(10_000);
  return { world, here, there };
}

describe("the calls of an app", () => {
  const ask = (limiter: SharedLimiter, app: string): Promise<Acquired> =>
    limiter.acquire({
      app,
      priority: "interactive",
      resource: "sold",
      cause: "miss",
      query: "",
      leave: [0],
    });
  const sentBy = (limiter: SharedLimiter, app: string): number | undefined =>
    limiter.state().windows[0]?.byApp.get(app);

  it("include those that other replicas sent a moment ago, before Redis says of which app they are", async () => {
    const { world, here, there } = await two();
    // Both learn what waits elsewhere.
    there.announce([{ app: "hog", priority: "interactive", count: 50 }]);
    here.announce([{ app: "quiet", priority: "interactive", count: 1 }]);
    await world.clock.advance(1_000);
    expect(here.state().waitingElsewhere).toMatchObject([{ app: "hog", count: 50 }]);

    world.observe = ({ reply }) => {
      // From now on, no reply says which apps the calls are of.
      expect(reply).not.toContain('"byApp"');
    };
    for (let nth = 0; nth < 40; nth++) void ask(there, "hog");
    await world.clock.advance(60);
    void ask(here, "quiet");
    await world.clock.advance(60);
    expect([sentBy(here, "hog"), sentBy(here, "quiet")]).toEqual([40, 1]);
    expect(world.problems).toEqual([]);
  });

  it("count once, also when the reply that grants a permit says of which app the calls are", async () => {
    const { world, here } = await two();
    here.announce([{ app: "busy", priority: "interactive", count: 9 }]);
    let granted = 0;
    let isDescribedWithGrant = false;
    world.observe = ({ reply }) => {
      isDescribedWithGrant ||= reply.includes('"byApp"') && reply.includes('"isGranted":true');
    };
    for (let nth = 0; nth < 90; nth++) {
      void ask(here, "busy").then(({ kind }) => (granted += kind === "permit" ? 1 : 0));
      await world.clock.advance(10);
      expect(sentBy(here, "busy") ?? 0).toBe(granted);
    }
    await world.clock.advance(200);
    expect([granted, sentBy(here, "busy"), isDescribedWithGrant]).toEqual([90, 90, true]);
    expect(world.problems).toEqual([]);
  });
});

it("a replica that stops gives its slot back, also when Redis answers its first command too late", async () => {
  const { world, here, there } = await two({ timeoutMs: 500, leaseMs: 2_000 });
  const [first] = world.replicas;
  if (first === undefined) throw new Error("no replica");
  // Only for the command that gives the slot back.
  first.slowMs = world.plan.timeoutMs + 10;
  void here.close();
  first.slowMs = 0;
  await world.clock.advance(2 * world.plan.timeoutMs);
  const slots = there.replicas();
  await world.clock.advance(100);
  expect(await slots).toMatchObject([{ isLive: true, holder: "p2" }]);
  expect(world.problems).toEqual([]);
});

describe("a replica that starts while Redis is away", () => {
  const warnings = async ({ awayMs, hasData }: Record<"awayMs", number> & { hasData: boolean }) => {
    const random = createRandom(1);
    const world = createWorld({ ...drawPlan(random), faults: [] }, random, createRandom(2));
    const { clock, server, replicas, log } = world;
    if (hasData) start(world, 0);
    await clock.advance(5_000);
    for (const replica of replicas) replica.isAlive = false;
    server.isUp = false;
    start(world, 1);
    await clock.advance(awayMs);
    server.isUp = true;
    await clock.advance(5_000);
    for (const replica of replicas) replica.isAlive = false;
    return log.filter((line) =>
      line.includes("Redis was away when this replica started, and now has no data"),
    );
  };

  it("warns once that a limit may be exceeded when it finds no data", async () => {
    expect(await warnings({ awayMs: 4_000, hasData: false })).toHaveLength(1);
  });

  it.each([
    { what: "Redis still has its data", awayMs: 4_000, hasData: true },
    { what: "Redis was away for half a second", awayMs: 500, hasData: false },
  ])("does not warn when $what", async (how) => {
    expect(await warnings(how)).toEqual([]);
  });
});
