import { describe, expect, it } from "vitest";

import { envelopeFault, recordIdsIn } from "../../../src/interface/envelope.ts";

describe("an answer of the upstream", () => {
  it.each<[string, unknown]>([
    ["with its count and offset", { totalCount: 9, count: 1, listings: [{}], limit: 1, offset: 0 }],
    ["with the offset spelled as in the samples", { totalCount: 9, count: 1, listings: [{}], offSet: 0 }],
    ["with nothing found", { totalCount: 0, count: 0, listings: [] }],
    ["with nothing but its records", { listings: [{}, {}] }],
    ["with fields nobody has heard of", { count: 1, listings: [{ new: { thing: 1 } }], newer: true }],
  ])("%s is taken", (_name, body) => {
    expect(envelopeFault(body, "listings", false)).toBeUndefined();
  });

  it.each<[unknown, string]>([
    [null, "not an object"],
    ["listings", "not an object"],
    [[{ listings: [] }], "not an object"],
    [{}, "array of records missing"],
    [{ sold: [] }, "array of records missing"],
    [{ listings: {} }, "array of records missing"],
    [{ listings: null, count: 0 }, "array of records missing"],
    [{ listings: [{}], count: 2 }, "count is not the number of records"],
  ])("%j is refused: %s", (body, fault) => {
    expect(envelopeFault(body, "listings", false)).toBe(fault);
  });

  it("about one record has just that one", () => {
    expect(envelopeFault({ sold: [{}] }, "sold", true)).toBeUndefined();
    expect(envelopeFault({ sold: [] }, "sold", true)).toBe("more or fewer than one record");
    expect(envelopeFault({ sold: [{}, {}] }, "sold", true)).toBe("more or fewer than one record");
  });
});

describe("the ids of an answer's records", () => {
  it("are told in their order, whether numbers or text", () => {
    expect(recordIdsIn({ listings: [{ serviceId: 7 }, { serviceId: "8" }] }, "listings")).toEqual(["7", "8"]);
  });

  it("are left out where there are none to tell", () => {
    const odd = [{ id: 7 }, null, 7, "serviceId", { serviceId: null }, { serviceId: { $: 1 } }];
    expect(recordIdsIn({ listings: odd }, "listings")).toEqual([]);
    expect(recordIdsIn({ listings: "none" }, "listings")).toEqual([]);
    expect(recordIdsIn(null, "listings")).toEqual([]);
  });
});
