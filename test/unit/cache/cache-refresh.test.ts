import { describe, expect, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import type { Answer, Fetched } from "../../../src/types.ts";
import { fetchedWith, NO_CACHING_HEADERS } from "../../support/entries.ts";
import { settled } from "../../support/fake-clock.ts";
import { each } from "../../support/rules.ts";
import {
  FOUND,
  LIFETIME_MS,
  NOT_FOUND,
  RULES,
  type Setup,
  setup,
  type SetupOptions,
} from "./cache-support.ts";

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

  it.each(["upstream-error", "temporary-reduced-capacity"] as const)(
    "is tried again in time after %s, although the time of day was set back meanwhile",
    async (code) => {
      const { clock, ask, fetches } = setup(
        async (nth) => {
          if (nth === 2) throw new Problem(code);
          return FOUND;
        },
        { rules },
      );
      await ask();
      await clock.advance(LIFETIME_MS + 50_000);
      await ask();
      await settled();
      clock.set(clock.now() - 40_000);
      await clock.advance(5_000);
      await ask();
      await settled();
      expect(fetches()).toBe(3);
    },
  );

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

  it.each([
    ["may not be kept", fetchedWith({ caching: { ...NO_CACHING_HEADERS, mayStore: false } })],
    ["is too large to be kept", fetchedWith({ body: Buffer.alloc(20_000) })],
  ])("is not answered with what an answer has overtaken that %s", async (_why, newer) => {
    const old = fetchedWith({ body: Buffer.from('{"old":true}') });
    const { clock, ask, fetches } = setup(async (nth) => (nth === 1 ? old : newer), { rules });
    const { entry } = await ask();
    await clock.advance(LIFETIME_MS);
    expect(await ask()).toMatchObject({ outcome: "updating", entry: { etag: entry.etag } });
    await settled();
    const after = await ask();
    expect(after).toMatchObject({ outcome: "miss" });
    expect(after.entry.etag).not.toBe(entry.etag);
    expect(fetches()).toBe(3);
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
    for (let request = 0; request < 3; request++) {
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
  it("is refreshed once: a refresh that joins one given up, and sees it fail, does not ask again at once", async () => {
    const door = Promise.withResolvers<Fetched>();
    const { clock, ask, fetches } = setup((nth) => (nth === 1 ? Promise.resolve(FOUND) : door.promise), {
      rules: { staleWhileRevalidateMs: each(60_000) },
    });
    await ask();
    await clock.advance(LIFETIME_MS);
    expect(await ask()).toMatchObject({ outcome: "updating" });
    await clock.advance(3_000);
    expect(await ask()).toMatchObject({ outcome: "updating" });
    await settled();
    door.reject(new Problem("upstream-timeout"));
    await settled();
    expect(await ask()).toMatchObject({ outcome: "stale", note: "upstream-timeout" });
    expect(fetches()).toBe(2);
  });

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

  it("whose call is still in the queue by then gets the stale one in place of a refusal, and then at once", async () => {
    const { clock, ask, fetches } = await expiredInQueue(new Problem("temporary-reduced-capacity", LATE));
    const stale = { outcome: "stale", note: "temporary-reduced-capacity" };
    const first = ask();
    await clock.advance(1_000);
    expect(await first).toMatchObject(stale);
    expect(await ask()).toMatchObject(stale);
    expect(fetches()).toBe(2);
  });

  it("whose call was kept there by its app's own share keeps no other app from asking", async () => {
    const refusal = new Problem("quota-exceeded", { ...LATE, ofApp: "web" });
    const { clock, ask, fetches } = await expiredInQueue(refusal);
    const first = ask(undefined, { app: "web" });
    await clock.advance(1_000);
    expect(await first).toMatchObject({ outcome: "stale", note: "quota-exceeded" });
    // One that came, and had to go to the queue.
    const other = ask();
    await clock.advance(1_000);
    await other;
    expect(fetches()).toBe(3);
  });

  it("is refused for good, and not asked anew, where nothing is held and its call is still in the queue", async () => {
    const refusal = new Problem("quota-exceeded", { ...LATE, ofApp: "web" });
    const { clock, ask, fetches } = await expiredInQueue(refusal);
    const refused = expect(ask("listings?areaId=1", { app: "web" })).rejects.toBe(refusal);
    await clock.advance(20_000);
    await refused;
    expect(fetches()).toBe(2);
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

it("an answer that is nearly too old whenever it comes is not refreshed at every request", async () => {
  const old = fetchedWith({ caching: { ...NO_CACHING_HEADERS, ageMs: RULES.maxAgeEverMs - 50_000 } });
  const { clock, ask, fetches } = setup(async () => old);
  for (let second = 0; second < 100; second++) {
    await ask();
    await settled();
    await clock.advance(1_000);
  }
  expect(fetches()).toBeLessThanOrEqual(3);
});

const LATE = { refusedHere: true, late: true, retryAfterSeconds: 5 };

/** An expired answer; whatever is asked of the upstream stays in a queue that refuses so, until it is withdrawn. */
async function expiredInQueue(refusal: Problem): Promise<Setup> {
  const started = setup(async (nth, { waiting }) => {
    if (nth === 1) return FOUND;
    waiting.inQueue(() => refusal);
    await new Promise((resolve) => waiting.abandoned.addEventListener("abort", resolve));
    throw refusal;
  });
  await started.ask();
  await started.clock.advance(LIFETIME_MS);
  return started;
}
