import { describe, expect, it } from "vitest";

import { createCache } from "../../../src/cache/cache.ts";
import { createFailures } from "../../../src/cache/failures.ts";
import type { CacheRules } from "../../../src/cache/freshness.ts";
import { createMemoryStore } from "../../../src/cache/memory-store.ts";
import { createObtain, type Flown, type Kept } from "../../../src/cache/obtain.ts";
import { createRefresh } from "../../../src/cache/refresh.ts";
import { createTiers, type Tiers } from "../../../src/cache/tiers.ts";
import { createFly } from "../../../src/coalesce/across.ts";
import { createFlights } from "../../../src/coalesce/flight.ts";
import { Problem } from "../../../src/errors.ts";
import {
  type Answer,
  type CallerDirectives,
  type Cause,
  type Claim,
  type Claims,
  type Fetched,
  type GatewayRequest,
  NO_DIRECTIVES,
  type RefreshRecord,
  type Validators,
  type Waiting,
} from "../../../src/exchange.ts";
import { cacheKey } from "../../../src/query/key.ts";
import { fetchedWith, NO_TERMS, notModifiedWith } from "../../support/entries.ts";
import { createFakeClock, settled, type FakeClock } from "../../support/fake-clock.ts";
import { questionWith, requestWith } from "../../support/question.ts";
import { each, rulesWith } from "../../support/rules.ts";

const RULES = rulesWith();
const LIFETIME_MS = RULES.ttlMs.listings;
const KEY = cacheKey("json", "listings?offset=0");

const FOUND = fetchedWith({ recordIds: ["4711"] });
const NOT_FOUND = fetchedWith({ status: 404, contentType: "application/problem+json" });
const WRONG = fetchedWith({ status: 400, contentType: "application/problem+json" });

/** How the upstream was asked. */
interface Asking {
  readonly waiting: Waiting;
  readonly cause: Cause;
  readonly held: Validators | undefined;
}

interface Setup {
  readonly clock: FakeClock;
  readonly tiers: Tiers;
  readonly ask: (text?: string, changes?: Partial<GatewayRequest>) => Promise<Answer>;
  readonly fetches: () => number;
  readonly asked: readonly Asking[];
  readonly refreshed: readonly RefreshRecord[];
}

interface SetupOptions {
  readonly adapt?: (tiers: Tiers) => Tiers;
  readonly claims?: Claims;
  readonly rules?: Partial<CacheRules>;
  readonly dice?: () => number;
  readonly budgetLeft?: () => number;
}

/** @param upstream what it brings, each time it is asked */
function setup(
  upstream: (nth: number, asking: Asking) => Promise<Fetched>,
  { adapt = (tiers) => tiers, claims, rules = {}, dice = () => 0, budgetLeft = () => 1 }: SetupOptions = {},
): Setup {
  const clock = createFakeClock();
  const asked: Asking[] = [];
  const refreshed: RefreshRecord[] = [];
  const tiers = adapt(createTiers({ memory: createMemoryStore(80_000, clock), backend: undefined, clock }));
  const failures = createFailures();
  const ruling = (): CacheRules => ({ ...RULES, ...rules });
  const obtain = createObtain({
    tiers,
    coalesce: createFlights<Flown>(clock).join,
    fly: createFly<Kept>(claims),
    fetch: (_question, waiting, asking) =>
      upstream(asked.push({ waiting, ...asking }), { waiting, ...asking }),
    failures,
    rules: ruling,
    clock,
    observer: { refreshed: (record) => void refreshed.push(record) },
  });
  const cache = createCache({
    tiers,
    obtain,
    refresh: createRefresh({ obtain, clock, observer: { error: (message) => expect.unreachable(message) } }),
    failures,
    budgetLeft,
    rules: ruling,
    clock,
    random: { fraction: dice },
  });
  return {
    clock,
    tiers,
    ask: (text, changes) => cache(questionWith(requestWith(clock.now(), changes), text)),
    fetches: () => asked.length,
    asked,
    refreshed,
  };
}

/** A request that asks this of the cache. */
function asking(directives: Partial<CallerDirectives>): Partial<GatewayRequest> {
  return { directives: { ...NO_DIRECTIVES, ...directives } };
}

describe("a question", () => {
  it("asked first is a miss and stored; asked again it is a hit, until its lifetime is over", async () => {
    const { clock, ask, fetches } = setup(async () => FOUND);
    const storedAt = clock.now();
    expect(await ask()).toMatchObject({
      outcome: "miss",
      forwarded: "miss",
      stored: true,
      entry: { storedAt },
    });
    await clock.advance(299_999);
    expect(await ask()).toMatchObject({
      outcome: "hit",
      forwarded: undefined,
      stored: true,
      entry: { storedAt },
    });
    expect(fetches()).toBe(1);
    await clock.advance(1);
    expect(await ask()).toMatchObject({
      outcome: "miss",
      forwarded: "stale",
      entry: { storedAt: storedAt + 300_000 },
    });
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

  it.each([
    ["without an answer", NOT_FOUND, 404],
    ["that the upstream refuses", WRONG, 400],
  ])("%s is remembered as such, for the shorter time", async (_name, brought, status) => {
    const { clock, ask, fetches } = setup(async () => brought);
    expect(await ask()).toMatchObject({ outcome: "miss", stored: true, entry: { status } });
    await clock.advance(59_999);
    expect(await ask()).toMatchObject({ outcome: "hit", entry: { status } });
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

  it.each([
    [false, "stale"],
    [true, "miss"],
  ])(
    "purged (hard: %s) is asked anew (fwd=%s), and its new answer is not purged",
    async (hard, forwarded) => {
      const { ask, fetches, tiers } = setup(async () => FOUND);
      await ask();
      await tiers.purge({ kind: "tag", tag: "record:4711" }, hard);
      expect(await ask()).toMatchObject({ outcome: "miss", forwarded });
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
    const { ask, fetches } = setup(async () => FOUND, {
      adapt: (tiers) => ({
        ...tiers,
        async lookup(key) {
          const found = await tiers.lookup(key);
          if ((looks += 1) === 1) await firstLook.promise;
          return found;
        },
      }),
    });
    const slow = ask();
    expect(await ask()).toMatchObject({ outcome: "miss" });
    firstLook.resolve();
    await settled();
    expect(await slow).toMatchObject({ outcome: "hit", forwarded: undefined, stored: true });
    expect(fetches()).toBe(1);
  });
});

describe("a question that the gateway refuses to ask", () => {
  const refusal = new Problem("quota-exceeded", { retryAfterSeconds: 40 });

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
    const stale = { outcome: "stale", note: "quota-exceeded", tier: "memory", entry: { storedAt } };
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
    await clock.advance(RULES.negativeTtlMs.listings);
    await expect(ask()).rejects.toBe(refusal);
  });

  it("gets no answer older than any may be", async () => {
    const { clock, ask } = refusing();
    await ask();
    await clock.advance(RULES.maxAgeEverMs);
    expect(await ask()).toMatchObject({ outcome: "stale" });
    await clock.advance(1);
    await expect(ask()).rejects.toBe(refusal);
  });

  it("gets what was purged softly, and not what was purged hard", async () => {
    const { ask, tiers } = refusing();
    await ask();
    await tiers.purge({ kind: "tag", tag: "record:4711" }, false);
    expect(await ask()).toMatchObject({ outcome: "stale", note: "quota-exceeded" });
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

  it("is told from one that ends in a mistake of the gateway: no stale answer then", async () => {
    const mistake = new TypeError("a mistake");
    const { clock, ask } = refusing(FOUND, mistake);
    await ask();
    await clock.advance(LIFETIME_MS);
    await expect(ask()).rejects.toBe(mistake);
  });

  it.each([
    ["knows no such thing", NOT_FOUND, 404],
    ["refuses the question", WRONG, 400],
  ])("is told from one of which the upstream %s: that is the answer", async (_name, brought, status) => {
    const { clock, ask } = setup(async (nth) => (nth === 1 ? FOUND : brought));
    await ask();
    await clock.advance(LIFETIME_MS);
    expect(await ask()).toMatchObject({ outcome: "miss", forwarded: "stale", entry: { status } });
    expect(await ask()).toMatchObject({ outcome: "hit", entry: { status } });
  });

  it("gets it as well where another replica's flight was refused", async () => {
    const ended = Promise.resolve({ kind: "failed", problem: refusal } as const);
    const roles: Claim[] = [
      { kind: "unavailable" },
      { kind: "follower", ended, stop: () => undefined },
      { kind: "follower", ended, stop: () => undefined },
    ];
    const claims: Claims = { claim: async () => roles.shift() ?? { kind: "unavailable" } };
    const { clock, ask, fetches } = setup(async () => FOUND, { claims });
    await ask();
    await clock.advance(LIFETIME_MS);
    expect(await ask()).toMatchObject({ outcome: "stale", note: "quota-exceeded" });
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
    expect(await ask()).toMatchObject({ outcome: "stale", note: "upstream-unavailable" });
    expect(await ask()).toMatchObject({ outcome: "miss", note: undefined });
    expect(await ask()).toMatchObject({ outcome: "hit", note: undefined });
  });
});

describe("a question whose answer has just expired", () => {
  const rules = { staleWhileRevalidateMs: each(60_000) };

  it("gets that at once while it is fetched anew, once, and then the new one", async () => {
    const door = Promise.withResolvers<Fetched>();
    const { clock, ask, asked } = setup((nth) => (nth === 1 ? Promise.resolve(FOUND) : door.promise), {
      rules,
    });
    const storedAt = clock.now();
    await ask();
    await clock.advance(LIFETIME_MS);
    const answers = await Promise.all([ask(), ask(), ask()]);
    for (const answer of answers)
      expect(answer).toMatchObject({
        outcome: "updating",
        forwarded: undefined,
        note: "stale-while-revalidate",
        entry: { storedAt },
      });
    await settled();
    expect(asked.map(({ cause, waiting }) => [cause, waiting.priority()])).toEqual([
      ["miss", "interactive"],
      ["refresh", "refresh"],
    ]);
    door.resolve(FOUND);
    await settled();
    expect(await ask()).toMatchObject({ outcome: "hit", entry: { storedAt: storedAt + LIFETIME_MS } });
    expect(asked).toHaveLength(2);
  });

  it("gets it for as long as is set, and then waits for the new one", async () => {
    const { clock, ask } = setup(
      async (nth) => {
        if (nth === 1) return FOUND;
        throw new Problem("temporary-reduced-capacity");
      },
      { rules: { ...rules, staleIfErrorMs: each(0) } },
    );
    await ask();
    await clock.advance(LIFETIME_MS + 59_999);
    expect(await ask()).toMatchObject({ outcome: "updating" });
    await clock.advance(1);
    await expect(ask()).rejects.toMatchObject({ code: "temporary-reduced-capacity" });
  });

  it("does not get what was purged, nor that there was nothing", async () => {
    const { clock, ask, tiers } = setup(async () => FOUND, { rules });
    await ask();
    await tiers.purge({ kind: "all" }, false);
    expect(await ask()).toMatchObject({ outcome: "miss", forwarded: "stale" });
    const nothing = setup(async () => NOT_FOUND, { rules });
    await nothing.ask();
    await nothing.clock.advance(RULES.negativeTtlMs.listings);
    expect(await nothing.ask()).toMatchObject({ outcome: "miss", forwarded: "stale" });
    expect(clock.pending).toBe(0);
  });

  it("goes on getting it where refreshing it fails, and the upstream is left alone for a while", async () => {
    const { clock, ask, fetches } = setup(
      async (nth) => {
        if (nth === 2) throw new Problem("upstream-error");
        return FOUND;
      },
      { rules },
    );
    await ask();
    await clock.advance(LIFETIME_MS);
    expect(await ask()).toMatchObject({ outcome: "updating", note: "stale-while-revalidate" });
    await settled();
    await clock.advance(4_999);
    expect(await ask()).toMatchObject({ outcome: "stale", note: "upstream-error" });
    expect(fetches()).toBe(2);
    await clock.advance(1);
    expect(await ask()).toMatchObject({ outcome: "updating", note: "stale-while-revalidate" });
    await settled();
    expect(await ask()).toMatchObject({ outcome: "hit", note: undefined });
    expect(fetches()).toBe(3);
  });

  it("is not held up by a refresh that finds no place: the caller has a try of its own", async () => {
    const refused = Promise.withResolvers<Fetched>();
    const { clock, ask, asked, tiers } = setup(
      (nth, { cause }) => {
        if (nth === 1) return Promise.resolve(FOUND);
        return cause === "refresh" ? refused.promise : Promise.resolve(FOUND);
      },
      { rules },
    );
    await ask();
    await clock.advance(LIFETIME_MS);
    await ask();
    await settled();
    await tiers.purge({ kind: "all" }, true);
    const waiting = ask();
    await settled();
    // It has joined the refresh, which has become as urgent.
    expect(asked.map(({ cause, waiting: { priority } }) => [cause, priority()])).toEqual([
      ["miss", "interactive"],
      ["refresh", "interactive"],
    ]);
    refused.reject(new Problem("temporary-reduced-capacity"));
    expect(await waiting).toMatchObject({ outcome: "miss", forwarded: "miss" });
    expect(asked.map(({ cause }) => cause)).toEqual(["miss", "refresh", "miss"]);
  });

  it("is not refreshed at every request while there is no place for that", async () => {
    const { clock, ask, fetches } = setup(
      async (nth) => {
        if (nth === 1) return FOUND;
        throw new Problem("temporary-reduced-capacity");
      },
      { rules },
    );
    await ask();
    await clock.advance(LIFETIME_MS);
    for (const _time of [1, 2, 3]) {
      expect(await ask()).toMatchObject({ outcome: "updating" });
      await settled();
    }
    expect(fetches()).toBe(2);
    await clock.advance(1_000);
    await ask();
    await settled();
    expect(fetches()).toBe(3);
  });
});

describe("a question whose new answer takes long", () => {
  it("gets the stale one after a while, and then at once, until the new one is there", async () => {
    const door = Promise.withResolvers<Fetched>();
    const { clock, ask, fetches } = setup((nth) => (nth === 1 ? Promise.resolve(FOUND) : door.promise));
    const storedAt = clock.now();
    await ask();
    await clock.advance(LIFETIME_MS);
    const stale = { outcome: "stale", note: "deadline-exceeded", entry: { storedAt } };
    const first = ask();
    await clock.advance(999);
    expect(await Promise.race([first, settled()])).toBeUndefined();
    await clock.advance(1);
    expect(await first).toMatchObject(stale);
    expect(await ask()).toMatchObject(stale);
    expect(fetches()).toBe(2);
    door.resolve(FOUND);
    await settled();
    expect(await ask()).toMatchObject({
      outcome: "hit",
      entry: { storedAt: storedAt + LIFETIME_MS + 1_000 },
    });
    expect(fetches()).toBe(2);
  });

  it("waits until its own deadline where nothing may stand in", async () => {
    const { clock, ask } = setup(() => Promise.withResolvers<Fetched>().promise);
    const waiting = ask();
    const refused = expect(waiting).rejects.toMatchObject({ code: "deadline-exceeded" });
    await clock.advance(9_999);
    expect(await Promise.race([waiting, settled()])).toBeUndefined();
    await clock.advance(1);
    await refused;
  });

  it("of a caller who has less time gets the stale one by then, and others are not told that it is slow", async () => {
    const door = Promise.withResolvers<Fetched>();
    const { clock, ask, fetches } = setup((nth) => (nth === 1 ? Promise.resolve(FOUND) : door.promise));
    await ask();
    await clock.advance(LIFETIME_MS);
    const hasty = ask(undefined, { deadlineAt: clock.now() + 100 });
    await clock.advance(100);
    expect(await hasty).toMatchObject({ outcome: "stale", note: "deadline-exceeded" });
    const patient = ask();
    await settled();
    door.resolve(FOUND);
    expect(await patient).toMatchObject({ outcome: "collapsed", forwarded: "stale" });
    expect(fetches()).toBe(2);
  });
});

describe("a caller that wants", () => {
  it("only what is held gets that, and is otherwise refused without the upstream being asked", async () => {
    const { clock, ask, fetches } = setup(async () => FOUND);
    await expect(ask(undefined, asking({ onlyIfCached: true }))).rejects.toMatchObject({
      code: "not-in-cache",
      status: 504,
    });
    await ask();
    expect(await ask(undefined, asking({ onlyIfCached: true }))).toMatchObject({ outcome: "hit" });
    await clock.advance(LIFETIME_MS);
    await expect(ask(undefined, asking({ onlyIfCached: true }))).rejects.toMatchObject({
      code: "not-in-cache",
    });
    expect(fetches()).toBe(1);
  });

  it.each<[string, Partial<CallerDirectives>]>([
    ["no answer from before", { noCache: true }],
    ["one of the last few seconds", { maxAgeMs: 19_999 }],
    ["one that is fresh for long yet", { minFreshMs: LIFETIME_MS - 19_999 }],
  ])(
    "%s gets a newer one where its app may, is told where not, and nobody gets it too often",
    async (_name, directives) => {
      const { clock, ask, asked } = setup(async () => FOUND);
      const forced = { ...asking(directives), mayForceRefresh: true };
      await ask();
      await clock.advance(20_000);
      expect(await ask(undefined, asking(directives))).toMatchObject({
        outcome: "hit",
        note: "refresh-not-allowed",
      });
      expect(await ask(undefined, forced)).toMatchObject({
        outcome: "miss",
        forwarded: "request",
        stored: true,
      });
      expect(asked.map(({ cause }) => cause)).toEqual(["miss", "forced"]);
      await clock.advance(9_999);
      expect(await ask(undefined, { ...asking({ noCache: true }), mayForceRefresh: true })).toMatchObject({
        outcome: "hit",
        note: "refreshed-recently",
      });
      expect(asked).toHaveLength(2);
    },
  );

  it("an answer however stale gets it, for as long after its end as it says", async () => {
    const { clock, ask, fetches } = setup(async () => FOUND);
    await ask();
    await clock.advance(LIFETIME_MS + 5_000);
    const stale = { outcome: "stale", note: "max-stale", forwarded: undefined };
    expect(await ask(undefined, asking({ maxStaleMs: 5_000 }))).toMatchObject(stale);
    expect(await ask(undefined, asking({ maxStaleMs: Number.POSITIVE_INFINITY }))).toMatchObject(stale);
    expect(fetches()).toBe(1);
    expect(await ask(undefined, asking({ maxStaleMs: 4_999 }))).toMatchObject({ outcome: "miss" });
  });

  it("no stale one in the place of a failure gets the failure", async () => {
    const { clock, ask } = setup(async (nth) => {
      if (nth === 1) return FOUND;
      throw new Problem("upstream-error");
    });
    await ask();
    await clock.advance(LIFETIME_MS + 5_000);
    await expect(ask(undefined, asking({ staleIfErrorMs: 4_999 }))).rejects.toMatchObject({
      code: "upstream-error",
    });
    expect(await ask(undefined, asking({ staleIfErrorMs: 5_000 }))).toMatchObject({
      outcome: "stale",
      note: "upstream-error",
    });
  });
});

describe("an answer that is asked for near its end", () => {
  const NEAR_MS = LIFETIME_MS - 1_000;

  async function askedNearItsEnd(options: SetupOptions): Promise<{ answer: Answer; fetches: number }> {
    const door = Promise.withResolvers<Fetched>();
    const { clock, ask, fetches } = setup(
      (nth) => (nth === 1 ? door.promise : Promise.resolve(FOUND)),
      options,
    );
    const first = ask();
    await clock.advance(400);
    door.resolve(FOUND);
    await first;
    await clock.advance(NEAR_MS);
    const answer = await ask();
    await settled();
    return { answer, fetches: fetches() };
  }

  it("is given, and now and then refreshed before its time", async () => {
    const unlucky = await askedNearItsEnd({ dice: () => 0.5 });
    expect([unlucky.answer.outcome, unlucky.fetches]).toEqual(["hit", 1]);
    const lucky = await askedNearItsEnd({ dice: () => 0.999 });
    expect([lucky.answer.outcome, lucky.answer.note, lucky.fetches]).toEqual(["hit", undefined, 2]);
  });

  it("is not refreshed before its time where little of the budget is left", async () => {
    const { answer, fetches } = await askedNearItsEnd({ dice: () => 0.999, budgetLeft: () => 0.5 });
    expect([answer.outcome, fetches]).toEqual(["hit", 1]);
  });
});

describe("an answer of which the upstream says", () => {
  const VALIDATORS = { etag: '"1"', lastModified: undefined };

  it("that it has not changed is fresh again as it is, and nobody has to fetch its body", async () => {
    const first = fetchedWith({ validators: VALIDATORS, body: Buffer.from('{"a":1}') });
    const { clock, ask, asked, refreshed } = setup(async (nth) => (nth === 1 ? first : notModifiedWith()));
    const { entry } = await ask();
    await clock.advance(LIFETIME_MS);
    const again = await ask();
    expect(again).toMatchObject({
      outcome: "miss",
      forwarded: "stale",
      stored: true,
      entry: { etag: entry.etag },
    });
    expect(again.entry.bodies.identity?.toString()).toBe('{"a":1}');
    expect(again.entry.freshUntil).toBe(clock.now() + LIFETIME_MS);
    expect(asked.map(({ held }) => held)).toEqual([undefined, VALIDATORS]);
    expect(refreshed).toEqual([{ resource: "listings", change: "not-modified", shadow: undefined }]);
  });

  it("that it is not to be kept is given to who asked, and not kept", async () => {
    const terms = { ...NO_TERMS, mayStore: false };
    const { ask, fetches } = setup(async () => fetchedWith({ terms }));
    expect([await ask(), await ask()]).toMatchObject([
      { outcome: "miss", stored: "upstream-no-store" },
      { outcome: "miss", stored: "upstream-no-store" },
    ]);
    expect(fetches()).toBe(2);
  });

  it("that it is not to be kept is kept where the settings say not to listen", async () => {
    const terms = { ...NO_TERMS, mayStore: false, freshForMs: 0 };
    const { ask } = setup(async () => fetchedWith({ terms }), { rules: { honourUpstream: false } });
    expect([await ask(), await ask()]).toMatchObject([{ stored: true }, { outcome: "hit" }]);
  });
});

it("an answer kept when longer lifetimes were set is not given beyond the bound on all ages", async () => {
  const { clock, ask, tiers, fetches } = setup(async () => FOUND);
  await ask();
  const entry = (await tiers.lookup(KEY))?.entry;
  if (entry === undefined) throw new Error("nothing was kept");
  await tiers.keep(KEY, { ...entry, freshUntil: entry.storedAt + 2_000_000 });
  await clock.advance(RULES.maxAgeEverMs);
  expect(await ask()).toMatchObject({ outcome: "hit" });
  await clock.advance(1);
  expect(await ask()).toMatchObject({ outcome: "miss", forwarded: "stale" });
  expect(fetches()).toBe(2);
});
