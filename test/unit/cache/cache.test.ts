import { describe, expect, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import type { Claim, Claims, Fetched } from "../../../src/types.ts";
import { fetchedWith } from "../../support/entries.ts";
import { settled } from "../../support/fake-clock.ts";
import { FOUND, KEY, LIFETIME_MS, NOT_FOUND, RULES, setup, WRONG, type Setup } from "./cache-support.ts";

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

  it.each([true, false])(
    "asked after a purge does not get what was fetched before it (hard: %s)",
    async (hard) => {
      const before = Promise.withResolvers<Fetched>();
      const { ask, tiers, fetches } = setup((nth) => (nth === 1 ? before.promise : Promise.resolve(FOUND)));
      const early = ask();
      await settled();
      await tiers.purge({ kind: "all" }, hard);
      const late = ask();
      await settled();
      before.resolve(fetchedWith({ body: Buffer.from('{"old":true}') }));
      const [old, found] = await Promise.all([early, late]);
      expect(found.entry.etag).not.toBe(old.entry.etag);
      expect(await ask()).toMatchObject({ outcome: "hit", entry: { etag: found.entry.etag } });
      expect(fetches()).toBe(2);
    },
  );

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

  it.each([
    ["there is nothing", NOT_FOUND, 404],
    ["the question is wrong", WRONG, 400],
  ])("gets as well what is held where that says that %s", async (_name, held, status) => {
    const { clock, ask } = refusing(held);
    await ask();
    await clock.advance(RULES.negativeTtlMs.listings);
    expect(await ask()).toMatchObject({ outcome: "stale", note: "quota-exceeded", entry: { status } });
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

it("an answer kept when longer lifetimes were set is not given beyond the bound on all ages", async () => {
  // Else it would be refreshed before.
  const { clock, ask, tiers, fetches } = setup(async () => FOUND, { budgetLeft: () => 0 });
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

it("an answer from before the time of day was set back is not given: nobody can tell how old it is", async () => {
  const { clock, ask, fetches } = setup(async () => FOUND);
  await ask();
  clock.set(clock.now() - 86_400_000);
  expect(await ask()).toMatchObject({ outcome: "miss", stored: true });
  expect(await ask()).toMatchObject({ outcome: "hit" });
  await clock.advance(LIFETIME_MS);
  expect(await ask()).toMatchObject({ outcome: "miss", forwarded: "stale" });
  expect(fetches()).toBe(3);
});
