import { describe, expect, it } from "vitest";

import {
  ageMs,
  type CacheRules,
  freshnessLifetimeMs,
  isDueEarly,
  isFresh,
  isWithinBounds,
} from "../../../src/cache/freshness.ts";
import type { Entry, CachingHeaders } from "../../../src/types.ts";
import type { Query } from "../../../src/query/query.ts";
import { entryWith, NO_CACHING_HEADERS } from "../../support/entries.ts";
import { each, rulesWith } from "../../support/rules.ts";

const RULES = rulesWith({
  ttlMs: { listings: 1, sold: 2, areas: 3, images: 4, records: 5 },
  negativeTtlMs: { listings: 11, sold: 12, areas: 13, images: 14, records: 15 },
  maxAgeEverMs: 100,
});

const search = (resource: "listings" | "sold" | "areas"): Query => ({
  kind: "search",
  resource,
  filters: [],
  extras: [],
  limit: undefined,
  offset: undefined,
});
const record = (resource: "listings" | "sold"): Query => ({
  kind: "record",
  resource,
  serviceId: "7",
  extras: [],
});
const image: Query = {
  kind: "image",
  resource: "images",
  serviceId: "7",
  width: 140,
  height: 94,
  extras: [],
};

function lifetimeMs(
  rules: CacheRules,
  query = search("listings"),
  status: Entry["status"] = 200,
  caching: Partial<CachingHeaders> = {},
): number {
  return freshnessLifetimeMs(rules, query, { status, caching: { ...NO_CACHING_HEADERS, ...caching } });
}

describe("the lifetime of an answer", () => {
  it.each<[string, Query, number]>([
    ["listings found", search("listings"), 1],
    ["sold found", search("sold"), 2],
    ["areas found", search("areas"), 3],
    ["a thumbnail", image, 4],
    ["one listing", record("listings"), 5],
    ["one sold", record("sold"), 5],
  ])("%s: is the configured one; a 404 or 400 has its own", (_name, query, ms) => {
    expect(lifetimeMs(RULES, query)).toBe(ms);
    expect([lifetimeMs(RULES, query, 404), lifetimeMs(RULES, query, 400)]).toEqual([10 + ms, 10 + ms]);
  });

  it.each([
    [3, 3, 3],
    [2, 2, 2],
    [1, 1, 1],
  ])("is at most maxAgeEver, %i ms", (maxAgeEverMs, found, notFound) => {
    const rules = { ...RULES, maxAgeEverMs };
    expect(lifetimeMs(rules, search("areas"))).toBe(found);
    expect(lifetimeMs(rules, search("areas"), 404)).toBe(notFound);
  });

  it("is shorter by the answer's Age near maxAgeEver", () => {
    const rules = rulesWith({ ttlMs: each(50), maxAgeEverMs: 100 });
    const ages = [0, 50, 51, 100, 101];
    expect(ages.map((age) => lifetimeMs(rules, undefined, 200, { ageMs: age }))).toEqual([50, 50, 49, 0, -1]);
  });

  it("is at most cache.retention", () => {
    expect(lifetimeMs(rulesWith({ retentionMs: 7 }))).toBe(7);
  });

  it.each([
    ["shorter", 40, 40],
    ["none at all", 0, 0],
    ["longer", 60, 50],
    ["unsaid", undefined, 50],
  ])("is the upstream's if that is shorter: %s (%s) is %i", (_name, freshForMs, expected) => {
    const rules = rulesWith({ ttlMs: each(50), negativeTtlMs: each(50) });
    expect(lifetimeMs(rules, undefined, 200, { freshForMs })).toBe(expected);
    expect(lifetimeMs(rules, undefined, 404, { freshForMs })).toBe(expected);
    expect(lifetimeMs({ ...rules, honourUpstream: false }, undefined, 200, { freshForMs })).toBe(50);
  });
});

describe("an entry", () => {
  const entry = entryWith("", 1_000, { freshUntil: 2_000 });

  it.each([
    [999, true],
    [1_000, true],
    [1_999, true],
    [2_000, false],
    [2_001, false],
    [Number.MAX_SAFE_INTEGER, false],
  ])("stored at 1000 for 1000 ms is fresh at %i: %s", (now, fresh) => {
    expect(isFresh(entry, rulesWith(), now)).toBe(fresh);
  });

  it("with a lifetime of 0 is never fresh", () => {
    expect(isFresh(entryWith("", 1_000, { freshUntil: 1_000 }), rulesWith(), 1_000)).toBe(false);
  });

  it.each([
    [1_000, true],
    [1_500, true],
    [1_501, false],
  ])("stored with a longer lifetime is fresh at %i within maxAgeEver: %s", (now, fresh) => {
    expect(isFresh(entry, rulesWith({ maxAgeEverMs: 500 }), now)).toBe(fresh);
  });

  it.each<[string, Partial<Entry>, number, boolean]>([
    ["within all bounds", {}, 3_000, true],
    ["at the end of what it is kept for", {}, 8_999, true],
    ["no longer kept", {}, 9_000, false],
    ["as old as any may be", { keepUntil: 99_000 }, 11_000, true],
    ["older than any may be", { keepUntil: 99_000 }, 11_001, false],
    ["old when it came", { bornAt: -3_000 }, 7_000, true],
    ["older when it came", { bornAt: -3_001 }, 7_000, false],
    ["of a replica whose clock is ahead", { storedAt: 4_000, bornAt: 4_000 }, 3_000, true],
  ])("that is %s (%o) may be served at %i: %s", (_name, changes, now, may) => {
    const cached = { ...entryWith("", 1_000, { keepUntil: 9_000 }), ...changes };
    expect(isWithinBounds(cached, rulesWith({ maxAgeEverMs: 10_000 }), now)).toBe(may);
  });

  it.each([
    [6_000, true],
    [6_001, false],
  ])("stored with longer times is limited by the current ones: at %i it may be served: %s", (now, may) => {
    const cached = entryWith("", 1_000, { keepUntil: 99_000 });
    expect(isWithinBounds(cached, rulesWith({ retentionMs: 5_000 }), now)).toBe(may);
  });

  it("has the age of the upstream's answer, at least 0", () => {
    const cached = entryWith("", 1_000, { bornAt: 400 });
    expect([ageMs(cached, 1_000), ageMs(cached, 400), ageMs(cached, 399)]).toEqual([600, 0, 0]);
  });
});

const END = 1_000_000;

/** In what part of all requests an answer is refreshed that is fresh for so long yet. */
function partRefreshed(leftMs: number, fetchMs: number, draws = 10_000): number {
  const entry = entryWith("{}", 0, { freshUntil: END, fetchMs });
  let refreshed = 0;
  // Every number once, evenly.
  for (let nth = 0; nth < draws; nth++) if (isDueEarly(entry, (nth + 0.5) / draws, END - leftMs)) refreshed++;
  return refreshed / draws;
}

describe("early refresh of a fresh answer", () => {
  it.each([
    [0, 1],
    [100, Math.exp(-0.5)],
    [200, Math.exp(-1)],
    [400, Math.exp(-2)],
    [1_000, Math.exp(-5)],
    [4_000, 0],
  ])(
    "that took 200 ms to fetch and expires in %i ms is refreshed by this part of requests: %f",
    (leftMs, part) => {
      expect(partRefreshed(leftMs, 200)).toBeCloseTo(part, 3);
    },
  );

  it("happens earlier for an answer that takes longer to fetch", () => {
    const parts = [50, 100, 200, 400].map((fetchMs) => partRefreshed(500, fetchMs));
    expect(parts).toEqual([...parts].sort((one, other) => one - other));
    expect(new Set(parts).size).toBe(4);
  });

  it("never happens for an answer that took no time to fetch", () => {
    const entry = entryWith("{}", 0, { freshUntil: END, fetchMs: 0 });
    const randoms = [0, 0.5, 0.999_999, 1 - Number.EPSILON / 2];
    expect(randoms.map((random) => isDueEarly(entry, random, END - 1))).toEqual([false, false, false, false]);
  });
});
