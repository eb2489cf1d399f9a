import { describe, expect, it } from "vitest";

import { mediaTypeOf } from "../../../src/interface/media-types.ts";
import {
  IMAGE_PATH,
  imagePath,
  isRecordResource,
  isSearchResource,
} from "../../../src/interface/resources.ts";

describe("what the upstream is asked for", () => {
  it("is a media type, with the service's name where it is frozen to a version", () => {
    expect(mediaTypeOf("json", "Example")).toBe("application/json");
    expect(mediaTypeOf("v2", "Example")).toBe("application/vnd.example-v2+json");
    expect(mediaTypeOf("jpeg", "Example")).toBe("image/jpeg");
  });

  it("is a thumbnail at the address that the interface shows", () => {
    expect(imagePath("4711", 140, 94)).toBe("/cache/primary_4711_140x94.jpg");
    expect(IMAGE_PATH.exec(imagePath("4711", 140, 94))?.slice(1)).toEqual(["4711", "140", "94"]);
  });

  it.each(["listings", "sold"])("is a search in %s, or one of its records", (name) => {
    expect([isSearchResource(name), isRecordResource(name)]).toEqual([true, true]);
  });

  it("is a search for areas, which are never shown one by one", () => {
    expect([isSearchResource("areas"), isRecordResource("areas")]).toEqual([true, false]);
  });

  it.each(["images", "Listings", "", "__proto__", "constructor", "toString", "length", "0"])(
    "is never a search in %j",
    (name) => {
      expect([isSearchResource(name), isRecordResource(name)]).toEqual([false, false]);
    },
  );
});
