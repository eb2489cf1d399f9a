import { describe, expect, it } from "vitest";

import { blockAround, indexBlock, type Unfit } from "../../../src/pages/block-index.ts";

const BLOCK = { resource: "listings", offset: 500, limit: 500 } as const;

/** A block's last two records, with something about it changed. */
function body(changes: Readonly<Record<string, unknown>> = {}): Buffer {
  const members = {
    totalCount: 502,
    count: 2,
    listings: [{ serviceId: 1 }, { serviceId: 2 }],
    limit: 500,
    offset: 500,
    searchParams: { areaId: 76 },
    ...changes,
  };
  return Buffer.from(JSON.stringify(members));
}

it.each<[string, Readonly<Record<string, unknown>>]>([
  ["as the upstream sends it", {}],
  ["without an echo", { searchParams: undefined }],
  ["with the empty array that PHP makes of an echo without members", { searchParams: [] }],
  ["with ids that are texts", { listings: [{ serviceId: "a" }, { serviceId: "b" }] }],
  ["with unknown members in its records", { listings: [{ serviceId: 1, new: [{}] }, { serviceId: 2 }] }],
])("a block that pages can be cut from %s", (_, changes) => {
  expect(indexBlock(body(changes), BLOCK)).toMatchObject({ totalCount: 502, offset: 500 });
});

describe("an unusable block", () => {
  const NUMBERS: Unfit = "the numbers of the envelope do not fit";
  const UNKNOWN: Unfit = "a field of the envelope is not known";
  const MISSING: Unfit = "a field of the envelope is missing";
  const ECHO: Unfit = "searchParams has an undocumented parameter, or one twice";

  it.each<[string, Readonly<Record<string, unknown>>, Unfit]>([
    ["fewer records than there are to be", { totalCount: 503 }, NUMBERS],
    ["more records than there are to be", { totalCount: 501 }, NUMBERS],
    ["another count than it has records", { count: 3 }, NUMBERS],
    ["another limit than was asked for", { limit: 100 }, NUMBERS],
    ["another offset than was asked for", { offset: 0 }, NUMBERS],
    ["a count that is a text", { count: "2" }, NUMBERS],
    ["a total that is no whole number", { totalCount: 502.5 }, NUMBERS],
    ["links, which depend on the page", { links: { next: "/listings?offset=1000" } }, UNKNOWN],
    ["an offset in both spellings", { offSet: 500 }, UNKNOWN],
    ["no total", { totalCount: undefined }, MISSING],
    ["no limit", { limit: undefined }, MISSING],
    ["no offset", { offset: undefined }, MISSING],
    ["the records of something else", { listings: undefined, sold: [] }, UNKNOWN],
    ["an echo of something that may depend on the page", { searchParams: { page: 2 } }, ECHO],
    ["an echo of another page", { searchParams: { limit: 35 } }, NUMBERS],
    ["an echo that is a text", { searchParams: "areaId=76" }, "malformed"],
  ])("has %s", (_, changes, unfit) => {
    expect(indexBlock(body(changes), BLOCK)).toBe(unfit);
  });

  it.each(["", "[]", "null", '{"count":', '{"count":}', `${body().toString()}x`])("is %j", (text) => {
    expect(indexBlock(Buffer.from(text), BLOCK)).toBe("malformed");
  });
});

it.each([
  [{ offset: 475, limit: 25 }, 500, { offset: 0, limit: 500 }],
  [{ offset: 476, limit: 25 }, 500, undefined],
  [{ offset: 500, limit: 25 }, 500, { offset: 500, limit: 500 }],
  [{ offset: 0, limit: 500 }, 250, undefined],
  [{ offset: 9_007_199_254_740_991, limit: 0 }, 500, { offset: 9_007_199_254_740_500, limit: 500 }],
])("the block around a page of %j in blocks of %i is %j", (page, size, block) => {
  expect(blockAround(page, size)).toEqual(block);
});
