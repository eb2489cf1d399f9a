import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";

import { describe, expect, it } from "vitest";

import { createEncoder as createEncode, inStoredCoding, isCompressible } from "../../../src/cache/encoder.ts";
import { createMemoryStore, type MemoryStore } from "../../../src/cache/store/memory.ts";
import { Tiers } from "../../../src/cache/store/tiered.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import type { ContentCoding } from "../../../src/interface/media-types.ts";
import type { Entry } from "../../../src/cache/entry.ts";
import { entryWith, inFrames } from "../../support/entries.ts";
import { countFrames } from "../../support/zstd.ts";

const CODINGS = ["gzip", "br", "zstd"] as const;
const DECODERS = { gzip: gunzipSync, br: brotliDecompressSync, zstd: zstdDecompressSync };
const KEY = "listings?offset=0";
const BODY = Buffer.from(JSON.stringify(Array.from({ length: 500 }, (_, serviceId) => ({ serviceId }))));

const clock = createFakeClock(1_000);

/** An encoder whose callers wait for every body. */
function createEncoder(
  keepInMemory: Tiers["keepInMemory"],
): (key: string, entry: Entry, coding: ContentCoding) => Promise<Buffer> {
  const encode = createEncode(keepInMemory);
  return async (key, entry, coding) => (await encode(key, entry, coding, () => true)).body;
}

function memoryOf(maxBytes = 1024 * 1024): MemoryStore & Pick<Tiers, "keepInMemory"> {
  const memory = createMemoryStore(maxBytes, clock);
  return { ...memory, keepInMemory: new Tiers({ memory, store: undefined, clock }).keepInMemory };
}

function stored(entry: Entry): ReturnType<typeof memoryOf> {
  const store = memoryOf();
  store.put(KEY, entry);
  return store;
}

function kept(store: MemoryStore): Entry {
  const entry = store.find(KEY);
  if (entry === undefined) throw new Error("the entry is gone");
  return entry;
}

describe("an encoded body", () => {
  it.each(CODINGS)("(%s) decodes to the body and is smaller", async (coding) => {
    const entry = entryWith(BODY, 1_000);
    const encoded = await createEncoder(stored(entry).keepInMemory)(KEY, entry, coding);
    expect(DECODERS[coding](encoded).equals(BODY)).toBe(true);
    expect(encoded.length).toBeLessThan(BODY.length / 2);
  });

  it("is encoded once and stored with the entry", async () => {
    const store = stored(entryWith(BODY, 1_000));
    const encode = createEncoder(store.keepInMemory);
    for (const coding of CODINGS) {
      const first = await encode(KEY, kept(store), coding);
      expect(kept(store).bodies[coding]).toBe(first);
      expect(await encode(KEY, kept(store), coding)).toBe(first);
    }
    expect(Object.keys(kept(store).bodies).sort()).toEqual(["br", "gzip", "identity", "zstd"]);
  });

  it.each(CODINGS)("(%s) takes no more memory than its length", async (coding) => {
    const store = stored(entryWith(BODY, 1_000));
    const { buffer, length } = await createEncoder(store.keepInMemory)(KEY, kept(store), coding);
    expect(buffer.byteLength).toBe(length);
  });

  it("is encoded once for simultaneous requests", async () => {
    const entry = entryWith(BODY, 1_000);
    const store = stored(entry);
    const encode = createEncoder(store.keepInMemory);
    const made = await Promise.all(Array.from({ length: 50 }, () => encode(KEY, entry, "br")));
    expect(new Set(made).size).toBe(1);
  });

  it.each<[string, Partial<Entry>]>([
    ["newer", { storedAt: 2_000 }],
    ["of the same instant with another body", { etag: "another" }],
  ])("is not stored with an entry that is %s", async (_name, change) => {
    const entry = entryWith(BODY, 1_000);
    const store = stored(entry);
    const encoding = createEncoder(store.keepInMemory)(KEY, entry, "gzip");
    const newer = entryWith("newer", 1_000, change);
    store.put(KEY, newer);
    expect(gunzipSync(await encoding).equals(BODY)).toBe(true);
    expect(kept(store)).toEqual(newer);
  });

  it("does not store an entry again that was removed", async () => {
    const store = memoryOf();
    const encoded = await createEncoder(store.keepInMemory)(KEY, entryWith(BODY, 1_000), "gzip");
    expect(gunzipSync(encoded).equals(BODY)).toBe(true);
    expect(store.find(KEY)).toBeUndefined();
  });

  it("that does not fit into the store is served, and the entry stays", async () => {
    // Random bytes do not shrink: with the coding the entry is twice as large.
    const body = Buffer.from(crypto.getRandomValues(new Uint8Array(10_000)));
    const entry = entryWith(body, 1_000);
    const store = memoryOf(8 * 15_000);
    expect(store.put(KEY, entry)).toBe(true);
    const encoded = await createEncoder(store.keepInMemory)(KEY, entry, "gzip");
    expect(gunzipSync(encoded).equals(body)).toBe(true);
    expect(store.find(KEY)).toEqual(entry);
  });
});

describe("a body as the stores keep it", () => {
  it("is available in any encoding", async () => {
    const encode = createEncoder(() => undefined);
    const entry = await inStoredCoding(entryWith(BODY, 1_000));
    expect(Object.keys(entry.bodies)).toEqual(["zstd"]);
    expect((await encode(KEY, entry, "identity")).equals(BODY)).toBe(true);
    for (const coding of CODINGS)
      expect(DECODERS[coding](await encode(KEY, entry, coding)).equals(BODY)).toBe(true);
  });

  it("is not decompressed if it is larger than its entry says", async () => {
    const bomb = await inStoredCoding(entryWith(Buffer.alloc(1_000_000), 1_000));
    const entry = { ...bomb, bodyBytes: 2 };
    await expect(createEncoder(() => undefined)(KEY, entry, "identity")).rejects.toThrow(
      "Cannot create a Buffer larger than 2 bytes",
    );
  });
});

describe("a body cached in several frames", () => {
  it.each([
    ["a few kilobytes", BODY],
    ["a megabyte", Buffer.from("räksmörgås ".repeat(90_000))],
  ])("of %s is available in any encoding, and in zstd as a single frame", async (_name, body) => {
    const entry = entryWith(body, 1_000, { bodies: { packed: inFrames(body) } });
    const encode = createEncoder(() => undefined);
    expect((await encode(KEY, entry, "identity")).equals(body)).toBe(true);
    for (const coding of CODINGS)
      expect(DECODERS[coding](await encode(KEY, entry, coding)).equals(body)).toBe(true);
    expect(countFrames(inFrames(body).zstd)).toBe(2);
    expect(countFrames(await encode(KEY, entry, "zstd"))).toBe(1);
  });
});

describe("many bodies at once", () => {
  const entries = Array.from({ length: 200 }, (_, nth) => entryWith(BODY, 1_000, { etag: `${nth}` }));
  const encodeAll = (isWanted: (nth: number) => boolean): Promise<string>[] => {
    const encode = createEncode(() => undefined);
    return entries.map(async (entry, nth) => {
      try {
        return (await encode(KEY, entry, "br", () => isWanted(nth))).coding;
      } catch (error) {
        return error instanceof Error ? error.name : "?";
      }
    });
  };

  it("are compressed as far as the queue reaches, and the others are sent as they are", async () => {
    const codings = await Promise.all(encodeAll(() => true));
    // 2 at once, and 64 wait.
    expect(codings.filter((coding) => coding === "br").length).toBe(66);
    expect(codings.filter((coding) => coding === "identity").length).toBe(134);
  });

  it("are not compressed for callers that have gone", async () => {
    let hasHungUp = false;
    const all = encodeAll((nth) => !hasHungUp || nth === 10);
    hasHungUp = true;
    const ends = await Promise.all(all);
    expect(ends.filter((end) => end === "JobDropped").length).toBe(63);
    expect(ends[10]).toBe("br");
  });
});

describe("compressing", () => {
  it.each([
    ["application/json", 1_024, true],
    ["application/vnd.propertyservice-v2+json", 5_000, true],
    ["application/json", 1_023, false],
    ["application/problem+json", 200, false],
    ["image/jpeg", 5_000, false],
  ])("%s of %i bytes: %s", (contentType, bytes, worth) => {
    expect(isCompressible(entryWith(Buffer.alloc(bytes), 0, { contentType }))).toBe(worth);
  });
});
