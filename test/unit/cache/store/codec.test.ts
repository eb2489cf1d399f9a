import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { fromBlob, MAX_BLOB_BYTES, toBlob } from "../../../../src/cache/store/codec.ts";
import { createSeal } from "../../../../src/process/seal.ts";
import type { Entry } from "../../../../src/cache/entry.ts";
import { entryWith, inFrames } from "../../../support/entries.ts";

const KEY = "a key";
const SEAL = createSeal(() => "a secret");

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
  tags: fc.array(fc.string()),
  rates: fc.option(
    fc.record({ changes: fc.nat(), watchedMs: fc.nat(), requests: fc.nat(), countedMs: fc.nat() }),
    { nil: undefined },
  ),
  storedAt: fc.nat(),
  bornAt: fc.nat(),
  freshUntil: fc.nat(),
  keepUntil: fc.nat(),
  purgeEpoch: fc.nat(),
  served: fc.constant({ count: 0 }),
});

const entry = entries.map(({ body, coding, ...fields }): Entry => ({
  ...fields,
  bodies: { [coding]: Buffer.from(body) },
  bodyBytes: body.length,
}));

describe("the stored form of an entry", () => {
  it("gives back what was put in", () => {
    fc.assert(
      fc.property(entry, (original) => {
        expect(fromBlob(KEY, toBlob(KEY, original, SEAL), SEAL)).toEqual(original);
      }),
    );
  });

  it("does not exist for an entry without a body, or with only a packed one", () => {
    const body = Buffer.from("{}");
    for (const bodies of [{}, { packed: inFrames(body) }])
      expect(() => toBlob(KEY, entryWith(body, 0, { bodies }), SEAL)).toThrow("without a body");
  });

  it("reads as nothing where a single byte is changed", () => {
    fc.assert(
      fc.property(entry, fc.nat(), fc.integer({ min: 1, max: 255 }), (original, at, change) => {
        const blob = toBlob(KEY, original, SEAL);
        blob[at % blob.length] = (blob[at % blob.length] ?? 0) ^ change;
        expect(fromBlob(KEY, blob, SEAL)).toBeUndefined();
      }),
    );
  });

  it("reads as nothing where it is cut, or was never ours", () => {
    fc.assert(
      fc.property(entry, fc.nat(), fc.uint8Array(), (original, at, foreign) => {
        const blob = toBlob(KEY, original, SEAL);
        expect(fromBlob(KEY, blob.subarray(0, at % blob.length), SEAL)).toBeUndefined();
        expect(fromBlob(KEY, Buffer.from(foreign), SEAL)).toBeUndefined();
      }),
    );
  });

  it("reads as nothing under another key, with another secret, or in another shape", () => {
    const original = entryWith("{}");
    expect(fromBlob("another key", toBlob(KEY, original, SEAL), SEAL)).toBeUndefined();
    const guessed = createSeal(() => "a guess");
    expect(fromBlob(KEY, toBlob(KEY, original, guessed), SEAL)).toBeUndefined();
    // Of another shape, although its version is the same.
    Reflect.deleteProperty(original, "validators");
    expect(fromBlob(KEY, toBlob(KEY, original, SEAL), SEAL)).toBeUndefined();
  });

  it("reads as nothing where it is larger than any answer", () => {
    const small = entryWith("{}");
    const large = { ...small, bodies: { identity: Buffer.alloc(MAX_BLOB_BYTES) } };
    expect(fromBlob(KEY, toBlob(KEY, small, SEAL), SEAL)).toEqual(small);
    expect(fromBlob(KEY, toBlob(KEY, large, SEAL), SEAL)).toBeUndefined();
  });

  it("is read with the secret before the present one, and not with an earlier one", () => {
    let secret = "first";
    const seal = createSeal(() => secret);
    const blobs: Buffer[] = [];
    for (secret of ["first", "second", "third"]) blobs.push(toBlob(KEY, entryWith("{}"), seal));
    expect(blobs.map((blob) => fromBlob(KEY, blob, seal) !== undefined)).toEqual([false, true, true]);
  });
});
