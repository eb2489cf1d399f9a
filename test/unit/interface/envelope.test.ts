import { describe, expect, it } from "vitest";

import { envelopeFault, recordIdsIn } from "../../../src/interface/envelope.ts";

describe("an answer of the upstream", () => {
  it.each<[string, unknown]>([
    ["with its count and offset", { totalCount: 9, count: 1, listings: [{}], limit: 1, offset: 0 }],
    ["with the offset spelled as in the samples", { totalCount: 9, count: 1, listings: [{}], offSet: 0 }],
    ["with nothing found", { totalCount: 0, count: 0, listings: [] }],
    ["with nothing but its records", { listings: [{}, {}] }],
    ["with its count as text", { count: "2", listings: [{}, {}] }],
    ["with another limit than its records", { count: 2, listings: [{}, {}], limit: 1, offset: 7 }],
    ["with fields nobody has heard of", { count: 1, listings: [{ new: { thing: 1 } }], newer: true }],
  ])("%s is accepted", (_name, body) => {
    expect(envelopeFault(body, "listings", undefined)).toBeUndefined();
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
    [{ listings: [{}], count: "2" }, "count is not the number of records"],
    [{ listings: [], count: null }, "count is not the number of records"],
  ])("%j is refused: %s", (body, fault) => {
    expect(envelopeFault(body, "listings", undefined)).toBe(fault);
  });

  it("with one record must have exactly one", () => {
    expect(envelopeFault({ sold: [{}] }, "sold", "7")).toBeUndefined();
    expect(envelopeFault({ sold: [] }, "sold", "7")).toBe("more or fewer than one record");
    expect(envelopeFault({ sold: [{}, {}] }, "sold", "7")).toBe("more or fewer than one record");
    expect(envelopeFault({ sold: [{}], count: 2 }, "sold", "7")).toBe("count is not the number of records");
  });

  it.each<[unknown, string, boolean]>([
    [7, "7", true],
    ["7", "7", true],
    // The parser rounds this number to 9007199254740992.
    [JSON.parse("9007199254740993"), "9007199254740993", true],
    [8, "7", false],
    ["8", "7", false],
    [null, "7", false],
    [[7], "7", false],
  ])("with the id %j for the requested id %s is accepted: %s", (serviceId, asked, isRight) => {
    const fault = envelopeFault({ sold: [{ serviceId }] }, "sold", asked);
    expect(fault).toBe(isRight ? undefined : "another record than the one asked for");
  });
});

describe("the ids of an answer's records", () => {
  it("are listed in order, numbers and text", () => {
    expect(recordIdsIn({ listings: [{ serviceId: 7 }, { serviceId: "8" }] }, "listings")).toEqual(["7", "8"]);
  });

  it("are omitted if they are malformed", () => {
    const odd = [{ id: 7 }, null, 7, "serviceId", { serviceId: null }, { serviceId: { $: 1 } }];
    expect(recordIdsIn({ listings: odd }, "listings")).toEqual([]);
    expect(recordIdsIn({ listings: "none" }, "listings")).toEqual([]);
    expect(recordIdsIn(null, "listings")).toEqual([]);
  });
});
