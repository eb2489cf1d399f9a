import { describe, expect, it } from "vitest";

import { type Purge, Purges, type PurgeScope } from "../../../../src/cache/store/purge-marks.ts";
import { cacheKey } from "../../../../src/query/key.ts";

const KEY = cacheKey("json", "listings?areaId=76&offset=0");
const ENTRY = { purgeEpoch: 10, tags: ["area:76", "record:4711"] };

const purge = (epoch: number, scope: PurgeScope, hard = false): Purge => ({ epoch, scope, hard });

describe("a purge", () => {
  it("that is soft takes nothing from a hard one before it", () => {
    const purges = new Purges();
    purges.add([purge(11, { kind: "key", key: KEY }, true), purge(12, { kind: "all" })]);
    expect(purges.verdict(KEY, ENTRY)).toBe("gone");
  });

  it("counts once and whatever the order in which purges are heard of", () => {
    const purges = new Purges();
    const late = purge(13, { kind: "resource", resource: "listings" });
    purges.add([late]);
    purges.add([purge(12, { kind: "tag", tag: "area:76" }, true), late]);
    expect(purges.epoch).toBe(13);
    expect(purges.verdict(KEY, ENTRY)).toBe("gone");
    expect(purges.verdict(KEY, { ...ENTRY, purgeEpoch: 12 })).toBe("stale");
  });

  it("purges nothing else when Redis' stream of purges is full", () => {
    const purges = new Purges();
    // Redis keeps 1,000 purges, and one purge of everything that stands for the earlier ones.
    const tagged = (_: unknown, nth: number) => purge(20 + nth, { kind: "tag", tag: `record:${nth}` }, true);
    purges.add([purge(20, { kind: "all" }, true), ...Array.from({ length: 1_000 }, tagged)]);
    expect(purges.verdict(KEY, { ...ENTRY, purgeEpoch: 20 })).toBe("kept");
    // The next purge makes the oldest ones purges of everything. Entries that are newer than these stay.
    purges.add([tagged(undefined, 1_000)]);
    const verdicts = [500, 600].map((purgeEpoch) => purges.verdict(KEY, { ...ENTRY, purgeEpoch }));
    expect(verdicts).toEqual(["gone", "kept"]);
  });

  it("is never forgotten, however many follow", () => {
    const purges = new Purges();
    purges.add([purge(11, { kind: "tag", tag: "area:76" })]);
    for (let epoch = 12; epoch < 1_200; epoch++)
      purges.add([purge(epoch, { kind: "tag", tag: `record:${epoch}` })]);
    expect(purges.verdict(KEY, ENTRY)).not.toBe("kept");
  });
});
