import { describe, expect, it } from "vitest";

import { freshnessLifetimeMs, isFresh, mayReplace, mayServeStale } from "../../../src/cache/policy.ts";
import { Problem, PROBLEM_CODES } from "../../../src/errors.ts";
import type { Entry } from "../../../src/exchange.ts";
import type { Query } from "../../../src/query/query.ts";
import { entryWith } from "../../support/entries.ts";

const LIFETIMES = {
  ttlMs: { listings: 1, sold: 2, areas: 3, images: 4, records: 5 },
  negativeTtlMs: 6,
  maxAgeEverMs: 100,
};
const BOUNDS = {
  maxAgeEverMs: 10_000,
  staleIfErrorMs: { listings: 50_000, sold: 1_000, areas: 0, images: 2, records: 3 },
};

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

describe("how long an answer is fresh", () => {
  it.each<[string, Query, number]>([
    ["listings found", search("listings"), 1],
    ["sold found", search("sold"), 2],
    ["areas found", search("areas"), 3],
    ["a thumbnail", image, 4],
    ["one listing", record("listings"), 5],
    ["one sold", record("sold"), 5],
  ])("%s: as the settings say for it; a 404 as they say for those", (_name, query, lifetimeMs) => {
    expect(freshnessLifetimeMs(LIFETIMES, query, 200)).toBe(lifetimeMs);
    expect(freshnessLifetimeMs(LIFETIMES, query, 404)).toBe(6);
  });

  it.each([
    [3, 3, 3],
    [2, 2, 2],
    [1, 1, 1],
  ])("is never longer than the bound on all ages, %i ms", (maxAgeEverMs, found, notFound) => {
    const lifetimes = { ...LIFETIMES, maxAgeEverMs };
    expect(freshnessLifetimeMs(lifetimes, search("areas"), 200)).toBe(found);
    expect(freshnessLifetimeMs(lifetimes, search("areas"), 404)).toBe(notFound);
  });
});

describe("an entry", () => {
  const entry = entryWith("", 0, { storedAt: 1_000, freshUntil: 2_000 });

  it.each([
    [999, true],
    [1_000, true],
    [1_999, true],
    [2_000, false],
    [2_001, false],
    [Number.MAX_SAFE_INTEGER, false],
  ])("stored at 1000 for 1000 ms is fresh at %i: %s", (now, fresh) => {
    expect(isFresh(entry, now, BOUNDS)).toBe(fresh);
  });

  it("with a lifetime of nothing is never fresh", () => {
    expect(isFresh(entryWith("", 0, { storedAt: 1_000, freshUntil: 1_000 }), 1_000, BOUNDS)).toBe(false);
  });

  it.each([
    [1_000, true],
    [1_500, true],
    [1_501, false],
  ])("kept when longer lifetimes were set is fresh at %i within the bound on all ages: %s", (now, fresh) => {
    expect(isFresh(entry, now, { maxAgeEverMs: 500 })).toBe(fresh);
  });

  it.each([
    ["nothing", undefined, true],
    ["an older one", entryWith("", 0, { storedAt: 999 }), true],
    ["itself", entry, true],
    ["one of the same instant", entryWith("", 0, { storedAt: 1_000 }), true],
    ["a newer one", entryWith("", 0, { storedAt: 1_001 }), false],
    ["a newer one that is stale", entryWith("", 0, { storedAt: 1_001, freshUntil: 1_001 }), false],
  ])("may take the place of %s: %s", (_name, stored, may) => {
    expect(mayReplace(stored, entry)).toBe(may);
  });
});

describe("a stale entry", () => {
  const stale = entryWith("", 0, { storedAt: 1_000, freshUntil: 2_000, keepUntil: 9_000 });
  const refused = new Problem("quota-exceeded");

  it("takes the place of a refusal of the gateway itself, and of a failure of the upstream", () => {
    const replaced = PROBLEM_CODES.filter((code) =>
      mayServeStale(stale, search("listings"), new Problem(code), 3_000, BOUNDS),
    );
    expect(replaced).toEqual([
      "upstream-authentication-failed",
      "upstream-error",
      "upstream-unreachable",
      "upstream-invalid-response",
      "upstream-unavailable",
      "upstream-timeout",
      "quota-exceeded",
      "temporary-reduced-capacity",
      "deadline-exceeded",
    ]);
  });

  it.each<[string, Query, number]>([
    ["sold", search("sold"), 1_000],
    ["areas", search("areas"), 0],
    ["a thumbnail", image, 2],
    ["one record", record("listings"), 3],
  ])("of %s does so for as long after its life as is set for it", (_name, query, forMs) => {
    const may = (sinceMs: number): boolean => mayServeStale(stale, query, refused, 2_000 + sinceMs, BOUNDS);
    expect([may(0), may(forMs), may(forMs + 1)]).toEqual([true, true, false]);
  });

  it("takes the place of whatever else was refused here", () => {
    const problem = (refusedHere: boolean): Problem => new Problem("internal-error", { refusedHere });
    const may = (refusedHere: boolean): boolean =>
      mayServeStale(stale, search("listings"), problem(refusedHere), 3_000, BOUNDS);
    expect([may(true), may(false)]).toEqual([true, false]);
  });

  it.each<[string, Partial<Entry>, number, boolean]>([
    ["just expired", {}, 2_000, true],
    ["at the end of what it is kept for", {}, 8_999, true],
    ["no longer kept", {}, 9_000, false],
    ["as old as any may be", { keepUntil: 99_000 }, 11_000, true],
    ["older than any may be", { keepUntil: 99_000 }, 11_001, false],
    ["purged softly before it expired", { freshUntil: 8_000 }, 3_000, true],
    ["one that there is nothing", { status: 404 }, 2_000, false],
    ["of a replica whose clock is ahead", { storedAt: 4_000 }, 3_000, true],
  ])("that is %s: %j at %i may be given: %s", (_name, changes, now, may) => {
    expect(mayServeStale({ ...stale, ...changes }, search("listings"), refused, now, BOUNDS)).toBe(may);
  });
});
