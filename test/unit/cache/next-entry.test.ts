import { describe, expect, it } from "vitest";

import type { Entry } from "../../../src/cache/entry.ts";
import { createLifetimes } from "../../../src/cache/lifetimes/learned-lifetimes.ts";
import { nextEntry } from "../../../src/cache/next-entry.ts";
import { fetchedWith, NO_CACHING_HEADERS } from "../../support/entries.ts";
import { rulesWith } from "../../support/rules.ts";

const RULES = rulesWith({ lifetimes: "learned" });
const QUERY = { kind: "record", resource: "listings", serviceId: "4711", extras: [] } as const;

describe("a learned lifetime", () => {
  it.each([
    ["is limited by the upstream's", 0.01, "limited"],
    ["is not prolonged by the upstream's", 1_000, "longest"],
  ])("%s", async (_name, freshFor, why) => {
    const ttlMs = RULES.ttlMs.records;
    const lifetimes = createLifetimes(() => "learned");
    const caching = { ...NO_CACHING_HEADERS, freshForMs: freshFor * ttlMs };
    let cached: Entry | undefined;
    // It never changes and is seldom asked for, so it would get the longest lifetime.
    for (let nth = 1; nth <= 10; nth++) {
      const now = nth * 20 * ttlMs;
      const fetched = fetchedWith({ caching });
      const before = cached && { entry: cached, wasPurged: false, requests: 1 };
      const arrived = { query: QUERY, fetched, now, purgeEpoch: 0, cached, before };
      ({ entry: cached } = await nextEntry(arrived, RULES, lifetimes));
    }
    if (cached === undefined) expect.unreachable("nothing was received");
    expect(cached.freshUntil - cached.storedAt).toBe(Math.min(freshFor, 3) * ttlMs);
    expect(lifetimes.about(cached, ttlMs)?.why).toBe(why);
  });

  it("of other answers stays as it is when a warm answer that nobody asks for is fetched again and again", async () => {
    const ttlMs = RULES.ttlMs.records;
    const lifetimes = createLifetimes(() => "learned");
    const arrive = (requests: number): number =>
      lifetimes.of({
        ttlMs,
        bound: (ms) => ms,
        known: { changes: 0, watchedMs: 100 * ttlMs, requests },
        observation: { sinceMs: ttlMs, hasChanged: false, requests },
      }).lifetimeMs;
    expect(arrive(10)).toBe(3 * ttlMs);
    for (let nth = 0; nth < 10; nth++) expect(arrive(0)).toBe(3 * ttlMs);
    expect(arrive(10)).toBe(3 * ttlMs);
    expect(lifetimes.freshness().expected).toBeGreaterThanOrEqual(0);
  });
});
