import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { negotiateCoding, negotiateFormat, noneMatchNames } from "../../../src/http/negotiate.ts";

const SERVICE = "PropertyService";
const V2 = "application/vnd.propertyservice-v2+json";

describe("Accept for JSON", () => {
  it.each([
    [undefined, "json"],
    ["", "json"],
    ["*/*", "json"],
    ["application/*", "json"],
    ["Application/JSON", "json"],
    ["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "json"],
    [V2.toUpperCase(), "v2"],
    ["application/vnd.PropertyService-v2+json", "v2"],
    [`${V2}, */*`, "v2"],
    [`text/html, ${V2}`, "v2"],
  ])("%s means %s", (accept, format) => {
    expect(negotiateFormat(accept, false, SERVICE)).toBe(format);
  });

  it.each([
    [`application/json; q=0.5, ${V2}`, "v2"],
    [`application/json ; q=0.5 , ${V2} ; q=0.4`, "json"],
    [`${V2};q=0.9, application/*;q=0.8`, "v2"],
    [`${V2};Q=0.1, application/json;Q=0.2`, "json"],
    ["*/*, application/json; q=0", "v2"],
    [`application/*;q=0.3, ${V2};q=0`, "json"],
  ])("weights are honoured: %s means %s", (accept, format) => {
    expect(negotiateFormat(accept, false, SERVICE)).toBe(format);
  });

  it.each([
    ["application/json; charset=utf-8", "json"],
    [`application/json;q=0.4;charset=utf-8, ${V2};q=0.5`, "v2"],
    ['application/json;profile="https://schema.example/x"', "json"],
  ])("parameters are ignored: %s means %s", (accept, format) => {
    expect(negotiateFormat(accept, false, SERVICE)).toBe(format);
  });

  it.each([
    "text/html",
    "application/xml, text/*",
    "application/vnd.propertyservice-v1+json",
    "application/vnd.other-v2+json",
    "image/jpeg",
    ",",
    "application/json;q=0",
    "application/json ; q=0.0, text/html",
    "*/*; q=0.000",
  ])("%s cannot be served", (accept) => {
    expect(negotiateFormat(accept, false, SERVICE)).toBeUndefined();
  });
});

describe("Accept for a thumbnail", () => {
  it.each([
    undefined,
    "*/*",
    "image/jpeg",
    "image/jpeg; q=0.1",
    "image/avif,image/webp,image/apng,image/*,*/*;q=0.8",
  ])("%s accepts it", (accept) => {
    expect(negotiateFormat(accept, true, SERVICE)).toBe("jpeg");
  });

  it.each([
    "application/json",
    V2,
    "image/webp, text/*",
    "image/jpeg; q=0",
    "image/*; q=0, application/json",
  ])("%s does not accept it", (accept) => {
    expect(negotiateFormat(accept, true, SERVICE)).toBeUndefined();
  });
});

it("any Accept header gives a format or none, and never an error", () => {
  const piece = fc.oneof(
    fc.constantFrom(V2, "application/json", "*/*", "image/*", ";", ",", "q=", "0.5", "0", "=", '"', "/", " "),
    fc.string(),
  );
  fc.assert(
    fc.property(fc.array(piece), fc.boolean(), (pieces, images) => {
      expect(negotiateFormat(pieces.join(""), images, SERVICE)).toBeOneOf([
        ...(images ? ["jpeg"] : ["json", "v2"]),
        undefined,
      ]);
    }),
  );
});

describe("Accept-Encoding", () => {
  it.each([
    [undefined, "identity"],
    ["", "identity"],
    ["GZip", "gzip"],
    ["gzip, deflate, br", "br"],
    ["gzip, deflate, br, zstd", "zstd"],
    ["compress, nonsense", "identity"],
    ["*", "zstd"],
  ])("%s gets %s", (acceptEncoding, coding) => {
    expect(negotiateCoding(acceptEncoding)).toBe(coding);
  });

  it.each([
    ["gzip; q=0.2, br; q=0.5", "br"],
    ["gzip;q=0.5, identity", "identity"],
    ["zstd; q=0, *", "br"],
    ["gzip;q=0.5, *;q=0.1", "gzip"],
    ["gzip; q=0.0", "identity"],
    ["br;q=0, gzip;q=0, zstd;q=0", "identity"],
  ])("weights are honoured: %s gets %s", (acceptEncoding, coding) => {
    expect(negotiateCoding(acceptEncoding)).toBe(coding);
  });

  it.each([
    ["identity;q=0, gzip", "gzip"],
    ["identity;q=0, *", "zstd"],
    ["*;q=0, gzip", "gzip"],
    // Nothing is acceptable that can be had: an answer beats none (RFC 9110, section 12.5.3).
    ["identity;q=0", "identity"],
    ["*;q=0", "identity"],
  ])("identity is used only if no other encoding is accepted: %s gets %s", (acceptEncoding, coding) => {
    expect(negotiateCoding(acceptEncoding)).toBe(coding);
  });
});

describe("If-None-Match", () => {
  const TAGS = ["abc_-123", "abc_-123-gzip"];

  it.each([
    '"abc_-123"',
    'W/"abc_-123"',
    '"abc_-123-gzip"',
    '  "abc_-123"  ',
    '"other",W/"abc_-123-gzip","another"',
    '"with, comma", "abc_-123"',
    "*",
  ])("%s matches the ETag", (ifNoneMatch) => {
    expect(noneMatchNames(ifNoneMatch, TAGS)).toBe(true);
  });

  it.each([
    undefined,
    "",
    '"other"',
    "abc_-123",
    'abc_-123"',
    '"ABC_-123"',
    '"abc_-123-br"',
    '"x, abc_-123"',
  ])("%s does not accept it", (ifNoneMatch) => {
    expect(noneMatchNames(ifNoneMatch, TAGS)).toBe(false);
  });
});
