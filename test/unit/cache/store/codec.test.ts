import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { transcode } from "../../../../src/cache/encoder.ts";
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

const entry = entries.map(({ body, ...fields }): Entry => ({
  ...fields,
  bodies: { identity: Buffer.from(body) },
  bodyBytes: body.length,
}));

describe("the stored form of an entry", () => {
  /** @returns the entry that is read, with its body without coding */
  async function stored(original: Entry): Promise<Entry | undefined> {
    const read = fromBlob(KEY, await toBlob(KEY, original, SEAL), SEAL);
    return read && { ...read, bodies: { identity: await transcode(read, "identity") } };
  }

  it("gives back what was put in", async () => {
    await fc.assert(
      fc.asyncProperty(entry, async (original) => {
        expect(await stored(original)).toEqual(original);
      }),
    );
  });

  it("has the whole body of an entry that is packed in memory", async () => {
    const body = Buffer.from("{}".repeat(2_000));
    const packed = entryWith(body, 0, { bodies: { packed: inFrames(body) } });
    expect(await stored(packed)).toEqual(entryWith(body, 0));
  });

  it("reads as nothing where a single byte is changed", async () => {
    await fc.assert(
      fc.asyncProperty(entry, fc.nat(), fc.integer({ min: 1, max: 255 }), async (original, at, change) => {
        const blob = await toBlob(KEY, original, SEAL);
        blob[at % blob.length] = (blob[at % blob.length] ?? 0) ^ change;
        expect(fromBlob(KEY, blob, SEAL)).toBeUndefined();
      }),
    );
  });

  it("reads as nothing where it is cut, or was never ours", async () => {
    await fc.assert(
      fc.asyncProperty(entry, fc.nat(), fc.uint8Array(), async (original, at, foreign) => {
        const blob = await toBlob(KEY, original, SEAL);
        expect(fromBlob(KEY, blob.subarray(0, at % blob.length), SEAL)).toBeUndefined();
        expect(fromBlob(KEY, Buffer.from(foreign), SEAL)).toBeUndefined();
      }),
    );
  });

  it("reads as nothing under another key, or with another secret", async () => {
    const original = entryWith("{}");
    expect(fromBlob("another key", await toBlob(KEY, original, SEAL), SEAL)).toBeUndefined();
    const guessed = createSeal(() => "a guess");
    expect(fromBlob(KEY, await toBlob(KEY, original, guessed), SEAL)).toBeUndefined();
  });

  it("reads as nothing where it is larger than any answer", async () => {
    const small = entryWith("{}");
    const large = { ...small, bodies: { identity: Buffer.alloc(MAX_BLOB_BYTES) } };
    expect(fromBlob(KEY, await toBlob(KEY, small, SEAL), SEAL)).toEqual(small);
    expect(fromBlob(KEY, await toBlob(KEY, large, SEAL), SEAL)).toBeUndefined();
  });

  it("is read with the secret before the present one, and not with an earlier one", async () => {
    let secret = "first";
    const seal = createSeal(() => secret);
    const blobs: Buffer[] = [];
    for (secret of ["first", "second", "third"]) blobs.push(await toBlob(KEY, entryWith("{}"), seal));
    expect(blobs.map((blob) => fromBlob(KEY, blob, seal) !== undefined)).toEqual([false, true, true]);
  });
});
