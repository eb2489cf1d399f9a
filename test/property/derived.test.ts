import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { indexBlock, type FoldedResource } from "../../src/pages/block-index.ts";
import type { BlockBytes } from "../../src/pages/derive/body.ts";
import { compare } from "../../src/pages/derive/compare.ts";
import { compute } from "../../src/pages/derive/compute.ts";
import { compareDecimals, filterTest, type FilterTest } from "../../src/pages/derive/filters.ts";
import type { Sign } from "../../src/pages/derive/trust.ts";
import { generateData } from "../../src/sandbox/dataset/generate.ts";
import { listBody } from "../../src/sandbox/envelope.ts";
import { FILTERING, type Filtering, USUAL_FILTERING } from "../../src/sandbox/filters.ts";
import { search } from "../../src/sandbox/search.ts";

const DATA = generateData({ seed: 6, listings: 700, sold: 700, service: "propertyservice" });
const SIZE = 500;

type Filters = Readonly<Record<string, string>>;

/** A search, and the filters of a narrower one. */
interface Case {
  readonly resource: FoldedResource;
  readonly broad: Filters;
  readonly added: Filters;
}

const days = fc
  .record({ year: fc.integer({ min: 2024, max: 2026 }), month: fc.integer({ min: 1, max: 12 }) })
  .map(({ year, month }) => `${year}${String(month).padStart(2, "0")}15`);
const price = fc.integer({ min: 5, max: 90 }).map((n) => String(n * 100_000));
const rooms = fc.constantFrom("1", "2", "2.5", "3", "4", "5.5");
const area = fc.integer({ min: 20, max: 200 }).map(String);
const year = fc.integer({ min: 1900, max: 2026 }).map(String);
const box = fc
  .tuple(fc.integer({ min: 550, max: 620 }), fc.integer({ min: 110, max: 180 }))
  .map(([south, west]) => [south / 10, west / 10, south / 10 + 1.5, west / 10 + 2].map(String).join(","));

/** Values of the filters that records decide, by name. */
const VALUES: Readonly<Record<string, fc.Arbitrary<string>>> = {
  minRooms: rooms,
  maxRooms: rooms,
  maxRent: fc.integer({ min: 1, max: 9 }).map((n) => String(n * 1_000)),
  minLivingArea: area,
  maxLivingArea: area,
  minConstructionYear: year,
  maxConstructionYear: year,
  minPublished: days,
  maxPublished: days,
  objectType: fc.constantFrom("villa", "lägenhet", "lägenhet,villa", "tomt-mark,gård"),
  bbox: box,
};
const OF_RESOURCE: Readonly<Record<FoldedResource, Readonly<Record<string, fc.Arbitrary<string>>>>> = {
  listings: { minListPrice: price, maxListPrice: price },
  sold: { minSoldPrice: price, maxSoldPrice: price, minSoldDate: days, maxSoldDate: days },
};

const cases = (most: number): fc.Arbitrary<Case> =>
  fc.constantFrom<FoldedResource>("listings", "sold").chain((resource) => {
    const values = { ...VALUES, ...OF_RESOURCE[resource] };
    const added = fc
      .uniqueArray(fc.constantFrom(...Object.keys(values)), { minLength: 1, maxLength: most })
      .chain((names) =>
        fc.record(Object.fromEntries(names.map((name) => [name, values[name] ?? fc.constant("")]))),
      );
    const broad = fc.constantFrom<Filters>(
      {},
      { areaId: "2" },
      { areaId: "1", includeUnset: "0" },
      { isNewConstruction: "0" },
    );
    return fc.record({ resource: fc.constant(resource), broad, added });
  });

/** All that the sandbox finds, as it would send it in one answer. */
function sandboxSends(resource: FoldedResource, filters: Filters, filtering: Filtering): Buffer {
  const page = (offset: number): ReturnType<typeof search> =>
    search(DATA, resource, { ...filters, limit: String(SIZE), offset: String(offset) }, filtering);
  const first = page(0);
  const records = [...first.records, ...page(SIZE).records];
  const limit = Math.max(SIZE, records.length);
  return Buffer.from(listBody(resource, { ...first, records, limit }, "offset"));
}

function blocksOf({ resource, broad }: Case, filtering: Filtering): BlockBytes[] {
  return [0, SIZE].flatMap((offset) => {
    const params = { ...broad, limit: String(SIZE), offset: String(offset) };
    const found = search(DATA, resource, params, filtering);
    if (offset > 0 && found.records.length === 0) return [];
    const body = Buffer.from(listBody(resource, found, "offset"));
    return [indexed(body, resource, offset, SIZE)];
  });
}

function indexed(body: Buffer, resource: FoldedResource, offset: number, limit: number): BlockBytes {
  const index = indexBlock(body, resource, { offset, limit });
  if (typeof index === "string") throw new Error(index);
  return { body, index };
}

function testsOf({ added }: Case): FilterTest[] {
  // In the order of the interface's table, as a canonical query has them.
  const order = ["bbox", "min", "max", "objectType"];
  return Object.entries(added)
    .flatMap(([name, value]) => filterTest(name, value) ?? [])
    .toSorted((one, other) => order.indexOf(one.name) - order.indexOf(other.name));
}

/** What the interface documents, with bounds that belong to the result. */
function documented(trait: string): Sign {
  return trait.endsWith("includeUnset=0 unset") ? "-" : "+";
}

function computed(asked: Case, blocks: readonly BlockBytes[]): Buffer | undefined {
  const result = compute({
    resource: asked.resource,
    includeUnset: asked.broad["includeUnset"] ?? "1",
    added: testsOf(asked),
    blocks,
    size: SIZE,
    signOf: documented,
  });
  return result?.entry.bodies.identity;
}

describe("a narrower search", () => {
  it("is computed exactly as the sandbox sends it", () => {
    fc.assert(
      fc.property(cases(4), (asked) => {
        const blocks = blocksOf(asked, USUAL_FILTERING);
        const filters = { ...asked.broad, ...asked.added };
        const expected = sandboxSends(asked.resource, filters, USUAL_FILTERING);
        expect(computed(asked, blocks)?.equals(expected)).toBe(true);
      }),
      { numRuns: 150 },
    );
  });

  it("never differs unnoticed from an upstream that filters differently", () => {
    const filtering = fc.record({
      bounds: fc.constantFrom(...FILTERING.bounds),
      unset: fc.constantFrom(...FILTERING.unset),
      order: fc.constantFrom(...FILTERING.order),
      values: fc.constantFrom(...FILTERING.values),
    });
    fc.assert(
      fc.property(cases(1), filtering, (asked, how) => {
        const blocks = blocksOf(asked, how);
        const body = sandboxSends(asked.resource, { ...asked.broad, ...asked.added }, how);
        const narrower = indexed(body, asked.resource, 0, Math.max(SIZE, countIn(body)));
        const comparison = compare({
          resource: asked.resource,
          includeUnset: asked.broad["includeUnset"] ?? "1",
          narrower,
          broader: blocks,
          added: testsOf(asked),
          id: "this one",
        });
        const shown = [
          ...(comparison?.samples ?? []),
          ...(comparison?.suspicions ?? []).map(({ sample }) => sample),
        ];
        const isRight = computed(asked, blocks)?.equals(body) === true;
        expect(shown.every(({ trait, sign }) => sign === documented(trait))).toBe(isRight);
      }),
      { numRuns: 150 },
    );
  });
});

function countIn(body: Buffer): number {
  return Number(/"count":(\d+)/.exec(body.toString("latin1"))?.[1]);
}

describe("decimal numbers", () => {
  it("are compared by value at any length", () => {
    const digits = fc.stringMatching(/^-?\d{1,30}\.\d{1,10}$/);
    const scaled = (text: string): bigint => {
      const [whole = "", part = ""] = text.split(".");
      return BigInt(whole + part.padEnd(10, "0"));
    };
    fc.assert(
      fc.property(digits, digits, (one, other) => {
        const difference = scaled(one) - scaled(other);
        expect(Math.sign(compareDecimals(one, other))).toBe(
          Number(difference > 0n) - Number(difference < 0n),
        );
      }),
    );
  });

  it.each([
    ["3", "3.0", 0],
    ["-0", "0.00", 0],
    ["2.5", "2.50", 0],
    ["9007199254740993", "9007199254740992", 1],
    ["-1.5", "-1.25", -1],
    ["10", "9.99", 1],
  ])("%s against %s", (one, other, sign) => {
    expect(Math.sign(compareDecimals(one, other))).toBe(sign);
  });
});
