import fc from "fast-check";
import { describe, expect, it } from "vitest";

import {
  ABOUT_MS,
  type Candidate,
  enter,
  expect as expectTurn,
  giveBack,
  isOverShare,
  LOOKS,
  shareOf,
  type Terms,
} from "../../../src/ratelimit/arbiter.ts";
import { DAY_MS } from "../../../src/ratelimit/windows.ts";
import { PRIORITIES } from "../../../src/types.ts";
import { type Bench, candidateOf, createBench, LEASE_MS, MINUTE, termsOf } from "./arbiter-support.ts";

const NOW = 1_000_000;
const NOBODY = { ahead: 0, ownAhead: 0 };
const windowOf = (limit: number, windowMs = MINUTE): Terms["windows"][number] => ({
  name: `${windowMs}ms`,
  limit,
  windowMs,
});

describe("an app's share of a window", () => {
  it.each<[string, Record<string, number>, string, number, number]>([
    ["is all of it where it is the only one", { a: 3 }, "a", 60, 60],
    ["is by weight", { a: 1, b: 2, c: 4 }, "b", 70, 20],
    ["is rounded down", { a: 1, b: 2 }, "b", 100, 66],
    ["is one at least", { a: 1, b: 999 }, "a", 60, 1],
    ["is that of weight 1 for an app that is not known", { a: 1, b: 1 }, "stranger", 60, 30],
  ])("%s", (_name, apps, app, limit, expected) => {
    expect(shareOf(termsOf(apps), windowOf(limit), app)).toBe(expected);
  });
});

describe("what an app may take", () => {
  it("is the whole window where nobody else is about", () => {
    const bench = createBench(termsOf({ a: 1, b: 1 }));
    expect(bench.sendAll(candidateOf("a"), 100, NOW)).toBe(60);
    expect(bench.ask([candidateOf("a")], NOW)).toEqual({ kind: "wait", at: NOW + MINUTE + 1 });
  });

  it("is its share at once while others are about, and what they leave evenly over the window", () => {
    const bench = createBench(termsOf({ a: 1, b: 2 }, { windows: [windowOf(60)] }));
    bench.sendAll(candidateOf("b"), 1, NOW);
    // Its share is 20, and it may borrow up to 40 a minute: one every 1.5 seconds.
    expect(bench.sendAll(candidateOf("a"), 100, NOW)).toBe(21);
    expect(bench.ask([candidateOf("a")], NOW)).toEqual({ kind: "wait", at: NOW + 1_500 });
    expect(bench.sendAll(candidateOf("a"), 100, NOW + 1_499)).toBe(0);
    expect(bench.sendAll(candidateOf("a"), 100, NOW + 1_500)).toBe(1);
  });

  it("is all that is left as soon as the others have not asked for a minute", () => {
    const bench = createBench(termsOf({ a: 1, b: 2 }, { windows: [windowOf(60, 1_000)] }));
    bench.ask([candidateOf("b")], NOW);
    expect(bench.sendAll(candidateOf("a"), 100, NOW + MINUTE)).toBe(21);
    expect(bench.sendAll(candidateOf("a"), 100, NOW + MINUTE + 1)).toBe(39);
  });

  it("is as much again when a place was given back", () => {
    const bench = createBench(termsOf({ a: 1 }, { windows: [windowOf(1)] }));
    bench.ask([candidateOf("a")], NOW);
    expect(bench.ask([candidateOf("a")], NOW).kind).toBe("wait");
    giveBack(bench.standing, { id: "1", app: "a" });
    expect(bench.ask([candidateOf("a")], NOW).kind).toBe("granted");
  });

  it("includes what was borrowed once, but not as its own share", () => {
    const bench = createBench(termsOf({ a: 1, b: 1 }, { windows: [windowOf(4)] }));
    bench.ask([candidateOf("b")], NOW);
    bench.sendAll(candidateOf("a"), 3, NOW);
    const { own, all } = bench.standing.apps.get("a") ?? expect.fail("it has sent");
    expect([own.arrived.length, all.arrived.length]).toEqual([2, 3]);
  });

  it("counts a send that nothing is heard of from the end of its lease", () => {
    const bench = createBench(termsOf({ a: 1 }, { windows: [windowOf(1)] }));
    bench.ask([candidateOf("a")], NOW);
    const freeAgain = NOW + LEASE_MS + MINUTE + 1;
    expect(bench.ask([candidateOf("a")], freeAgain - 1)).toEqual({ kind: "wait", at: freeAgain });
    expect(bench.ask([candidateOf("a")], freeAgain).kind).toBe("granted");
  });
});

describe("whose turn it is", () => {
  it("goes by priority: callers before background work, that before refreshing, that before prefetching", () => {
    const bench = createBench(termsOf({ a: 1, b: 1 }));
    const wishes = PRIORITIES.toReversed().map((priority) => candidateOf("a", priority));
    const order: string[] = [];
    while (wishes.length > 0) {
      const decision = bench.ask(wishes, NOW);
      if (decision.kind === "wait") expect.fail("there is room");
      order.push(...wishes.splice(decision.index, 1).map(({ priority }) => priority));
    }
    expect(order).toEqual(PRIORITIES);
  });

  it("goes by priority even where the app of the caller has had much more", () => {
    const bench = createBench(termsOf({ a: 1, b: 1 }));
    bench.sendAll(candidateOf("a"), 20, NOW);
    const wishes = [candidateOf("b", "background"), candidateOf("a")];
    expect(bench.ask(wishes, NOW)).toEqual({ kind: "granted", index: 1 });
  });

  it("goes to the app that has had least for its weight", () => {
    const bench = createBench(termsOf({ a: 1, b: 2 }));
    const wishes = [candidateOf("a"), candidateOf("b")];
    const order = Array.from({ length: 9 }, () => {
      const decision = bench.ask(wishes, NOW);
      return decision.kind === "granted" ? wishes[decision.index]?.app : "nobody";
    });
    expect(order.filter((app) => app === "a")).toHaveLength(3);
    expect(order.slice(0, 3).filter((app) => app === "a")).toHaveLength(1);
  });

  it("gives one that was idle no credit for that", () => {
    const bench = createBench(termsOf({ a: 1, b: 1 }));
    bench.sendAll(candidateOf("a"), 20, NOW);
    const wishes = [candidateOf("a"), candidateOf("b")];
    const order = Array.from({ length: 6 }, () => {
      const decision = bench.ask(wishes, NOW);
      return decision.kind === "granted" ? wishes[decision.index]?.app : "nobody";
    });
    expect(order.filter((app) => app === "a").length).toBeGreaterThanOrEqual(2);
  });
});

describe("the reserve", () => {
  it.each(["background", "refresh", "prefetch"] as const)(
    "is not touched by %s, and is there for callers",
    (priority) => {
      const bench = createBench(termsOf({ a: 1 }, { reserve: 0.25, windows: [windowOf(60)] }));
      expect(bench.sendAll(candidateOf("a", priority), 100, NOW)).toBe(45);
      expect(bench.sendAll(candidateOf("a"), 100, NOW)).toBe(15);
    },
  );

  it("is of every window, rounded down", () => {
    const windows = [windowOf(7), windowOf(60, 3_600_000)];
    const bench = createBench(termsOf({ a: 1 }, { reserve: 0.2, windows }));
    expect(bench.sendAll(candidateOf("a", "background"), 100, NOW)).toBe(6);
  });
});

describe("an app's limit for a day", () => {
  const apps = { a: { weight: 1, perDay: 3 }, b: 1 };

  it("holds whatever others leave, for any 24 hours", () => {
    const bench = createBench(termsOf(apps));
    expect(bench.sendAll(candidateOf("a"), 2, NOW)).toBe(2);
    expect(bench.sendAll(candidateOf("a"), 100, NOW + DAY_MS / 2)).toBe(1);
    expect(bench.ask([candidateOf("a")], NOW + DAY_MS)).toEqual({ kind: "wait", at: NOW + DAY_MS + 1 });
    expect(bench.sendAll(candidateOf("a"), 100, NOW + DAY_MS + 1)).toBe(2);
  });

  it("is no other app's concern", () => {
    const bench = createBench(termsOf(apps));
    bench.sendAll(candidateOf("a"), 3, NOW);
    expect(bench.ask([candidateOf("a"), candidateOf("b")], NOW)).toEqual({ kind: "granted", index: 1 });
  });
});

describe("what one who waits is told to wait for", () => {
  it.each<[string, Partial<Terms>, number, Candidate, string]>([
    ["is the windows", { windows: [windowOf(5)] }, 5, candidateOf("a"), "budget"],
    ["is its share while others are about", {}, 31, candidateOf("a"), "share"],
    ["is its limit for a day", {}, 40, candidateOf("limited"), "per-day"],
  ])("%s", (_name, changes, sends, candidate, why) => {
    const apps = { a: 1, b: 1, limited: { weight: 1, perDay: 20 } };
    const bench = createBench(termsOf(apps, changes));
    if (why === "share") bench.ask([candidateOf("b")], NOW);
    bench.sendAll(candidate, sends, NOW);
    expect(expectTurn(bench.standing, bench.terms, candidate, NOBODY, NOW).why).toBe(why);
  });

  it("says whether an app is over its share: not where it has all of the window", () => {
    const bench = createBench(termsOf({ a: 1, b: 1 }));
    bench.sendAll(candidateOf("a"), 29, NOW);
    expect(isOverShare(bench.standing, bench.terms, "a", NOW)).toBe(false);
    bench.sendAll(candidateOf("a"), 1, NOW);
    expect(isOverShare(bench.standing, bench.terms, "a", NOW)).toBe(true);
    const only = createBench(termsOf({ a: 1 }));
    only.sendAll(candidateOf("a"), 60, NOW);
    expect(isOverShare(only.standing, only.terms, "a", NOW)).toBe(false);
  });
});

/** Sends of the past: by whom, and how long after the one before. */
const past = fc.array(
  fc.record({ app: fc.constantFrom("a", "b", "c"), gapMs: fc.nat(4_000), arrives: fc.boolean() }),
  { maxLength: 50 },
);
const anyTerms = fc
  .record({
    weights: fc.tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 5 })),
    limits: fc.tuple(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 10, max: 30 })),
    reserve: fc.constantFrom(0, 0.25),
    perDay: fc.constantFrom(null, 5, 20),
  })
  .map(({ weights: [a, b], limits: [few, many], reserve, perDay }) =>
    termsOf(
      { a, b, c: { weight: 1, perDay } },
      { reserve, windows: [windowOf(few, 10_000), windowOf(many, 30_000)] },
    ),
  );

/** When one is let through that comes at an instant, and then whenever it is told to. */
function turnOf(bench: Bench, candidate: Candidate, from: number): number {
  for (let at = from; ;) {
    const decision = bench.ask([candidate], at);
    if (decision.kind === "granted") return at;
    expect(decision.at).toBeGreaterThan(at);
    at = decision.at;
  }
}

describe("the time when a turn is expected", () => {
  it("is after that at which another app wants the last place again", () => {
    const bench = createBench(termsOf({ a: 4, b: 1, c: 1 }, { windows: [windowOf(10, 30_000)] }));
    bench.sendAll(candidateOf("b"), 1, NOW);
    // Its share, and what it may borrow, every 7.5 seconds.
    for (const at of [1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 6_500, 14_000, 21_500])
      expect(bench.sendAll(candidateOf("a"), 1, NOW + at)).toBe(1);
    // The window is full. The first place that comes free, 30,001 ms after the beginning, is b's, which has not
    // had its share from then on; the second is there when the next send has left.
    const at = NOW + 1_000 + 30_001;
    const now = NOW + 22_000;
    const expected = expectTurn(bench.standing, bench.terms, candidateOf("a"), NOBODY, now);
    expect(expected).toEqual({ at, why: "share" });
    expect(bench.ask([candidateOf("a")], now)).toEqual({ kind: "wait", at });
    expect(bench.ask([candidateOf("a")], at - 1)).toEqual({ kind: "wait", at });
    expect(bench.ask([candidateOf("a")], at).kind).toBe("granted");
  });

  it("is not after that at which its own share comes back", () => {
    const bench = createBench(termsOf({ a: 1, b: 1 }, { windows: [windowOf(4)] }));
    bench.ask([candidateOf("b")], NOW);
    bench.sendAll(candidateOf("a"), 2, NOW);
    // It may borrow every 30 seconds, and does so once.
    const now = NOW + 50_000;
    expect(bench.sendAll(candidateOf("a"), 100, now)).toBe(1);
    const at = NOW + MINUTE + 1;
    expect(expectTurn(bench.standing, bench.terms, candidateOf("a"), NOBODY, now).at).toBe(at);
    expect(bench.ask([candidateOf("a")], now)).toEqual({ kind: "wait", at });
    expect(bench.ask([candidateOf("a")], at).kind).toBe("granted");
  });

  it("is when it comes, for one that waits alone and of whose sends all have arrived", () => {
    const asker = fc.record({
      app: fc.constantFrom("a", "b", "c"),
      priority: fc.constantFrom("interactive" as const, "background" as const),
    });
    const early: boolean[] = [];
    fc.assert(
      fc.property(anyTerms, past, asker, (terms, sends, { app, priority }) => {
        const bench = createBench(terms);
        const asked = new Map<string, number>();
        let now = NOW;
        for (const { app, gapMs } of sends) {
          now += gapMs;
          asked.set(app, now);
          bench.sendAll(candidateOf(app), 1, now);
        }
        const candidate = candidateOf(app, priority);
        const { at, why } = expectTurn(bench.standing, terms, candidate, NOBODY, now);
        // What others are likely to want is looked at a few times in a window only.
        const blurMs = why === "share" ? 30_000 / LOOKS : 0;
        if (at - 1 - blurMs > now && bench.ask([candidate], at - 1 - blurMs).kind === "granted") {
          expect(why).toBe("share");
          early.push([...asked].every(([other, last]) => other === app || last >= at - 1 - ABOUT_MS));
          return;
        }
        expect(turnOf(bench, candidate, at) - at).toBeLessThanOrEqual(blurMs);
      }),
      { numRuns: 500 },
    );
    // Now and then a place is there for a moment between two looks, though everybody is still about.
    expect(early.filter(Boolean).length).toBeLessThan(25);
  });

  it("is what one is told who asks, whatever is on its way", () => {
    fc.assert(
      fc.property(anyTerms, past, fc.constantFrom("a", "b", "c"), (terms, sends, app) => {
        const bench = createBench(terms);
        let now = NOW;
        for (const { app, gapMs, arrives } of sends) {
          now += gapMs;
          if (arrives) bench.sendAll(candidateOf(app), 1, now);
          else bench.ask([candidateOf(app)], now);
        }
        const { at } = expectTurn(bench.standing, terms, candidateOf(app), NOBODY, now);
        if (at > now) expect(bench.ask([candidateOf(app)], now)).toEqual({ kind: "wait", at });
        else expect(bench.ask([candidateOf(app)], now).kind).toBe("granted");
      }),
    );
  });

  it("is behind those ahead: an app alone gets its places in that order", () => {
    const count = fc.integer({ min: 0, max: 30 });
    fc.assert(
      fc.property(anyTerms, count, count, (terms, spent, ahead) => {
        const bench = createBench(terms);
        bench.sendAll(candidateOf("a"), spent, NOW);
        const expected = expectTurn(bench.standing, terms, candidateOf("a"), { ahead, ownAhead: ahead }, NOW);
        let now = NOW;
        for (let sent = 0; sent < ahead;) {
          if (bench.sendAll(candidateOf("a"), 1, now) === 1) {
            sent++;
            continue;
          }
          const decision = bench.ask([candidateOf("a")], now);
          if (decision.kind === "wait") now = decision.at;
        }
        const own = bench.ask([candidateOf("a")], now);
        expect(own.kind === "wait" ? own.at : now).toBe(expected.at);
      }),
    );
  });
});

describe("a send that was decided on elsewhere", () => {
  it("takes a place like any other", () => {
    const bench = createBench(termsOf({ a: 1, b: 1 }, { windows: [windowOf(1)] }));
    enter(bench.standing, bench.terms, { id: "elsewhere", app: "b", until: NOW + 10 }, NOW);
    const freeAgain = NOW + 10 + MINUTE + 1;
    expect(bench.ask([candidateOf("a")], NOW + 10)).toEqual({ kind: "wait", at: freeAgain });
  });
});
