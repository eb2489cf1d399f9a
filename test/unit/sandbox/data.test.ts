import { describe, expect, it } from "vitest";

import { generateData } from "../../../src/sandbox/dataset/generate.ts";
import { phpJson } from "../../../src/sandbox/envelope.ts";
import { seededRandom, weightedPicker } from "../../../src/sandbox/random.ts";
import { DATA } from "./support.ts";

const SMALL = { seed: 3, listings: 40, sold: 60, service: "propertyservice" };
const RECORDS = [...DATA.listings, ...DATA.sold].map((row) => row.record);

describe("the data set", () => {
  it("depends only on the seed", () => {
    expect(generateData(SMALL)).toEqual(generateData(SMALL));
    expect(generateData({ ...SMALL, seed: 4 })).not.toEqual(generateData(SMALL));
  });

  it("keeps its listings when there are more or fewer sold records", () => {
    expect(generateData({ ...SMALL, sold: 5 }).listings).toEqual(generateData(SMALL).listings);
  });

  it.each([
    [1, "Stockholm", "Kommun", 2],
    [2, "Stockholms län", "Län", undefined],
    [76, "Nacka", "Kommun", 2],
  ])("has area %i, %s", (serviceId, name, type, parentServiceId) => {
    const area = DATA.areas.find(({ record }) => record.serviceId === serviceId);
    expect(area?.record).toMatchObject({ name, types: [type] });
    expect(area?.record.parentServiceId).toBe(parentServiceId);
  });

  it("has about 400 areas of four kinds, each id once", () => {
    const ids = new Set(DATA.areas.map(({ record }) => record.serviceId));
    const kinds = new Set(DATA.areas.flatMap(({ record }) => record.types));
    expect(ids.size).toBe(DATA.areas.length);
    expect(DATA.areas.length).toBeGreaterThan(350);
    expect(DATA.areas.length).toBeLessThan(500);
    expect(kinds).toEqual(new Set(["Kommun", "Län", "Street", "undefined"]));
  });

  it("gives every property its own id", () => {
    expect(new Set(RECORDS.map((record) => record.serviceId)).size).toBe(RECORDS.length);
  });

  it.each([
    "listPrice",
    "rent",
    "floor",
    "constructionYear",
    "livingArea",
    "rooms",
    "plotArea",
    "additionalArea",
    "listPriceChange",
    "isNewConstruction",
  ] as const)("omits %s sometimes, and never writes null", (field) => {
    const having = RECORDS.filter((record) => field in record);
    expect(having.length).toBeGreaterThan(0);
    expect(having.length).toBeLessThan(RECORDS.length);
    expect(having.every((record) => record[field] !== null && record[field] !== undefined)).toBe(true);
  });

  it("has every object type, ground floors, and half rooms and square metres", () => {
    expect(new Set(RECORDS.map((record) => record.objectType)).size).toBe(8);
    expect(RECORDS.some((record) => record.floor === 0)).toBe(true);
    expect(RECORDS.some((record) => (record.rooms ?? 0) % 1 === 0.5)).toBe(true);
    expect(RECORDS.some((record) => (record.livingArea ?? 0) % 1 === 0.5)).toBe(true);
  });

  it("has realistic prices", () => {
    const prices = DATA.sold.map(({ record }) => record.soldPrice ?? 0).sort((a, b) => a - b);
    expect(prices[0]).toBeGreaterThanOrEqual(500_000);
    expect(prices.at(-1)).toBeLessThanOrEqual(30_000_000);
    expect(prices[Math.floor(prices.length / 2)]).toBeGreaterThan(2_000_000);
    expect(prices[Math.floor(prices.length / 2)]).toBeLessThan(4_000_000);
  });

  it("takes about 665 bytes a record", () => {
    const bytes = DATA.sold.map(({ record }) => phpJson(record).length);
    const mean = bytes.reduce((sum, size) => sum + size, 0) / bytes.length;
    expect(mean).toBeGreaterThan(600);
    expect(mean).toBeLessThan(730);
  });

  it("lists newest first, then by id", () => {
    const published = DATA.listings.map(({ record }) => record.published);
    expect(published).toEqual([...published].sort().toReversed());
    const sold = DATA.sold.map(({ record }) => `${record.soldDate} ${1e9 - record.serviceId}`);
    expect(sold).toEqual([...sold].sort().toReversed());
  });
});

describe("phpJson", () => {
  it.each([
    ["a/b", String.raw`"a\/b"`],
    ["Skåne län", String.raw`"Sk\u00e5ne l\u00e4n"`],
    ["😀", String.raw`"\ud83d\ude00"`],
    [{ a: 1.5, b: undefined, c: ["x"] }, '{"a":1.5,"c":["x"]}'],
  ])("writes %j as PHP does", (value, text) => {
    expect(phpJson(value)).toBe(text);
    expect(JSON.parse(phpJson(value))).toEqual(value);
  });
});

describe("the seeded random numbers", () => {
  it("pick by weight, and never with weight 0", () => {
    const random = seededRandom(1);
    const pick = weightedPicker(["never", "seldom", "often"], (word) =>
      ["never", "seldom", "often"].indexOf(word),
    );
    const picked = Array.from({ length: 300 }, () => pick(random));
    expect(picked).not.toContain("never");
    expect(picked.filter((word) => word === "often").length).toBeGreaterThan(150);
  });

  it("refuse to pick from an empty list", () => {
    expect(() => seededRandom(1).pick([])).toThrow(RangeError);
  });
});
