import { describe, expect, it } from "vitest";

import { createCache, type Flown, type Kept } from "../../../src/cache/cache.ts";
import { createMemoryStore } from "../../../src/cache/memory-store.ts";
import { createTiers, type Tiers } from "../../../src/cache/tiers.ts";
import { createFly } from "../../../src/coalesce/across.ts";
import { createFlights } from "../../../src/coalesce/flight.ts";
import { Problem } from "../../../src/errors.ts";
import type { Answer, Claim, Claims, Fetched, Question } from "../../../src/exchange.ts";
import { cacheKey } from "../../../src/query/key.ts";
import { createFakeClock, settled, type FakeClock } from "../../support/fake-clock.ts";

const LIFETIMES = {
  ttlMs: { listings: 300_000, sold: 1, areas: 1, images: 1, records: 1 },
  negativeTtlMs: 60_000,
  maxAgeEverMs: 1_000_000,
  staleIfErrorMs: {
    listings: 3_600_000,
    sold: 3_600_000,
    areas: 3_600_000,
    images: 3_600_000,
    records: 3_600_000,
  },
};

const KEY = cacheKey("json", "listings?offset=0");

function question(clock: FakeClock, text = "listings?offset=0"): Question {
  return {
    text,
    key: cacheKey("json", text),
    query: { kind: "search", resource: "listings", filters: [], extras: [], limit: undefined, offset: 0 },
    request: {
      id: "request",
      method: "GET",
      app: "other",
      route: { kind: "search", resource: "listings" },
      search: "",
      format: "json",
      coding: "identity",
      ifNoneMatch: undefined,
      noStore: false,
      receivedAt: clock.now(),
      deadlineAt: clock.now() + 10_000,
      gone: new AbortController().signal,
    },
  };
}

const FOUND: Fetched = {
  status: 200,
  contentType: "application/json",
  body: Buffer.from("{}"),
  lastModified: undefined,
  recordIds: ["4711"],
};
const NOT_FOUND: Fetched = { ...FOUND, status: 404, contentType: "application/problem+json" };

interface Setup {
  readonly clock: FakeClock;
  readonly tiers: Tiers;
  /** What the upstream brings; each question takes the next, the last for ever. */
  readonly ask: (text?: string) => Promise<Answer>;
  readonly fetches: () => number;
}

function setup(
  upstream: (nth: number) => Promise<Fetched>,
  adapt: (tiers: Tiers) => Tiers = (tiers) => tiers,
  claims?: Claims,
): Setup {
  const clock = createFakeClock();
  let fetches = 0;
  const tiers = adapt(createTiers({ memory: createMemoryStore(80_000, clock), backend: undefined, clock }));
  const cache = createCache({
    tiers,
    coalesce: createFlights<Flown>(clock).join,
    fly: createFly<Kept>(claims),
    retentionMs: 3_600_000,
    fetch: () => upstream((fetches += 1)),
    lifetimes: LIFETIMES,
    clock,
  });
  return { clock, tiers, ask: (text) => cache(question(clock, text)), fetches: () => fetches };
}

describe("a question", () => {
  it("asked first is a miss and stored; asked again it is a hit, until its lifetime is over", async () => {
    const { clock, ask, fetches } = setup(async () => FOUND);
    const storedAt = clock.now();
    expect(await ask()).toMatchObject({ outcome: "miss", stored: true, entry: { storedAt } });
    await clock.advance(299_999);
    expect(await ask()).toMatchObject({ outcome: "hit", stored: true, entry: { storedAt } });
    expect(fetches()).toBe(1);
    await clock.advance(1);
    expect(await ask()).toMatchObject({ outcome: "miss", entry: { storedAt: storedAt + 300_000 } });
    expect(fetches()).toBe(2);
  });

  it("asked by many at once is a miss for one and collapsed for the rest", async () => {
    const { ask, fetches } = setup(async () => FOUND);
    const outcomes = (await Promise.all([ask(), ask(), ask()])).map(({ outcome }) => outcome);
    expect(outcomes).toEqual(["miss", "collapsed", "collapsed"]);
    expect(fetches()).toBe(1);
  });

  it("that differs is another question", async () => {
    const { ask, fetches } = setup(async () => FOUND);
    const both = await Promise.all([ask("listings?areaId=1&offset=0"), ask("listings?areaId=2&offset=0")]);
    expect(both.map(({ outcome }) => outcome)).toEqual(["miss", "miss"]);
    expect(fetches()).toBe(2);
  });

  it("without an answer is remembered as such, for the shorter time", async () => {
    const { clock, ask, fetches } = setup(async () => NOT_FOUND);
    expect(await ask()).toMatchObject({ outcome: "miss", entry: { status: 404 } });
    await clock.advance(59_999);
    expect(await ask()).toMatchObject({ outcome: "hit", entry: { status: 404 } });
    await clock.advance(1);
    expect(await ask()).toMatchObject({ outcome: "miss" });
    expect(fetches()).toBe(2);
  });

  it("that fails is not remembered: the next is asked anew", async () => {
    const { ask, tiers } = setup(async (nth) => {
      if (nth === 1) throw new Problem("upstream-error");
      return FOUND;
    });
    await expect(ask()).rejects.toMatchObject({ code: "upstream-error" });
    expect(await tiers.lookup(KEY)).toBeUndefined();
    expect(await ask()).toMatchObject({ outcome: "miss" });
  });

  it("whose answer is too large is answered, and says that it is not stored", async () => {
    const { ask, fetches } = setup(async () => ({ ...FOUND, body: Buffer.alloc(50_000) }));
    const answers = [await ask(), await ask()];
    expect(answers).toMatchObject([
      { outcome: "miss", stored: "too-large" },
      { outcome: "miss", stored: "too-large" },
    ]);
    expect(answers[0]?.entry.bodyBytes).toBe(50_000);
    expect(fetches()).toBe(2);
  });

  it.each([false, true])(
    "purged (hard: %s) is asked anew, and its new answer is not purged",
    async (hard) => {
      const { ask, fetches, tiers } = setup(async () => FOUND);
      await ask();
      await tiers.purge({ kind: "tag", tag: "record:4711" }, hard);
      expect(await ask()).toMatchObject({ outcome: "miss" });
      expect(await ask()).toMatchObject({ outcome: "hit", tier: "memory" });
      expect(fetches()).toBe(2);
    },
  );

  it("purged while its answer is on its way is asked anew: that answer may be from before", async () => {
    const door = Promise.withResolvers<Fetched>();
    const { ask, fetches, tiers } = setup((nth) => (nth === 1 ? door.promise : Promise.resolve(FOUND)));
    const first = ask();
    await settled();
    await tiers.purge({ kind: "all" }, false);
    door.resolve(FOUND);
    await first;
    expect(await ask()).toMatchObject({ outcome: "miss" });
    expect(fetches()).toBe(2);
  });

  it("is dated when its answer comes, not when it is asked", async () => {
    const door = Promise.withResolvers<Fetched>();
    const { clock, ask } = setup(() => door.promise);
    const asked = ask();
    await clock.advance(4_000);
    door.resolve(FOUND);
    expect((await asked).entry.storedAt).toBe(clock.now());
  });

  it("is not asked upstream where its answer arrives between the look-up and the flight", async () => {
    const firstLook = Promise.withResolvers<void>();
    let looks = 0;
    // A store whose first look-up takes so long that another has asked and got its answer meanwhile.
    const { ask, fetches } = setup(
      async () => FOUND,
      (tiers) => ({
        ...tiers,
        async lookup(key) {
          const found = await tiers.lookup(key);
          if ((looks += 1) === 1) await firstLook.promise;
          return found;
        },
      }),
    );
    const slow = ask();
    expect(await ask()).toMatchObject({ outcome: "miss" });
    firstLook.resolve();
    await settled();
    expect(await slow).toMatchObject({ outcome: "hit", stored: true });
    expect(fetches()).toBe(1);
  });
});

describe("a question that the gateway refuses to ask", () => {
  const refusal = new Problem("quota-exceeded", { retryAfterSeconds: 40 });
  const LIFETIME_MS = LIFETIMES.ttlMs.listings;

  /** Answers the first time, and then not. */
  function refusing(first: Fetched = FOUND, problem: Error = refusal): Setup {
    return setup(async (nth) => {
      if (nth === 1) return first;
      throw problem;
    });
  }

  it("gets the stale answer that is held, each time, and is not remembered as refused", async () => {
    const { clock, ask, fetches } = refusing();
    const storedAt = clock.now();
    await ask();
    await clock.advance(LIFETIME_MS);
    const stale = { outcome: "stale", insteadOf: "quota-exceeded", tier: "memory", entry: { storedAt } };
    expect(await ask()).toMatchObject(stale);
    expect(await ask()).toMatchObject(stale);
    expect(fetches()).toBe(3);
  });

  it("gets it however many ask at once", async () => {
    const { clock, ask, fetches } = refusing();
    await ask();
    await clock.advance(LIFETIME_MS);
    const answers = await Promise.all([ask(), ask(), ask()]);
    expect(answers.map(({ outcome }) => outcome)).toEqual(["stale", "stale", "stale"]);
    expect(fetches()).toBe(2);
  });

  it("is refused where nothing is held", async () => {
    const { ask } = refusing();
    await ask();
    await expect(ask("listings?areaId=1&offset=0")).rejects.toBe(refusal);
  });

  it("is refused where what is held says that there is nothing", async () => {
    const { clock, ask } = refusing(NOT_FOUND);
    await ask();
    await clock.advance(LIFETIMES.negativeTtlMs);
    await expect(ask()).rejects.toBe(refusal);
  });

  it("gets no answer older than any may be", async () => {
    const { clock, ask } = refusing();
    await ask();
    await clock.advance(LIFETIMES.maxAgeEverMs);
    expect(await ask()).toMatchObject({ outcome: "stale" });
    await clock.advance(1);
    await expect(ask()).rejects.toBe(refusal);
  });

  it("gets what was purged softly, and not what was purged hard", async () => {
    const { ask, tiers } = refusing();
    await ask();
    await tiers.purge({ kind: "tag", tag: "record:4711" }, false);
    expect(await ask()).toMatchObject({ outcome: "stale", insteadOf: "quota-exceeded" });
    await tiers.purge({ kind: "tag", tag: "record:4711" }, true);
    await expect(ask()).rejects.toBe(refusal);
  });

  it("does not get what was purged hard while it waited for its turn", async () => {
    const turn = Promise.withResolvers<Fetched>();
    const { clock, ask, tiers } = setup((nth) => (nth === 1 ? Promise.resolve(FOUND) : turn.promise));
    await ask();
    await clock.advance(LIFETIME_MS);
    const waiting = ask();
    await settled();
    await tiers.purge({ kind: "key", key: KEY }, true);
    turn.reject(refusal);
    await expect(waiting).rejects.toBe(refusal);
  });

  it.each([
    ["the upstream refused the question", new Problem("upstream-rejected")],
    ["the gateway made a mistake", new TypeError("a mistake")],
  ])("is told apart: no stale answer where %s", async (_name, failure) => {
    const { clock, ask } = refusing(FOUND, failure);
    await ask();
    await clock.advance(LIFETIME_MS);
    await expect(ask()).rejects.toBe(failure);
  });

  it("gets it as well where another replica's flight was refused", async () => {
    const ended = Promise.resolve({ kind: "failed", problem: refusal } as const);
    const roles: Claim[] = [
      { kind: "unavailable" },
      { kind: "follower", ended, stop: () => undefined },
      { kind: "follower", ended, stop: () => undefined },
    ];
    const claims: Claims = { claim: async () => roles.shift() ?? { kind: "unavailable" } };
    const { clock, ask, fetches } = setup(async () => FOUND, undefined, claims);
    await ask();
    await clock.advance(LIFETIME_MS);
    expect(await ask()).toMatchObject({ outcome: "stale", insteadOf: "quota-exceeded" });
    await expect(ask("listings?areaId=1&offset=0")).rejects.toBe(refusal);
    expect(fetches()).toBe(1);
  });

  it("gets the new answer as soon as it may be asked again", async () => {
    const { clock, ask } = setup(async (nth) => {
      if (nth === 2) throw new Problem("upstream-unavailable", { refusedHere: true });
      return FOUND;
    });
    await ask();
    await clock.advance(LIFETIME_MS);
    expect(await ask()).toMatchObject({ outcome: "stale", insteadOf: "upstream-unavailable" });
    expect(await ask()).toMatchObject({ outcome: "miss", insteadOf: undefined });
    expect(await ask()).toMatchObject({ outcome: "hit", insteadOf: undefined });
  });
});

it("an answer kept when longer lifetimes were set is not given beyond the bound on all ages", async () => {
  const { clock, ask, tiers, fetches } = setup(async () => FOUND);
  await ask();
  const entry = (await tiers.lookup(KEY))?.entry;
  if (entry === undefined) throw new Error("nothing was kept");
  await tiers.keep(KEY, { ...entry, freshUntil: entry.storedAt + 2_000_000 });
  await clock.advance(LIFETIMES.maxAgeEverMs);
  expect(await ask()).toMatchObject({ outcome: "hit" });
  await clock.advance(1);
  expect(await ask()).toMatchObject({ outcome: "miss" });
  expect(fetches()).toBe(2);
});
