import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { fromBlob, toBlob } from "../../../../src/cache/store/codec.ts";
import type { Entry } from "../../../../src/types.ts";
import { entryWith, inFrames } from "../../../support/entries.ts";

const orNone = (text: fc.Arbitrary<string>): fc.Arbitrary<string | undefined> =>
  fc.option(text, { nil: undefined });

const entries = fc.record({
  status: fc.constantFrom(200 as const, 400 as const, 404 as const),
  contentType: fc.string(),
  body: fc.uint8Array({ maxLength: 2_000 }),
  coding: fc.constantFrom("identity" as const, "zstd" as const, "br" as const, "gzip" as const),
  etag: fc.string(),
  validators: fc.record({ etag: orNone(fc.string()), lastModified: orNone(fc.string()) }),
  upstreamStale: fc.record({ whileRevalidateMs: fc.nat(), ifErrorMs: fc.nat() }, { requiredKeys: [] }),
  changeRate: fc.record(
    { changes: fc.double({ min: 0, max: 5, noNaN: true }), watchedMs: fc.nat(), shadowUntil: fc.nat() },
    { requiredKeys: ["changes", "watchedMs"] },
  ),
  fetchMs: fc.double({ min: 0, max: 10_000, noNaN: true }),
  tags: fc.array(fc.string()),
  times: fc.tuple(fc.nat(), fc.nat(), fc.nat(), fc.nat(), fc.nat()),
});

const entry = entries.map(({ body, coding, times, ...fields }): Entry => {
  const [storedAt, freshUntil, keepUntil, purgeEpoch, bornAt] = times;
  return {
    ...fields,
    bodies: { [coding]: Buffer.from(body) },
    bodyBytes: body.length,
    storedAt,
    bornAt,
    freshUntil,
    keepUntil,
    purgeEpoch,
  };
});

describe("the stored form of an entry", () => {
  it("gives back what was put in", () => {
    fc.assert(
      fc.property(entry, (original) => {
        expect(fromBlob(toBlob(original))).toEqual(original);
      }),
    );
  });

  it("does not exist for an entry without a body, or with only a packed one", () => {
    const body = Buffer.from("{}");
    for (const bodies of [{}, { packed: inFrames(body) }])
      expect(() => toBlob(entryWith(body, 0, { bodies }))).toThrow("without a body");
  });

  it("reads as nothing where a single byte is changed", () => {
    fc.assert(
      fc.property(entry, fc.nat(), fc.integer({ min: 1, max: 255 }), (original, at, change) => {
        const blob = toBlob(original);
        blob[at % blob.length] = (blob[at % blob.length] ?? 0) ^ change;
        expect(fromBlob(blob)).toBeUndefined();
      }),
    );
  });

  it("reads as nothing where it is cut, or was never ours", () => {
    fc.assert(
      fc.property(entry, fc.nat(), fc.uint8Array(), (original, at, foreign) => {
        const blob = toBlob(original);
        expect(fromBlob(blob.subarray(0, at % blob.length))).toBeUndefined();
        expect(fromBlob(Buffer.from(foreign))).toBeUndefined();
      }),
    );
  });
});
