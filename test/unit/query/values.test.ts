import { describe, expect, it } from "vitest";

import { OBJECT_TYPES } from "../../../src/interface/parameters.ts";
import { parsedTarget, understood } from "../../support/understood.ts";

/** The canonical value of one parameter: `nothing` where it says nothing, else `refused`. */
function value(name: string, raw: string, resource = "listings"): string {
  const text = understood(`/${resource}?${name}=${raw}`);
  if (text.startsWith("refused")) return "refused";
  return new URLSearchParams(text.split("?")[1]).get(name) ?? "nothing";
}

describe("a number", () => {
  it.each([
    ["3", "3"],
    ["3.0", "3"],
    ["3.", "3"],
    ["03", "3"],
    ["%2B3", "3"],
    ["+3", "3"],
    ["%09%2B003.000%0A", "3"],
    ["3%C2%A0", "3"],
    ["%EF%BB%BF3", "3"],
    ["0.5", "0.5"],
    [".5", "0.5"],
    ["-.50", "-0.5"],
    ["-0", "0"],
    ["-00.00", "0"],
    ["%2B0.", "0"],
    ["-3", "-3"],
    ["10", "10"],
    ["100.010", "100.01"],
    ["0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"],
    ["9".repeat(400), "9".repeat(400)],
    ["undefined", "nothing"],
    ["null", "nothing"],
    ["+NaN+", "nothing"],
    ["", "nothing"],
    [".", "refused"],
    ["-", "refused"],
    ["%2B", "refused"],
    ["%2B-3", "refused"],
    ["1e3", "refused"],
    ["0x10", "refused"],
    ["1%20000", "refused"],
    ["1,5", "refused"],
    ["1_000", "refused"],
    ["1.2.3", "refused"],
    ["Infinity", "refused"],
    ["nan", "refused"],
    ["NULL", "refused"],
    ["%D9%A3", "refused"], // the Arabic digit three
    ["%EF%BC%93", "refused"], // a three of full width
    ["3%00", "refused"],
    ["3%E2%80%8B", "refused"],
    ["%E2%88%923", "refused"], // a minus sign that is not the hyphen
    ["3%0A4", "refused"],
  ])("written %s is %s", (raw, read) => {
    expect(value("minRooms", raw)).toBe(read);
  });

  it.each([
    ["3.0", "3"],
    ["-5", "-5"],
    ["9007199254740993", "9007199254740993"],
    ["3.5", "refused"],
    ["9007199254740992.5", "refused"],
  ])("that must be an integer, written %s, is %s", (raw, read) => {
    expect(value("minListPrice", raw)).toBe(read);
  });

  it.each([
    ["limit", "0", "0"],
    ["limit", "500", "500"],
    ["limit", "0500.0", "500"],
    ["limit", "501", "refused"],
    ["limit", "9".repeat(400), "refused"],
    ["offset", "9007199254740991", "9007199254740991"],
    ["offset", "9007199254740992", "refused"],
    ["minConstructionYear", "9999", "9999"],
    ["minConstructionYear", "10000", "refused"],
    ["minConstructionYear", "-1", "refused"],
  ])("of %s may be %s or not: %s", (name, raw, read) => {
    expect(value(name, raw)).toBe(read);
  });
});

describe("a date", () => {
  it.each([
    ["20240229", "20240229"],
    ["2024-02-29", "20240229"],
    ["+20240229+", "20240229"],
    ["20230229", "refused"],
    ["20240431", "refused"],
    ["20241301", "refused"],
    ["20240100", "refused"],
    ["20240001", "refused"],
    ["2024-0229", "refused"],
    ["202402-29", "refused"],
    ["240229", "refused"],
    ["2024-2-29", "refused"],
    ["2024/02/29", "refused"],
    ["2024-02-29T00:00:00Z", "refused"],
    ["-20240229", "refused"],
    ["020240229", "refused"],
    ["null", "nothing"],
  ])("written %s is %s", (raw, read) => {
    expect(value("maxPublished", raw)).toBe(read);
  });
});

describe("a switch", () => {
  it.each([
    ["1", "1"],
    ["true", "1"],
    ["TRUE", "1"],
    ["01", "1"],
    ["1.0", "1"],
    ["+1", "1"],
    ["0", "0"],
    ["False", "0"],
    ["-0", "0"],
    ["2", "refused"],
    ["-1", "refused"],
    ["yes", "refused"],
    ["on", "refused"],
    ["1,1", "refused"],
    ["undefined", "nothing"],
  ])("written %s is %s", (raw, read) => {
    expect(value("isNewConstruction", raw)).toBe(read);
  });

  it.each([
    ["listings", "includeUnset", "1"],
    ["sold", "includeUnset", "1"],
    ["listings", "priceDecrease", "0"],
    ["areas", "listings", "0"],
    ["areas", "transactions", "0"],
  ])("of /%s named %s is dropped as %s", (resource, name, silent) => {
    const loud = silent === "1" ? "0" : "1";
    expect(value(name, silent, resource)).toBe("nothing");
    expect(value(name, silent === "1" ? "true" : "false", resource)).toBe("nothing");
    expect(value(name, loud, resource)).toBe(loud);
  });
});

describe("a set", () => {
  it.each([
    ["76,1", "1,76"],
    ["10,9,100,1", "1,9,10,100"],
    ["9007199254740993,9007199254740992", "9007199254740992,9007199254740993"],
    ["1,01,1.0,%2B1", "1"],
    ["-0", "0"],
    [",+,1,,undefined,null,NaN,", "1"],
    [",", "nothing"],
    ["+,undefined", "nothing"],
    ["1;2", "refused"],
    ["1+2", "refused"],
    ["1,-2", "refused"],
    ["1,2.5", "refused"],
    ["1%00", "refused"],
  ])("of ids written %s is %s", (raw, read) => {
    expect(value("areaId", raw)).toBe(read);
  });

  it.each([
    ["radhus,villa", "villa,radhus"],
    ["VILLA,+Radhus+,villa", "villa,radhus"],
    ["L%C3%84GENHET", "lägenhet"],
    ["la%CC%88genhet", "lägenhet"],
    ["g%E2%84%ABrd", "gård"], // the sign for angstrom
    ["null", "nothing"],
    ["villa,slott", "refused"],
    ["lagenhet", "refused"],
    ["v%C4%B0lla", "refused"], // a capital İ becomes two characters in lower case
    ["villa,%CC%88", "refused"],
    ["villa%00", "refused"],
  ])("of words written %s is %s", (raw, read) => {
    expect(value("objectType", raw)).toBe(read);
  });

  it("of all types is in the interface's order, and differs from none", () => {
    expect(value("objectType", OBJECT_TYPES.toReversed().map(encodeURIComponent).join())).toBe(
      OBJECT_TYPES.join(),
    );
  });

  it("is one set also if its name is repeated", () => {
    expect(understood("/sold?areaId=76&areaId=&areaId=1,76&areaId=null")).toBe("sold?areaId=1,76&offset=0");
    expect(understood("/sold?objectType=radhus&objectType=Villa,radhus")).toBe(
      "sold?objectType=villa,radhus&offset=0",
    );
  });
});

describe("coordinates", () => {
  it.each([
    ["center", "59.300,+018.0", "59.3,18"],
    ["center", "-0,-0.0", "0,0"],
    ["center", "90,-180", "90,-180"],
    ["center", "90.0001,18", "refused"],
    ["center", "59.3", "refused"],
    ["center", "59.3,18,1", "refused"],
    ["center", "59.3,", "refused"],
    ["center", "59.3;18", "refused"],
    ["center", "undefined,undefined", "refused"],
    ["center", "undefined", "nothing"],
    ["bbox", "59,18.0,+60,19", "59,18,60,19"],
    ["bbox", "60,18,59,19", "refused"],
    ["bbox", "59,19,60,18", "refused"],
    ["bbox", "59,18,60,190", "refused"],
    ["dim", "100,200", "nothing"],
  ])("of %s written %s are %s", (name, raw, read) => {
    expect(value(name, raw)).toBe(read);
  });

  it("may be given one by one, as some clients write lists", () => {
    expect(understood("/sold?bbox=59&bbox=18&bbox=60.0&bbox=19&center=1&center=2")).toBe(
      "sold?center=1,2&bbox=59,18,60,19&offset=0",
    );
    expect(understood("/sold?bbox=59&bbox=18&bbox=60")).toBe("refused: bbox, bbox, bbox");
  });

  it("have a size around them only if they are given", () => {
    expect(understood("/sold?dim=100,0200&center=59.3,18")).toBe("sold?center=59.3,18&dim=100,200&offset=0");
    expect(understood("/sold?dim=100,200&center=null")).toBe("sold?offset=0");
    expect(understood("/sold?dim=-100,200&center=59.3,18")).toBe("refused: dim");
  });

  it("of areas come in pairs", () => {
    expect(understood("/areas?lng=018.050&lat=%2B59.30")).toBe("areas?lat=59.3&lng=18.05");
    expect(understood("/areas?lat=0&lng=-0")).toBe("areas?lat=0&lng=0");
    expect(understood("/areas?lat=null&lng=")).toBe("areas");
    expect(understood("/areas?lat=59.3&lng=undefined")).toBe("refused: lat");
    expect(understood("/areas?lat=59.3&lng=181")).toBe("refused: lng");
  });
});

describe("a search string", () => {
  it.each([
    ["a++b", "a  b"],
    ["%E2%80%83Nacka%C2%A0", "Nacka"],
    ["e%CC%81", "é"],
    ["%EF%AC%81", "ﬁ"],
    ["%F0%9F%8F%A0", "🏠"],
    ["%CC%88", "\u0308"],
    ["+%CC%88", "\u0308"],
    ["03", "03"],
    ["Null", "Null"],
    ["undefined,", "undefined,"],
    ["%2500", "%00"],
    ["a%C2%85b", "a\u0085b"],
    ["null", "nothing"],
    ["a%0Ab", "refused"],
    ["a%7Fb", "refused"],
    ["%00", "refused"],
  ])("written %s is %j", (raw, read) => {
    expect(value("q", raw, "areas")).toBe(read);
  });
});

describe("a scalar given twice", () => {
  it.each([
    "q=a&q=A",
    "minRooms=3&minRooms=3.01",
    "limit=5&limit=6",
    "minPublished=20260101&minPublished=2026-01-02",
  ])("with two meanings, as in %s, is refused once with both values", (search) => {
    const parsed = parsedTarget(`/listings?${search}`);
    const values = [...new URLSearchParams(search).values()].join(" and ");
    expect(parsed).toMatchObject({ ok: false, faults: [{ value: values, expected: /twice/ }] });
  });

  it("with one meaning, or an empty value, has that meaning", () => {
    const search =
      "q=+a&q=a&limit=&limit=05&limit=5&includeUnset=1&includeUnset=true&bbox=1,2,3,4&bbox=1.0,2,3,4";
    expect(understood(`/listings?${search}`)).toBe("listings?q=a&bbox=1,2,3,4&limit=5&offset=0");
  });

  it("is refused even if one of its values is the default", () => {
    expect(understood("/listings?offset=0&offset=5&includeUnset=0&includeUnset=1")).toBe(
      "refused: includeUnset, offset",
    );
  });
});
