import { describe, expect, it } from "vitest";

import { cacheKey, NAMESPACE, resourceOfKey } from "../../../src/query/key.ts";
import { understood } from "../../support/understood.ts";

const TARGETS = {
  listings: ["/listings", "/listings?q=%7Bsold", "/listings/7", "/listings/7?a=%7Bjson:sold"],
  sold: ["/sold?objectType=l%C3%A4genhet", "/sold/7"],
  areas: ["/areas", "/areas?q=listings"],
  images: ["/cache/primary_7_140x94.jpg"],
};

describe("a key", () => {
  it("is the canonical query behind a namespace and the format", () => {
    const target = "/listings?offset=0&objectType=radhus,villa&limit=50&minRooms=3&areaId=76,1";
    expect(cacheKey("json", understood(target))).toBe(
      "property-gateway:1:{json:listings?areaId=1,76&minRooms=3&objectType=villa,radhus&limit=50&offset=0}",
    );
  });

  it.each(Object.entries(TARGETS))("about %s has its kind", (resource, targets) => {
    for (const target of targets) {
      for (const format of ["json", "v2", "jpeg"] as const) {
        expect(resourceOfKey(cacheKey(format, understood(target)))).toBe(resource);
      }
    }
  });

  it.each(["", NAMESPACE, "other:{json:", "{json:}", `${NAMESPACE}{json:7}`])("is not %j", (text) => {
    expect(resourceOfKey(text)).toBeUndefined();
  });

  it("has one pair of braces, which decides the slot in Redis Cluster", () => {
    const key = cacheKey("v2", understood("/listings?q=%7Ba%7D%7B%7D&%7B=%7D"));
    expect(key.match(/[{}]/g)).toEqual(["{", "}"]);
    expect(key.endsWith("}")).toBe(true);
  });
});
