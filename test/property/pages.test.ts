import fc from "fast-check";
import { describe, expect, it } from "vitest";

import {
  blockAround,
  type BlockIndex,
  type PagedResource,
  indexBlock,
  type Stretch,
} from "../../src/pages/block-index.ts";
import { cutPage, holdsPage } from "../../src/pages/cut-page.ts";
import { generateData } from "../../src/sandbox/dataset/generate.ts";
import { listBody, type OffsetSpelling } from "../../src/sandbox/envelope.ts";
import { search, type SearchResult } from "../../src/sandbox/search.ts";

const DATA = [3, 4, 5].map((seed) =>
  generateData({ seed, listings: 1300, sold: 1100, service: "propertyservice" }),
);

/** Searches that find much, little and nothing. */
const FILTERS: readonly Readonly<Record<string, string>>[] = [
  {},
  { areaId: "2" },
  { areaId: "1,76", minRooms: "3" },
  { objectType: "villa,radhus", includeUnset: "0" },
  { q: "gatan" },
  { maxRent: "4000", maxLivingArea: "62.5" },
  { areaId: "999999" },
];

// By number: a counterexample is to fit on a screen.
const data = fc.nat(DATA.length - 1);
const resource = fc.constantFrom<PagedResource>("listings", "sold");
const filters = fc.constantFrom(...FILTERS);
const size = fc.constantFrom(500, 250, 125, 40);

interface Asked {
  readonly data: number;
  readonly resource: PagedResource;
  readonly filters: (typeof FILTERS)[number];
}
const asked: fc.Arbitrary<Asked> = fc.record({ data, resource, filters });

function found({ data, resource, filters }: Asked, { limit, offset }: Stretch): SearchResult {
  const chosen = DATA[data];
  if (chosen === undefined) throw new RangeError("there is no such data");
  return search(chosen, resource, { ...filters, limit: String(limit), offset: String(offset) });
}

/** What the sandbox sends for a page. */
function sandboxSends(asked: Asked, page: Stretch, spelling: OffsetSpelling): Buffer {
  return Buffer.from(listBody(asked.resource, found(asked, page), spelling));
}

/** A search result written with blanks, members in another order, and an echo that repeats the page. */
function otherwiseWritten(
  asked: Asked,
  page: Stretch,
  how: { readonly gap: string; readonly quoted: boolean; readonly first: boolean },
): Buffer {
  const { totalCount, records } = found(asked, page);
  const number = (value: number): string => (how.quoted ? `"${value}"` : String(value));
  const echo = `"searchParams":{"limit":${number(page.limit)},${how.gap}"offset":${number(page.offset)}}`;
  const texts = records.map((record) => JSON.stringify(record, null, how.gap));
  const array = texts.length === 0 ? "[]" : `[${how.gap}${texts.join(`,${how.gap}`)}${how.gap}]`;
  const members = [
    `"offSet"${how.gap}:${page.offset}`,
    `"${asked.resource}":${how.gap}${array}`,
    `"count":${records.length}`,
    `"limit":${how.gap}${page.limit}`,
    `"totalCount":${totalCount}`,
  ];
  const all = how.first ? [echo, ...members] : [...members, echo];
  return Buffer.from(`{${how.gap}${all.join(`${how.gap},`)}${how.gap}}\n`);
}

function indexOf(body: Buffer, { resource }: Asked, block: Stretch): BlockIndex {
  const index = indexBlock(body, { resource, ...block });
  if (typeof index === "string") throw new Error(index);
  return index;
}

/** A page that lies in one block of a size. */
function pageIn(blockSize: number): fc.Arbitrary<Stretch> {
  return fc
    .record({ block: fc.nat(4), from: fc.nat(blockSize), limit: fc.nat(blockSize) })
    .map(({ block, from, limit }) => ({
      // A page without records may not begin where the next block does.
      offset: block * blockSize + Math.min(from, blockSize - Math.max(1, limit)),
      limit,
    }));
}

const cutting = size.chain((blockSize) =>
  fc.record({ asked, page: pageIn(blockSize), blockSize: fc.constant(blockSize) }),
);

/** How an upstream may write its answers. */
const how = fc.record({
  gap: fc.constantFrom("", " ", "\n  ", "\r\n\t"),
  quoted: fc.boolean(),
  first: fc.boolean(),
});

describe("a page that is cut from its block", () => {
  it("is exactly what the sandbox sends for that page", () => {
    fc.assert(
      fc.property(
        cutting,
        fc.constantFrom<OffsetSpelling>("offset", "offSet"),
        ({ asked, page, blockSize }, spelling) => {
          const block = blockAround(page, blockSize);
          fc.pre(block !== undefined);
          const body = sandboxSends(asked, block, spelling);
          const index = indexOf(body, asked, block);
          expect(holdsPage(index, page)).toBe(true);
          const cut = cutPage(body, index, page);
          expect(cut.body.toString()).toBe(sandboxSends(asked, page, spelling).toString());
          const parsed: Record<string, unknown[]> = JSON.parse(cut.body.toString());
          expect(parsed[asked.resource]).toHaveLength(cut.to - cut.from);
        },
      ),
      { numRuns: 80 },
    );
  });

  it("is also exact if the upstream writes blanks, orders members differently and echoes the page", () => {
    fc.assert(
      fc.property(cutting, how, ({ asked, page, blockSize }, written) => {
        const block = blockAround(page, blockSize);
        fc.pre(block !== undefined);
        const body = otherwiseWritten(asked, block, written);
        const index = indexOf(body, asked, block);
        expect(index.echoesLimit).toBe(true);
        expect(cutPage(body, index, page).body.toString()).toBe(
          otherwiseWritten(asked, page, written).toString(),
        );
      }),
      { numRuns: 60 },
    );
  });
});

it("an answer with cut or changed bytes is never cut into invalid JSON or a wrong number of records", () => {
  const asked: Asked = { data: 0, resource: "listings", filters: { areaId: "1,76", minRooms: "3" } };
  const block = { offset: 0, limit: 40 };
  const whole = sandboxSends(asked, block, "offset");
  fc.assert(
    fc.property(fc.nat(whole.length - 1), (end) => {
      expect(indexBlock(whole.subarray(0, end), { resource: "listings", ...block })).toBeTypeOf("string");
    }),
    { numRuns: 120 },
  );
  fc.assert(
    fc.property(fc.nat(whole.length - 1), fc.constantFrom(...'"{}[],:\\0a '.split("")), (at, by) => {
      const body = Buffer.from(whole);
      body.write(by, at, "latin1");
      if (!isJson(body)) return;
      const index = indexBlock(body, { resource: "listings", ...block });
      if (typeof index === "string") return;
      const { body: cut } = cutPage(body, index, { offset: 3, limit: 7 });
      const parsed: { count: number; listings: unknown[] } = JSON.parse(cut.toString());
      expect(parsed.listings).toHaveLength(parsed.count);
    }),
    { numRuns: 200 },
  );
});

function isJson(body: Buffer): boolean {
  try {
    JSON.parse(body.toString());
    return true;
  } catch {
    return false;
  }
}
