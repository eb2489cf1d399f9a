import { expect, it } from "vitest";

import { createKnownTargets, knownTargetsBytes, type KnownTarget } from "../../../src/query/known-targets.ts";
import { SEARCH } from "../../support/question.ts";

const ROUTE: KnownTarget["route"] = { kind: "search", resource: "listings" };

it("the memory for targets is bounded, and forgets the least recently used ones", () => {
  const targets = createKnownTargets(20_000);
  const parsed = { query: SEARCH, canonicalQuery: "listings?offset=0", key: "key" };
  const all = Array.from({ length: 1_000 }, (_, index) => `/listings?_=${index}`);
  for (const target of all) {
    targets.remember(target, ROUTE, "json", parsed);
    targets.find("/listings?_=0");
  }
  const left = all.filter((target) => targets.find(target) !== undefined);
  expect(left.length).toBeLessThan(40);
  expect(left).toEqual([all[0], ...all.slice(1_001 - left.length)]);
});

it("the memory for targets is a whole number of bytes for any size of the cache", () => {
  for (const cacheBytes of [301_000_000, 1_000_000_001])
    expect(() => createKnownTargets(knownTargetsBytes(cacheBytes))).not.toThrow();
});

it("all spellings of a query have the same object, but not streamed queries, whose parameters differ", () => {
  const targets = createKnownTargets(20_000);
  const streamed = { kind: "streamed", resource: "areas", path: "/areas/1", extras: [] } as const;
  const isShared = [SEARCH, streamed].map((query) => {
    for (const target of ["/a", "/b"])
      targets.remember(target, ROUTE, "json", { query: { ...query }, canonicalQuery: "", key: query.kind });
    return targets.find("/a")?.parsed.json === targets.find("/b")?.parsed.json;
  });
  expect(isShared).toEqual([true, false]);
});
