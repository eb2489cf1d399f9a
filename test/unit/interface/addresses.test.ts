import { describe, expect, it } from "vitest";

import { mediaTypeOf } from "../../../src/interface/media-types.ts";
import {
  IMAGE_PATH,
  imagePath,
  isRecordResource,
  isSearchResource,
} from "../../../src/interface/resources.ts";

describe("an upstream request", () => {
  it("asks for a media type, with the service's name for a version", () => {
    expect(mediaTypeOf("json", "Example")).toBe("application/json");
    expect(mediaTypeOf("v2", "Example")).toBe("application/vnd.example-v2+json");
    expect(mediaTypeOf("jpeg", "Example")).toBe("image/jpeg");
  });

  it("for a thumbnail has the interface's path", () => {
    expect(imagePath("4711", 140, 94)).toBe("/cache/primary_4711_140x94.jpg");
    expect(IMAGE_PATH.exec(imagePath("4711", 140, 94))?.slice(1)).toEqual(["4711", "140", "94"]);
  });

  it.each(["listings", "sold"])("for %s is a search or a record", (name) => {
    expect([isSearchResource(name), isRecordResource(name)]).toEqual([true, true]);
  });

  it("for areas is a search, and never a record", () => {
    expect([isSearchResource("areas"), isRecordResource("areas")]).toEqual([true, false]);
  });

  it.each(["images", "Listings", "", "__proto__", "constructor", "toString", "length", "0"])(
    "cannot be a search in %j",
    (name) => {
      expect([isSearchResource(name), isRecordResource(name)]).toEqual([false, false]);
    },
  );
});
