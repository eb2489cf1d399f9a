import { describe, expect, it } from "vitest";

import { parsedTarget, understood } from "../../support/understood.ts";

const HASH = "0123456789abcdef0123456789abcdef01234567";

describe("spellings of one question", () => {
  it.each<[string, string, string[]]>([
    [
      "order, encoding, lists, numbers",
      "listings?areaId=1,76&minRooms=3&objectType=villa,radhus&limit=50&offset=0",
      [
        "/listings?offset=0&limit=50&objectType=radhus,villa&minRooms=3&areaId=76,1",
        "/listings?areaId=76%2C1&minRooms=3.0&objectType=Villa%2cRADHUS&limit=50",
        "/listings?areaId=1&areaId=76&areaId=1&minRooms=%2B3&objectType=villa&objectType=radhus&limit=050",
        "/listings/?&areaId=+76+,+1+&minRooms=03&objectType=radhus,%20villa&limit=50&&offset=",
        "//listings//?limit=50&minRooms=3.&areaId=01,76.0&objectType=villa,villa,radhus",
        "http://old.example/listings?areaId=1,76&minRooms=3&objectType=villa,radhus&limit=50",
        "/list%69ngs?areaId=1,,76,&minRooms=3&objectType=villa,undefined,radhus&limit=50",
      ],
    ],
    [
      "an empty query",
      "listings?offset=0",
      ["/listings", "/listings?", "/listings/?&", "/listings?&&", "/listings&", "/listings?=1"],
    ],
    [
      "what says nothing",
      "listings?offset=0",
      [
        "/listings?q=&areaId=undefined&minRooms=null&maxRent=NaN&limit=%20",
        "/listings?includeUnset=1&offset=0&priceDecrease=0&dim=100,200",
        "/listings?includeUnset=true&priceDecrease=false&areaId=,",
        `/listings?callerId=x&time=1700000000000&unique=abc&hash=${HASH}&_=1&key=k`,
      ],
    ],
    [
      "coordinates and dates",
      "listings?center=59.3,18&dim=100,200&minPublished=20260131&offset=0",
      [
        "/listings?center=59.30,18.0&dim=100,200&minPublished=2026-01-31",
        "/listings?center=%2B59.3,+018.00&dim=100.0,%20200&minPublished=20260131",
      ],
    ],
    [
      "unicode",
      "areas?q=S%C3%B6dermalm",
      ["/areas?q=S%c3%b6dermalm", "/areas?q=So%CC%88dermalm", "/areas?q=+Södermalm+"],
    ],
    [
      "switches",
      "sold?isNewConstruction=0&offset=0",
      ["/sold?isNewConstruction=false", "/sold?isNewConstruction=0.0"],
    ],
    [
      "areas without properties named",
      "areas?q=x",
      ["/areas?q=x&listings=0&transactions=false", "/areas?q=x&limit="],
    ],
    [
      "an `&` for the `?` behind an id",
      "listings/4711?format=json",
      ["/listings/4711&format=json", "/listings/04711?format=json"],
    ],
    ["a record", "sold/4711", ["/sold/4711", "/sold/4711/", `/sold/4711?hash=${HASH}`, "/sold/%34711"]],
    [
      "a thumbnail",
      "images/4711_140x94",
      ["/cache/primary_4711_140x94.jpg", "/cache//primary_04711_0140x094.jpg?"],
    ],
  ])("%s", (_name, text, targets) => {
    for (const target of targets) expect([target, understood(target)]).toEqual([target, text]);
  });
});

describe("a range that is upside down", () => {
  it.each([
    ["/listings?minRooms=5&maxRooms=2", "refused: minRooms"],
    ["/sold?minSoldDate=20260102&maxSoldDate=2026-01-01", "refused: minSoldDate"],
    ["/sold?minSoldPrice=9007199254740993&maxSoldPrice=9007199254740993.0", undefined],
    ["/listings?minRooms=0.5&maxRooms=.50&minConstructionYear=0900&maxConstructionYear=1000", undefined],
  ])("is refused, as in %s", (target, refused) => {
    if (refused === undefined) expect(understood(target)).not.toMatch(/^refused/);
    else expect(understood(target)).toBe(refused);
  });
});

describe("different questions", () => {
  it.each([
    ["case of q", "/areas?q=Nacka", "/areas?q=nacka"],
    ["inner words of q", "/areas?q=a+b", "/areas?q=a++b"],
    ["new construction excluded, or not asked about", "/listings?isNewConstruction=0", "/listings"],
    ["a limit, or none", "/listings", "/listings?limit=35"],
    ["unset included, or not", "/listings?includeUnset=0", "/listings"],
    [
      "numbers beyond floating point",
      "/listings?minListPrice=9007199254740993",
      "/listings?minListPrice=9007199254740992",
    ],
    ["an undocumented flag, empty or absent", "/listings?beta=", "/listings"],
    ["order of an undocumented parameter's values", "/listings?x=1&x=2", "/listings?x=2&x=1"],
    ["an encoded ampersand in a value", "/areas?q=a%26limit=5", "/areas?q=a&limit=5"],
    ["resources", "/listings?q=a", "/sold?q=a"],
    ["areas' offset, which is not documented", "/areas?q=a&offset=10", "/areas?q=a"],
  ])("%s", (_name, one, other) => {
    expect(understood(one)).not.toMatch(/^refused|^nothing/);
    expect(understood(one)).not.toBe(understood(other));
  });
});

describe("a misspelled value", () => {
  it.each([
    ["/listings?objectType=vila", "did you mean villa?"],
    ["/listings?objectType=radhuss", "did you mean radhus?"],
    ["/listings?objectType=Tomt/Mark", "did you mean tomt-mark?"],
  ])("gets a hint, as in %s", (target, hint) => {
    const parsed = parsedTarget(target);
    expect(parsed?.ok === false && parsed.faults[0]?.hint).toBe(hint);
  });
});

describe("undocumented parameters", () => {
  it("of records follow the setting", () => {
    const recordPath = "/{resource}/id/{serviceId}";
    expect(understood("/sold/id/7", { recordPath })).toBe("sold/7");
    expect(understood("/sold/7", { recordPath })).toBe("nothing there");
  });

  it("that are passed through follow the setting, below known resources only", () => {
    const passThrough = ["/listings/{serviceId}/similar", "/areas/*", "/other/*"];
    expect(understood("/listings/7/similar/", { passThrough })).toBe("streamed: /listings/7/similar");
    expect(understood("/areas/a%20b/c", { passThrough })).toBe("streamed: /areas/a%20b/c");
    expect(understood("/listings/7/other", { passThrough })).toBe("nothing there");
    expect(understood("/other/x", { passThrough })).toBe("nothing there");
    expect(understood("/listings/7", { passThrough: ["/listings/*"] })).toBe("listings/7");
  });
});
