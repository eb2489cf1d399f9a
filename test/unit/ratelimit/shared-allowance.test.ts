import { describe, expect, it } from "vitest";

import type { Wish } from "../../../src/ratelimit/allowance.ts";
import type { Terms } from "../../../src/ratelimit/arbiter.ts";
import { createSharedAllowance, type SharedAllowance } from "../../../src/ratelimit/shared-allowance.ts";
import type { SharedBudget, TakeReply } from "../../../src/ratelimit/shared-budget.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";

const TERMS: Terms = {
  windows: [{ name: "1m", limit: 10, windowMs: 60_000 }],
  reserve: 0.1,
  apps: new Map([["web", { weight: 1, perDay: null }]]),
  leaseMs: 9_000,
  maxCoolOffMs: 60_000,
};
const WISH: Wish = { app: "web", priority: "interactive", resource: "areas", cause: "miss", query: "" };

/** A shared budget that nobody can reach. */
const UNREACHABLE: SharedBudget = {
  take: () => Promise.reject(new Error("out of reach")),
  settle: () => Promise.reject(new Error("out of reach")),
  look: () => Promise.reject(new Error("out of reach")),
  join: () => Promise.reject(new Error("out of reach")),
  leave: () => Promise.reject(new Error("out of reach")),
};

function open(clock: FakeClock, replicas = 2, shared = UNREACHABLE): SharedAllowance {
  return createSharedAllowance({
    origin: "api",
    terms: TERMS,
    shared,
    clock,
    replica: "replica-1",
    replicas,
    degradedShare: 1 / replicas,
    degradedForMs: 3_600_000,
    report: () => undefined,
  });
}

/** How many places there are at once. */
async function placesIn(allowance: SharedAllowance): Promise<number> {
  for (let places = 0; ; places++) {
    const taken = await allowance.take([WISH]);
    if (taken.kind === "wait" || places > 100) return places;
    allowance.settle(taken.grant, { status: 200, arrivedAfterMs: 0, durationMs: 0 });
  }
}

describe("a replica that has just begun", () => {
  it("sends nothing while it tries to reach the shared budget: it knows nothing of what was spent", async () => {
    const clock = createFakeClock();
    const allowance = open(clock);
    await clock.advance(2_900);
    expect(await placesIn(allowance)).toBe(0);
    expect(allowance.overview().mode).toBe("joining");
  });

  it("goes on within its part when that has failed for a while", async () => {
    const clock = createFakeClock();
    const allowance = open(clock);
    await clock.advance(3_500);
    expect(allowance.overview().mode).toBe("cut-off");
    expect(await placesIn(allowance)).toBe(5);
    await clock.advance(60_002);
    expect(await placesIn(allowance)).toBe(5);
  });

  it("stops when it has been cut off for as long as its share is held back", async () => {
    const clock = createFakeClock();
    const allowance = open(clock);
    await clock.advance(3_500);
    expect(await placesIn(allowance)).toBe(5);
    await clock.advance(3_600_000);
    expect(await placesIn(allowance)).toBe(0);
  });
});

describe("who waits at a replica", () => {
  it("is told with what it says anyway, but not beside a question that may let one of them go", async () => {
    const clock = createFakeClock();
    const told: unknown[] = [];
    const others = { live: 2, held: [0], queued: [] };
    const answer = Promise.withResolvers<TakeReply>();
    const shared: SharedBudget = {
      ...UNREACHABLE,
      join: async () => ({ gen: "1", seq: 0, entry: "0-0", sends: [] }),
      take: ({ queued }) => {
        told.push({ asking: queued });
        return answer.promise;
      },
      look: async ({ queued }) => {
        told.push(queued);
        const news = { news: [], entry: "0-0", isAll: true, circuits: [], apps: [], replicas: [] };
        return { kind: "news", seq: 0, ...news, ...others };
      },
    };
    const allowance = open(clock, 2, shared);
    let queued = [{ app: "web", priority: "interactive" as const, length: 1 }];
    allowance.attach({ queued: () => queued, changed: () => undefined });
    const say = async (): Promise<unknown> => {
      told.length = 0;
      allowance.check();
      await clock.advance(0);
      return told.at(-1);
    };
    await clock.advance(1);
    expect(await say()).toEqual(queued);
    const taking = allowance.take([WISH]);
    expect(told.at(-1)).toEqual({ asking: queued });
    expect(await say()).toBeUndefined();
    answer.resolve({ kind: "granted", index: 0, id: "1@web", seq: 1, isOwn: true, ...others });
    await taking;
    queued = [];
    expect(await say()).toEqual([]);
  });
});
