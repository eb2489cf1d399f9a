import { describe, expect, it } from "vitest";

import { freshnessLifetimeMs, isFresh, mayReplace, type Lifetimes } from "../../../src/cache/policy.ts";
import type { Query } from "../../../src/query/query.ts";
import { entryWith } from "../../support/entries.ts";

const LIFETIMES: Lifetimes = {
  ttlMs: { listings: 1, sold: 2, areas: 3, images: 4, records: 5 },
  negativeTtlMs: 6,
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
    expect(isFresh(entry, now)).toBe(fresh);
  });

  it("with a lifetime of nothing is never fresh", () => {
    expect(isFresh(entryWith("", 0, { storedAt: 1_000, freshUntil: 1_000 }), 1_000)).toBe(false);
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
