import { describe, expect, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import type { CallerDirectives } from "../../../src/types.ts";
import { fetchedWith, NO_CACHING_HEADERS, notModifiedWith } from "../../support/entries.ts";
import { asking, FOUND, LIFETIME_MS, setup } from "./cache-support.ts";

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
    const caching = { ...NO_CACHING_HEADERS, mayStore: false };
    const { ask, fetches } = setup(async () => fetchedWith({ caching }));
    expect([await ask(), await ask()]).toMatchObject([
      { outcome: "miss", stored: "upstream-no-store" },
      { outcome: "miss", stored: "upstream-no-store" },
    ]);
    expect(fetches()).toBe(2);
  });

  it("that it is not to be kept is kept where the settings say not to listen", async () => {
    const caching = { ...NO_CACHING_HEADERS, mayStore: false, freshForMs: 0 };
    const { ask } = setup(async () => fetchedWith({ caching }), { rules: { honourUpstream: false } });
    expect([await ask(), await ask()]).toMatchObject([{ stored: true }, { outcome: "hit" }]);
  });
});
