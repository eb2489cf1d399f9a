import { describe, expect, it } from "vitest";

import type { Entry } from "../../../src/cache/entry.ts";
import { createLifetimes } from "../../../src/cache/lifetimes/learned-lifetimes.ts";
import { nextEntry } from "../../../src/cache/next-entry.ts";
import type { Query } from "../../../src/query/query.ts";
import { fetchedWith } from "../../support/entries.ts";
import { rulesWith } from "../../support/rules.ts";

/** Fetches answers that hold records with prices: by name, `{ 4711: 1 }` is a record at price 1. */
function start() {
  const lifetimes = createLifetimes(() => "learned");
  const entries = new Map<string, Entry>();
  return async function fetch(
    name: string,
    now: number,
    prices: Readonly<Record<string, number>>,
  ): Promise<Entry> {
    const listings = Object.entries(prices).map(([serviceId, price]) => ({ serviceId, price }));
    const fetched = fetchedWith({
      body: Buffer.from(JSON.stringify({ listings })),
      recordIds: Object.keys(prices),
    });
    const cached = entries.get(name);
    const before = cached && { entry: cached, wasPurged: false, requests: 1 };
    const page = { extras: [], limit: 500, offset: 0 };
    const query: Query = { kind: "search", resource: "listings", filters: [["q", name]], ...page };
    const arrived = { query, fetched, now, purgeEpoch: 0, cached, before };
    const { entry } = await nextEntry(arrived, rulesWith(), lifetimes);
    entries.set(name, entry);
    return entry;
  };
}

describe("a record that has changed in one answer", () => {
  it("has changed in the others that hold it, each time", async () => {
    const fetch = start();
    for (const name of ["one", "other", "without"])
      await fetch(name, 0, name === "without" ? { 12: 1 } : { 4711: 1 });
    for (const price of [2, 3, 4]) await fetch("one", price * 1_000, { 4711: price });
    expect((await fetch("other", 5_000, { 4711: 4 })).rates?.changes).toBe(3);
    expect((await fetch("without", 5_000, { 12: 1 })).rates?.changes).toBe(0);
  });

  it("has changed even in an answer that is the same again", async () => {
    const fetch = start();
    for (const name of ["one", "other"]) await fetch(name, 0, { 4711: 1 });
    await fetch("one", 1_000, { 4711: 2 });
    expect((await fetch("other", 2_000, { 4711: 1 })).rates?.changes).toBeGreaterThanOrEqual(1);
  });

  it("has not changed once more when another answer shows the same change", async () => {
    const fetch = start();
    for (const name of ["one", "other", "third"]) await fetch(name, 0, { 4711: 1 });
    await fetch("one", 1_000, { 4711: 2 });
    await fetch("third", 1_500, { 4711: 2 });
    await fetch("other", 2_000, { 4711: 2 });
    expect((await fetch("third", 3_000, { 4711: 2 })).rates?.changes).toBeCloseTo(0.995, 1);
  });

  it("has not changed in an answer that was stored later", async () => {
    const fetch = start();
    await fetch("one", 0, { 4711: 1 });
    await fetch("one", 1_000, { 4711: 2 });
    await fetch("other", 1_000, { 4711: 2 });
    expect((await fetch("other", 2_000, { 4711: 2 })).rates?.changes).toBe(0);
  });
});
