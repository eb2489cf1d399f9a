/** The sandbox's searches against a naive filter, which reads the records as a person would. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { PARAMETERS } from "../../../src/interface/parameters.ts";
import type { PropertyRecord, PropertyRow } from "../../../src/sandbox/dataset/model.ts";
import { search } from "../../../src/sandbox/search.ts";
import { BadParameter } from "../../../src/sandbox/values.ts";
import { DATA } from "./support.ts";

type Resource = "listings" | "sold";
type Params = Record<string, string>;

const day = (date = ""): number => Number(date.slice(0, 10).replaceAll("-", ""));
const perSqm = (price?: number, area?: number): number | undefined =>
  price === undefined || area === undefined ? undefined : price / area;

/** The attribute behind `min…` and `max…`. */
const ATTRIBUTES: Record<string, (record: PropertyRecord) => number | undefined> = {
  ListPrice: (r) => r.listPrice,
  ListSqmPrice: (r) => perSqm(r.listPrice, r.livingArea),
  SoldPrice: (r) => r.soldPrice,
  SoldSqmPrice: (r) => perSqm(r.soldPrice, r.livingArea),
  Rooms: (r) => r.rooms,
  Rent: (r) => r.rent,
  LivingArea: (r) => r.livingArea,
  PlotArea: (r) => r.plotArea,
  ConstructionYear: (r) => r.constructionYear,
  Published: (r) => day(r.published),
  SoldDate: (r) => day(r.soldDate),
};

const WORDS: Record<string, string> = {
  "tomt-mark": "Tomt/Mark",
  lägenhet: "Lägenhet",
  gård: "Gård",
  villa: "Villa",
};

const numbers = (text = ""): number[] => text.split(",").map(Number);

/** Whether a record matches the value of a parameter. */
const RULES: Record<string, (value: string, row: PropertyRow, given: Params) => boolean> = {
  q(value, { record: { location } }) {
    const texts = [...location.namedAreas, location.address.streetAddress, ...Object.values(location.region)];
    const text = texts.join(" ").toLowerCase();
    return value
      .toLowerCase()
      .split(/[ ,]+/)
      .every((word) => text.includes(word));
  },
  areaId: (value, { areaIds }) => numbers(value).some((id) => areaIds.includes(id)),
  bbox(value, { record }) {
    const { latitude, longitude } = record.location.position;
    const [south = 0, west = 0, north = 0, east = 0] = numbers(value);
    return latitude >= south && longitude >= west && latitude <= north && longitude <= east;
  },
  center(value, { record }, { dim = "2000,2000" }) {
    const { latitude, longitude } = record.location.position;
    const [lat = 0, lng = 0] = numbers(value);
    const [width = 0, height = 0] = numbers(dim);
    const metresEast = (longitude - lng) * 111_320 * Math.cos((lat * Math.PI) / 180);
    return Math.abs(latitude - lat) * 111_320 <= height / 2 && Math.abs(metresEast) <= width / 2;
  },
  objectType: (value, { record }) =>
    value.split(",").some((word) => WORDS[word.trim().toLowerCase()] === record.objectType),
  isNewConstruction: (value, { record }) => (value === "1") === (record.isNewConstruction === 1),
  priceDecrease: (value, { record }) => value === "0" || (record.listPriceChange ?? 0) < 0,
};

/** Unknown parameters match every record. */
function matches(row: PropertyRow, name: string, value: string, given: Params): boolean {
  const [, side, attribute = ""] = /^(min|max)(.+)$/.exec(name) ?? [];
  if (side === undefined) return RULES[name]?.(value, row, given) ?? true;
  const actual = ATTRIBUTES[attribute]?.(row.record);
  if (actual === undefined) return given["includeUnset"] !== "0";
  return side === "min" ? actual >= Number(value) : actual <= Number(value);
}

/** Values of the parameters that are no bounds. */
const VALUES: Record<string, string[]> = {
  q: ["nacka", "Sickla, NACKA", "atlantis"],
  areaId: ["76", "2", "76, 1,76", "999999"],
  bbox: ["59.2,17.8,59.4,18.3"],
  center: ["59.33,18.06"],
  dim: ["11132,22264", "200,90000"],
  objectType: ["lägenhet", "tomt-mark", "Villa, GÅRD"],
  isNewConstruction: ["0", "1"],
  includeUnset: ["0", "1"],
  priceDecrease: ["0", "1"],
  unknown: ["any"],
};

/** A few parameters. Bounds occur in the data, so that records lie exactly on them; they are whole where the interface wants that. */
function paramsOf(resource: Resource): fc.Arbitrary<Params> {
  const names = [...PARAMETERS[resource].map(({ name }) => name), "unknown"];
  const all = names.flatMap((name) => {
    const valueOf = ATTRIBUTES[name.slice(3)] ?? (() => undefined);
    const known = DATA[resource].map(({ record }) => valueOf(record)).filter((value) => value !== undefined);
    const texts = VALUES[name] ?? known.map((value) => String(/Sqm/.test(name) ? Math.round(value) : value));
    return texts.length === 0 ? [] : [fc.tuple(fc.constant(name), fc.constantFrom(...texts))];
  });
  const some = fc.subarray(all, { maxLength: 6 }).chain((params) => fc.tuple(...params));
  return some.map((params) => Object.fromEntries(params));
}

describe.each(["listings", "sold"] as const)("a search of %s", (resource) => {
  it("finds what a naive filter finds, in the same order, page by page", () => {
    fc.assert(
      fc.property(paramsOf(resource), fc.integer({ min: 1, max: 500 }), (params, limit) => {
        const expected = DATA[resource]
          .filter((row) => Object.entries(params).every(([name, value]) => matches(row, name, value, params)))
          .map(({ record }) => record);
        const pages = [0, limit, expected.length].map((offset) =>
          search(DATA, resource, { ...params, limit: String(limit), offset: String(offset) }),
        );
        for (const { totalCount } of pages) expect(totalCount).toBe(expected.length);
        expect(pages.map(({ records }) => records)).toEqual([
          expected.slice(0, limit),
          expected.slice(limit, 2 * limit),
          [],
        ]);
      }),
      { numRuns: 200 },
    );
  });
});

it.each([
  "limit=501 limit=-1 limit=ten offset=1.5 minListPrice=undefined minListPrice=1.5 minRooms=0x10",
  "areaId=Nacka areaId=, objectType=villa,slott center=91,18 dim=10 bbox=1,2,3 bbox=1,2,3,181",
  "minPublished=2026-01-01 minPublished=20260231 priceDecrease=yes includeUnset=true",
])("refuses each malformed value of %s", (queries) => {
  for (const query of queries.split(" "))
    expect(() => search(DATA, "listings", new URLSearchParams(query)), query).toThrow(BadParameter);
});

const named = (params: Params): string[] =>
  search(DATA, "areas", { limit: "500", ...params }).records.map((r) => ("name" in r ? r.name : ""));

it("areas are found by name, best match first; by contents; by a point, smallest first; all by id", () => {
  expect(named({ q: "nacka" })[0]).toBe("Nacka");
  expect(named({ q: "nacka" })).toContain("Nacka Strand");
  expect(named({ listings: "1" })).toHaveLength(DATA.areasWithListings.size);
  expect(named({ transactions: "1" })).toHaveLength(DATA.areasWithSold.size);
  const around = named({ lat: "59.31", lng: "18.2" });
  expect(around.indexOf("Nacka")).toBeLessThan(around.indexOf("Stockholms län"));
  expect(named({ lat: "57.7", lng: "-30" })).toHaveLength(1);
  expect(named({})).toHaveLength(DATA.areas.length);
  expect(() => named({ lat: "59.3" })).toThrow(BadParameter);
});
