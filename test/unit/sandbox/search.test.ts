import { describe, expect, it } from "vitest";

import type { PropertyRecord, PropertyRow } from "../../../src/sandbox/dataset/model.ts";
import { search } from "../../../src/sandbox/search.ts";
import type { SearchParams } from "../../../src/sandbox/search.ts";
import { BadParameter } from "../../../src/sandbox/values.ts";
import { DATA } from "./support.ts";

type Resource = "listings" | "sold";
type Wanted = (record: PropertyRecord, row: PropertyRow) => boolean;

/** Every match, as ids: all pages of it. */
function idsFound(resource: Resource, params: Record<string, string>): number[] {
  const ids: number[] = [];
  for (let offset = 0; ; offset += 500) {
    const page = search(DATA, resource, { ...params, limit: "500", offset: String(offset) });
    ids.push(...page.records.map((record) => record.serviceId));
    if (ids.length >= page.totalCount) return ids;
  }
}

function idsWanted(resource: Resource, wanted: Wanted): number[] {
  return DATA[resource].filter((row) => wanted(row.record, row)).map((row) => row.record.serviceId);
}

const inNacka: Wanted = (record) => record.location.region.municipalityName === "Nacka";
const sqm = (price?: number, area?: number): number | undefined =>
  price === undefined || area === undefined ? undefined : price / area;

const BOTH: [string, Record<string, string>, Wanted][] = [
  ["nothing", {}, () => true],
  ["an unknown parameter", { format: "json" }, () => true],
  ["an empty value", { minRooms: "" }, () => true],
  ["q", { q: "nacka" }, inNacka],
  [
    "q of two words, capitals and a comma",
    { q: "Sickla, NACKA" },
    (r) => r.location.namedAreas[0] === "Sickla",
  ],
  ["an area", { areaId: "76" }, inNacka],
  ["a county", { areaId: "2" }, (r) => r.location.region.countyName === "Stockholms län"],
  [
    "areas, blanks and repeats",
    { areaId: "76, 1,76" },
    (r) => ["Nacka", "Stockholm"].includes(r.location.region.municipalityName),
  ],
  ["an unknown area", { areaId: "999999" }, () => false],
  [
    "bbox",
    { bbox: "59.2,17.8,59.4,18.3" },
    ({ location: { position: p } }) =>
      p.latitude >= 59.2 && p.latitude <= 59.4 && p.longitude >= 17.8 && p.longitude <= 18.3,
  ],
  [
    "center and dim",
    { center: "59.33,18.06", dim: "11132,22264" },
    ({ location: { position: p } }) =>
      Math.abs(p.latitude - 59.33) <= 0.1 &&
      Math.abs(p.longitude - 18.06) <= 0.05 / Math.cos((59.33 * Math.PI) / 180),
  ],
  ["dim alone", { dim: "10,10" }, () => true],
  ["minRooms", { minRooms: "3.5" }, (r) => r.rooms === undefined || r.rooms >= 3.5],
  ["maxRooms, set", { maxRooms: "2", includeUnset: "0" }, (r) => r.rooms !== undefined && r.rooms <= 2],
  ["maxRent", { maxRent: "4000" }, (r) => r.rent === undefined || r.rent <= 4000],
  ["maxRent, set", { maxRent: "4000", includeUnset: "0" }, (r) => r.rent !== undefined && r.rent <= 4000],
  [
    "living area, set",
    { minLivingArea: "50.5", maxLivingArea: "80", includeUnset: "0" },
    (r) => r.livingArea !== undefined && r.livingArea >= 50.5 && r.livingArea <= 80,
  ],
  ["minPlotArea", { minPlotArea: "900" }, (r) => r.plotArea === undefined || r.plotArea >= 900],
  [
    "maxPlotArea, set",
    { maxPlotArea: "900", includeUnset: "0" },
    (r) => r.plotArea !== undefined && r.plotArea <= 900,
  ],
  ["one object type", { objectType: "lägenhet" }, (r) => r.objectType === "Lägenhet"],
  ["plots", { objectType: "tomt-mark" }, (r) => r.objectType === "Tomt/Mark"],
  [
    "object types, capitalised",
    { objectType: "Villa, GÅRD" },
    (r) => r.objectType === "Villa" || r.objectType === "Gård",
  ],
  [
    "year built",
    { minConstructionYear: "1950", maxConstructionYear: "1975" },
    (r) => r.constructionYear === undefined || (r.constructionYear >= 1950 && r.constructionYear <= 1975),
  ],
  [
    "published",
    { minPublished: "20260401", maxPublished: "20260430" },
    (r) => r.published.startsWith("2026-04"),
  ],
  ["new construction", { isNewConstruction: "1" }, (r) => r.isNewConstruction === 1],
  ["no new construction", { isNewConstruction: "0" }, (r) => r.isNewConstruction === undefined],
];

const LISTINGS_ONLY: [string, Record<string, string>, Wanted][] = [
  [
    "list price",
    { minListPrice: "2000000", maxListPrice: "3000000" },
    (r) => r.listPrice === undefined || (r.listPrice >= 2e6 && r.listPrice <= 3e6),
  ],
  [
    "list price per square metre, set",
    { minListSqmPrice: "20000", maxListSqmPrice: "40000", includeUnset: "0" },
    (r) => {
      const price = sqm(r.listPrice, r.livingArea);
      return price !== undefined && price >= 20_000 && price <= 40_000;
    },
  ],
  ["price decrease", { priceDecrease: "1" }, (r) => (r.listPriceChange ?? 0) < 0],
  ["price decrease, not asked for", { priceDecrease: "0" }, () => true],
  ["a filter of sold", { minSoldPrice: "999999999" }, () => true],
];

const SOLD_ONLY: [string, Record<string, string>, Wanted][] = [
  [
    "sold price",
    { minSoldPrice: "2000000", maxSoldPrice: "3000000" },
    (r) => (r.soldPrice ?? 0) >= 2e6 && (r.soldPrice ?? 0) <= 3e6,
  ],
  [
    "sold price per square metre",
    { minSoldSqmPrice: "30000" },
    (r) => (sqm(r.soldPrice, r.livingArea) ?? Infinity) >= 30_000,
  ],
  [
    "sold price per square metre, at most",
    { maxSoldSqmPrice: "30000", includeUnset: "0" },
    (r) => (sqm(r.soldPrice, r.livingArea) ?? Infinity) <= 30_000,
  ],
  [
    "sale date",
    { minSoldDate: "20240101", maxSoldDate: "20241231" },
    (r) => (r.soldDate ?? "").startsWith("2024-"),
  ],
  ["a filter of listings", { minListPrice: "999999999", priceDecrease: "1" }, () => true],
];

describe.each([
  ["listings" as const, [...BOTH, ...LISTINGS_ONLY]],
  ["sold" as const, [...BOTH, ...SOLD_ONLY]],
])("the filters of %s", (resource, table) => {
  it.each(table)("%s", (_name, params, wanted) => {
    expect(idsFound(resource, params)).toEqual(idsWanted(resource, wanted));
  });

  it("join by and", () => {
    const params = { areaId: "76", objectType: "lägenhet", minRooms: "3", includeUnset: "0" };
    expect(idsFound(resource, params)).toEqual(
      idsWanted(resource, (r, row) => inNacka(r, row) && r.objectType === "Lägenhet" && (r.rooms ?? 0) >= 3),
    );
  });
});

describe("pages", () => {
  it.each([
    ["listings", 35],
    ["sold", 35],
    ["areas", 30],
  ] as const)("of %s have %i records without a limit", (resource, limit) => {
    const page = search(DATA, resource, {});
    expect(page).toMatchObject({ limit });
    expect(page.records).toHaveLength(limit);
    expect(page.offset).toBe(resource === "areas" ? undefined : 0);
  });

  it("follow each other without gap or overlap", () => {
    const whole = search(DATA, "sold", { limit: "20" }).records;
    const halves = ["0", "10"].flatMap((offset) => search(DATA, "sold", { limit: "10", offset }).records);
    expect(halves).toEqual(whole);
  });

  it("are empty after the end and with limit 0, and have the total count", () => {
    expect(search(DATA, "sold", { offset: "1200" })).toMatchObject({ totalCount: 1200, records: [] });
    expect(search(DATA, "sold", { limit: "0" })).toMatchObject({ totalCount: 1200, records: [] });
  });
});

describe("the echoed parameters", () => {
  it.each<["listings" | "areas", SearchParams, Record<string, unknown>]>([
    ["listings", {}, {}],
    ["listings", { areaId: "76", limit: "3", offset: "6", x: "1" }, { areaId: 76 }],
    [
      "listings",
      { areaId: "76,1", q: " Nacka ", minRooms: "2.5" },
      { areaId: "76,1", q: "Nacka", minRooms: 2.5 },
    ],
    ["listings", new URLSearchParams("areaId=1&areaId=76"), { areaId: 76 }],
    ["areas", { q: "Nacka", listings: "1" }, { q: "Nacka", listings: 1, transactions: 0 }],
  ])("%s %o", (resource, params, echoed) => {
    expect(search(DATA, resource, params).searchParams).toEqual(echoed);
  });
});

describe("malformed values", () => {
  it.each([
    ["listings", "limit", "501"],
    ["sold", "limit", "501"],
    ["areas", "limit", "501"],
    ["listings", "limit", "-1"],
    ["listings", "limit", "ten"],
    ["listings", "offset", "-1"],
    ["listings", "offset", "1.5"],
    ["listings", "minListPrice", "undefined"],
    ["listings", "minListPrice", "1500000.5"],
    ["listings", "minRooms", "two"],
    ["listings", "minRooms", "0x10"],
    ["listings", "areaId", "Nacka"],
    ["listings", "areaId", ","],
    ["listings", "areaId", "-1"],
    ["listings", "objectType", "slott"],
    ["listings", "objectType", "villa,slott"],
    ["listings", "center", "59.3"],
    ["listings", "center", "91,18"],
    ["listings", "dim", "10"],
    ["listings", "bbox", "1,2,3"],
    ["listings", "bbox", "1,2,3,181"],
    ["listings", "minPublished", "2026-01-01"],
    ["listings", "minPublished", "20260231"],
    ["listings", "minPublished", "20261301"],
    ["sold", "maxSoldDate", "2024"],
    ["listings", "priceDecrease", "yes"],
    ["listings", "isNewConstruction", "2"],
    ["listings", "includeUnset", "true"],
    ["areas", "lat", "59.3"],
    ["areas", "lng", "18"],
    ["areas", "listings", "x"],
  ] as const)("%s %s=%s", (resource, name, value) => {
    expect(() => search(DATA, resource, { [name]: value })).toThrow(BadParameter);
  });

  it.each(["1500000", "1500000.0", "+1500000"])("do not include %s for an integer", (minListPrice) => {
    expect(search(DATA, "listings", { minListPrice }).totalCount).toBe(
      search(DATA, "listings", { minListPrice: "1500000" }).totalCount,
    );
  });
});

describe("areas", () => {
  const names = (params: Record<string, string>): string[] =>
    search(DATA, "areas", { limit: "500", ...params }).records.map((record) =>
      "name" in record ? record.name : "",
    );

  it("are found by name, the best match first", () => {
    expect(names({ q: "nacka" })[0]).toBe("Nacka");
    expect(names({ q: "nacka" })).toContain("Nacka Strand");
    expect(names({ q: "atlantis" })).toEqual([]);
  });

  it("are all listed without a query, in the order of their ids", () => {
    const ids = search(DATA, "areas", { limit: "500" }).records.map((record) => record.serviceId);
    expect(ids).toHaveLength(DATA.areas.length);
    expect(ids).toEqual([...ids].sort((a, b) => a - b));
  });

  it("are found by whether they contain listings or sold properties", () => {
    for (const [name, inside] of [
      ["listings", DATA.areasWithListings],
      ["transactions", DATA.areasWithSold],
    ] as const) {
      const found = search(DATA, "areas", { [name]: "1", limit: "500" });
      expect(found.records.every((record) => inside.has(record.serviceId))).toBe(true);
      expect(found.totalCount).toBe(inside.size);
      expect(found.totalCount).toBeLessThan(DATA.areas.length);
    }
  });

  it("are found by a point in them, the smallest first", () => {
    const found = names({ lat: "59.31", lng: "18.2" });
    expect(found).toEqual(expect.arrayContaining(["Nacka", "Stockholms län"]));
    expect(found.indexOf("Nacka")).toBeLessThan(found.indexOf("Stockholms län"));
  });

  it("are the nearest one if none contains the point", () => {
    expect(names({ lat: "57.7", lng: "-30" })).toHaveLength(1);
  });
});
