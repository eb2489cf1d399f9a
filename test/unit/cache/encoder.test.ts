import { gunzipSync } from "node:zlib";

import { describe, expect, it } from "vitest";

import { createEncoder, transcode } from "../../../src/cache/encoder.ts";
import type { Entry } from "../../../src/cache/entry.ts";
import { createMemoryStore, type MemoryStore } from "../../../src/cache/store/memory.ts";
import { Tiers } from "../../../src/cache/store/tiered.ts";
import type { ContentCoding } from "../../../src/content-codings.ts";
import { entryWith } from "../../support/entries.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

const CODINGS = ["gzip", "br", "zstd"] as const;
const KEY = "listings?offset=0";
const BODY = Buffer.from(JSON.stringify(Array.from({ length: 500 }, (_, serviceId) => ({ serviceId }))));
const ENTRY = entryWith(BODY, 1_000);

const clock = createFakeClock(1_000);

/** Encodes an answer, and stores the body with what memory has then. */
function encode(store: MemoryStore, entry: Entry, coding: ContentCoding): Promise<Buffer> {
  const { keepInMemory } = new Tiers(store, undefined, clock);
  return createEncoder(keepInMemory)(KEY, entry, coding, () => true).then(({ body }) => body);
}

describe("an encoded body", () => {
  it.each(CODINGS)("(%s) takes no more memory than its length", async (coding) => {
    const { buffer, length } = await encode(createMemoryStore(1_000_000, clock), ENTRY, coding);
    expect(buffer.byteLength).toBe(length);
  });

  it.each<[string, Entry | undefined]>([
    ["newer", entryWith("newer", 2_000)],
    ["of the same instant with another body", entryWith("newer", 1_000, { etag: "another" })],
    ["removed", undefined],
  ])("is not stored with an entry that is %s", async (_name, newer) => {
    const store = createMemoryStore(1_000_000, clock);
    store.put(KEY, ENTRY);
    const encoding = encode(store, ENTRY, "gzip");
    if (newer === undefined) store.drop(KEY);
    else store.put(KEY, newer);
    expect(gunzipSync(await encoding).equals(BODY)).toBe(true);
    expect(store.find(KEY)).toEqual(newer);
  });

  it("that does not fit into the store is served, and the entry stays", async () => {
    // Random bytes do not shrink: with the coding the entry is twice as large.
    const body = Buffer.from(crypto.getRandomValues(new Uint8Array(10_000)));
    const entry = entryWith(body, 1_000);
    const store = createMemoryStore(8 * 15_000, clock);
    expect(store.put(KEY, entry)).toBe(true);
    expect(gunzipSync(await encode(store, entry, "gzip")).equals(body)).toBe(true);
    expect(store.find(KEY)).toEqual(entry);
  });
});

it("a body that is larger than its entry says is not decompressed", async () => {
  const whole = entryWith(Buffer.alloc(1_000_000), 1_000);
  const bomb = { ...whole, bodies: { zstd: await transcode(whole, "zstd") } };
  const decoding = encode(createMemoryStore(1_000_000, clock), { ...bomb, bodyBytes: 2 }, "identity");
  await expect(decoding).rejects.toThrow("Cannot create a Buffer larger than 2 bytes");
});

describe("many bodies at once", () => {
  const entries = Array.from({ length: 200 }, (_, nth) => entryWith(BODY, 1_000, { etag: `${nth}` }));
  const encodeAll = (isWanted: (nth: number) => boolean): Promise<string>[] => {
    const encodeOne = createEncoder(() => undefined);
    return entries.map((entry, nth) =>
      encodeOne(KEY, entry, "br", () => isWanted(nth)).then(
        ({ coding }) => coding,
        ({ name }: Error) => name,
      ),
    );
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
